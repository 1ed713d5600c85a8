// Memory for temporaries, large outputs and kernel scratch, kept between calls.
//
// A page that the system hands out fresh costs as much as the kernel that
// fills it, so blocks are reused, and large ones lie on huge pages. Contents
// of a leased block are arbitrary.
#ifndef GOSSAMER_RUNTIME_SCRATCHPOOL_H
#define GOSSAMER_RUNTIME_SCRATCHPOOL_H

#include "gossamer/runtime/ForkSafeMutex.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gossamer {

class ScratchPool {
public:
  static constexpr size_t kAlignment = 64;

  /// Keeps at most `limit` bytes that nobody leases.
  explicit ScratchPool(size_t limit = size_t(512) << 20);
  ~ScratchPool();
  ScratchPool(const ScratchPool &) = delete;
  ScratchPool &operator=(const ScratchPool &) = delete;

  /// A block that returns to its pool when the lease ends. Movable.
  class Lease {
  public:
    Lease() = default;
    Lease(Lease &&other) noexcept
        : pool(std::exchange(other.pool, nullptr)), block(other.block) {}
    Lease &operator=(Lease &&other) noexcept {
      std::swap(pool, other.pool);
      std::swap(block, other.block);
      return *this;
    }
    ~Lease() { end(); }

    /// At least the leased number of bytes; null when memory ran out.
    void *data() const { return pool ? block.data : nullptr; }
    explicit operator bool() const { return pool != nullptr; }

    void end() {
      if (pool)
        std::exchange(pool, nullptr)->giveBack(block);
    }

  private:
    friend class ScratchPool;
    struct Block {
      void *data = nullptr;
      size_t size = 0;
    };

    ScratchPool *pool = nullptr;
    Block block;
  };

  /// Thread-safe. The pool must outlive the lease.
  Lease lease(size_t bytes);

  size_t keptBytes() const;

  /// Gives everything kept back to the system; how many bytes it was.
  size_t trim();

private:
  using Block = Lease::Block;

  void giveBack(Block block);

  mutable ForkSafeMutex guard;
  std::vector<Block> kept; // oldest first
  size_t keptSize = 0;
  const size_t keptLimit;
};

/// Asks for huge pages in the part of [data, data + bytes) that has room for
/// them. Changes speed only.
void adviseHugePages(void *data, size_t bytes);

} // namespace gossamer

#endif
