// What generated kernels and the runtime agree on. A change here changes
// kAbiVersion, and must be mirrored in lowering/KernelFrame.cpp.
//
// A kernel is a C function
//   void kernel(const GsKernelCall *call, int64_t begin, int64_t end,
//               void *scratch);
// that computes rows [begin, end) of its row set. It writes only those rows of
// its node tables and the edges of those rows in its edge tables. To a result
// without rows, a total, it adds what rows [begin, end) and their edges give.
//
// A row of very many edges can be computed in pieces (KernelStep::phases). A
// phase then is three calls: its row part, its edge part for each piece, which
// leaves the reductions of the piece at `partial`, and the part that combines
// them. Other calls do all parts but the last kind.
#ifndef GOSSAMER_PROGRAM_ABI_H
#define GOSSAMER_PROGRAM_ABI_H

#include <cstdint>

namespace gossamer {

inline constexpr uint32_t kAbiVersion = 3;

/// Of tables that a kernel writes past the caches.
inline constexpr int64_t kStreamAlignment = 64;

/// One call of a kernel. All tables are dense and row-major. Index arrays hold
/// int32, or int64 when the program was compiled for wide graphs.
struct GsKernelCall {
  const void *offsets;   // rows + 1 positions into neighbors and edgeIds
  const void *neighbors; // the node at the other end, per position
  const void *edgeIds;   // the edge id, per position
  void *const *tables;   // operands in order, then results in order
  int64_t maxDegree;     // most edges of any row of the row set
  int64_t prefetch;      // how many edges ahead to prefetch; 0 for none
  int64_t stream;        // 1: results go past the caches; they must be aligned
                         // to kStreamAlignment

  // Of a row in pieces; for other calls as initialised.
  int64_t firstEdge = 0; // positions that the edge part is about
  int64_t lastEdge = INT64_MAX;
  int64_t firstPart = 0; // kPartsPerPhase * phase + part
  int64_t endPart = INT64_MAX;
  void *rowScratch = nullptr; // what all calls for the row share; null for
                              // the scratch of the call
  char *partial = nullptr;    // the reductions of the piece
  int64_t pieces = 0;         // to combine, from `partial` on
  int64_t partialStride = 0;  // bytes from one to the next
};

/// Parts of a call, phase by phase.
enum GsPart : int64_t { kRowPart, kEdgePart, kCombinePart, kPartsPerPhase };

using GsKernel = void (*)(const GsKernelCall *call, int64_t begin, int64_t end,
                          void *scratch);

} // namespace gossamer

#endif
