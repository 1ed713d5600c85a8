// Executors by the bytes of their program.
#ifndef GOSSAMER_TORCH_PROGRAMCACHE_H
#define GOSSAMER_TORCH_PROGRAMCACHE_H

#include "gossamer/program/Sha256.h"
#include "gossamer/runtime/Executor.h"
#include "gossamer/runtime/ForkSafeMutex.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>

namespace gossamer {

/// Looking a program up costs a read of its header. A program at a new address
/// is checked against its digest once; after that its address, size and stated
/// digest identify it. Other bytes at the same address are either another
/// program, and state another digest, or damaged, and then the program that
/// their header names still runs: never code that no digest vouches for.
class ProgramCache {
public:
  /// Keeps at most `maxEntries`, dropping the one used longest ago. Runs
  /// that are in progress keep what they use.
  explicit ProgramCache(size_t maxEntries = 1024) : limit(maxEntries) {}

  Result<std::shared_ptr<const Executor>> get(std::span<const uint8_t> bytes);

  /// The same, but checks the bytes also where a program was at this address.
  Result<std::shared_ptr<const Executor>>
  getChecked(std::span<const uint8_t> bytes);

private:
  using Key = std::tuple<const uint8_t *, size_t, Digest>;
  struct Entry {
    std::shared_ptr<const Executor> executor;
    uint64_t lastUse = 0;
  };

  static Key keyOf(std::span<const uint8_t> bytes, const Digest &digest) {
    return {bytes.data(), bytes.size(), digest};
  }
  std::shared_ptr<const Executor> find(const Key &key);
  std::shared_ptr<const Executor> findSame(const Digest &digest);
  void insert(const Key &key, std::shared_ptr<const Executor> executor);

  const size_t limit;
  ForkSafeMutex guard;
  std::map<Key, Entry> entries;
  uint64_t uses = 0;
};

} // namespace gossamer

#endif
