// What generated kernels and the runtime agree on. A change here changes
// kAbiVersion, and must be mirrored in lowering/KernelFrame.cpp.
//
// A kernel is a C function
//   void kernel(const GsKernelCall *call, int64_t begin, int64_t end,
//               void *scratch);
// that computes rows [begin, end) of its row set. It writes only those rows of
// its node tables and the edges of those rows in its edge tables. To a result
// without rows, a total, it adds what rows [begin, end) and their edges give.
#ifndef GOSSAMER_PROGRAM_ABI_H
#define GOSSAMER_PROGRAM_ABI_H

#include <cstdint>

namespace gossamer {

inline constexpr uint32_t kAbiVersion = 2;

/// One call of a kernel. All tables are dense and row-major. Index arrays hold
/// int32, or int64 when the program was compiled for wide graphs.
struct GsKernelCall {
  const void *offsets;   // rows + 1 positions into neighbors and edgeIds
  const void *neighbors; // the node at the other end, per position
  const void *edgeIds;   // the edge id, per position
  void *const *tables;   // operands in order, then results in order
  int64_t maxDegree;     // most edges of any row of the row set
  int64_t prefetch;      // how many edges ahead to prefetch; 0 for none
};

using GsKernel = void (*)(const GsKernelCall *call, int64_t begin, int64_t end,
                          void *scratch);

} // namespace gossamer

#endif
