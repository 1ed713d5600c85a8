#include "gossamer/runtime/ScratchPool.h"

#include <cstdlib>
#include <mutex>
#include <sys/mman.h>

namespace gossamer {

namespace {

constexpr size_t kHugePage = size_t(2) << 20;
constexpr size_t kSmallest = 4096;

/// Sizes in steps of an eighth, so that graphs of nearly the same size reuse
/// each other's blocks; whole huge pages where those are used.
size_t roundedSize(size_t bytes) {
  if (bytes <= kSmallest)
    return kSmallest;
  size_t step = kSmallest / 8;
  while (step * 16 <= bytes)
    step *= 2;
  if (bytes >= kHugePage && step < kHugePage)
    step = kHugePage;
  return (bytes + step - 1) / step * step;
}

/// A block of `size` bytes, on huge pages as far as the `used` bytes of its
/// first lease fill them: more would be in memory for nothing.
void *allocate(size_t size, size_t used) {
  size_t alignment =
      size >= kHugePage ? kHugePage : size_t(ScratchPool::kAlignment);
  void *data = std::aligned_alloc(alignment, size);
  if (data)
    adviseHugePages(data, used);
  return data;
}

} // namespace

void adviseHugePages(void *data, size_t bytes) {
  uintptr_t begin = (uintptr_t(data) + kHugePage - 1) / kHugePage * kHugePage;
  uintptr_t end = (uintptr_t(data) + bytes) / kHugePage * kHugePage;
  if (begin < end)
    static_cast<void>(
        madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE));
}

ScratchPool::ScratchPool(size_t limit) : keptLimit(limit) {}

ScratchPool::~ScratchPool() { trim(); }

ScratchPool::Lease ScratchPool::lease(size_t bytes) {
  Lease lease;
  if (bytes > SIZE_MAX / 2)
    return lease;
  size_t wanted = roundedSize(bytes);
  {
    std::lock_guard lock(guard);
    // The smallest that fits, unless half of it or more would lie idle; among
    // equals the youngest, which may still be in the cache.
    size_t best = kept.size();
    for (size_t i = kept.size(); i-- > 0;)
      if (kept[i].size >= wanted && kept[i].size / 2 < wanted &&
          (best == kept.size() || kept[i].size < kept[best].size))
        best = i;
    if (best != kept.size()) {
      lease.block = kept[best];
      lease.pool = this;
      keptSize -= kept[best].size;
      kept.erase(kept.begin() + ptrdiff_t(best));
      return lease;
    }
  }
  lease.block = {allocate(wanted, bytes), wanted};
  if (lease.block.data)
    lease.pool = this;
  return lease;
}

void ScratchPool::giveBack(Block block) {
  std::vector<Block> surplus;
  {
    std::lock_guard lock(guard);
    kept.push_back(block);
    keptSize += block.size;
    size_t oldest = 0;
    while (keptSize > keptLimit)
      keptSize -= kept[oldest++].size;
    surplus.assign(kept.begin(), kept.begin() + ptrdiff_t(oldest));
    kept.erase(kept.begin(), kept.begin() + ptrdiff_t(oldest));
  }
  for (Block &old : surplus)
    std::free(old.data);
}

size_t ScratchPool::keptBytes() const {
  std::lock_guard lock(guard);
  return keptSize;
}

size_t ScratchPool::trim() {
  std::vector<Block> all;
  size_t bytes;
  {
    std::lock_guard lock(guard);
    all.swap(kept);
    bytes = std::exchange(keptSize, 0);
  }
  for (Block &block : all)
    std::free(block.data);
  return bytes;
}

} // namespace gossamer
