/* The C API of the compiler: mp IR text in, a saved Program and a report out.
 *
 * Functions may be called from several threads at once. Nothing here prints,
 * throws or ends the process. Strings and bytes belong to the result and live
 * until gsRelease; text is UTF-8 and ends with a zero that is not counted.
 */
#ifndef GOSSAMER_C_GOSSAMER_H
#define GOSSAMER_C_GOSSAMER_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GS_API __attribute__((visibility("default")))
#else
#define GS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct GsResult GsResult;

typedef struct {
  const char *data;
  size_t size;
} GsBytes;

/* What a result holds. After a failed compilation only GS_ERROR_* are filled.
 */
typedef enum {
  GS_PROGRAM = 0,  /* a saved Program (program/Serialize.h) */
  GS_REMARKS = 1,  /* one JSON object a line: pass, kind, file, line, message */
  GS_BUFFERS = 2,  /* a JSON list: rows, graph, shape, dtype, lifetime */
  GS_CAPTURED = 3, /* text of the stages, with option dump=1 */
  GS_OPTIMIZED = 4,
  GS_KERNELS = 5,
  GS_LLVM = 6,
  GS_ERROR_TEXT = 7,
  GS_ERROR_FILE = 8 /* the user's file, or empty; gsErrorLine has the line */
} GsPart;

/* Compiles the function in `ir`. `options` is a zero-terminated list
 * "key=value;key=value":
 *   target    host (default), generic, x86-64-v3, x86-64-v4
 *   numerics  fast (default), strict
 *   differentiate  forward: the function, and what its gradients need;
 *             backward: its gradients
 *   wrt       numbers of the arguments that need gradients: 0,2
 *   without   optional passes to leave out, to test or measure the others:
 *             split-linear,factor-from-sum (Pipeline.h names all)
 *   wide      0 (default), 1: graph arrays hold int64
 *   dump      0 (default), 1: keep the text of the stages
 * Never null, but when memory is exhausted. */
GS_API GsResult *gsCompile(const char *ir, size_t size, const char *options);

GS_API int gsOk(const GsResult *result);
GS_API GsBytes gsGet(const GsResult *result, GsPart part);
GS_API int gsErrorLine(const GsResult *result);
GS_API void gsRelease(GsResult *result);

/* Versions that decide whether compiled code can be reused: ABI and LLVM. */
GS_API const char *gsVersion(void);

#ifdef __cplusplus
}
#endif

#endif
