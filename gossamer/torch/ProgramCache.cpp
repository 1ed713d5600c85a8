#include "gossamer/torch/ProgramCache.h"

#include "gossamer/program/Serialize.h"

#include <algorithm>
#include <mutex>

namespace gossamer {

Result<std::shared_ptr<const Executor>>
ProgramCache::get(std::span<const uint8_t> bytes) {
  Result<Digest> digest = statedDigest(bytes);
  if (!digest.ok())
    return digest.error();
  if (auto executor = find(keyOf(bytes, digest.value())))
    return executor;
  return getChecked(bytes);
}

Result<std::shared_ptr<const Executor>>
ProgramCache::getChecked(std::span<const uint8_t> bytes) {
  Result<Program> program = load(bytes);
  if (!program.ok())
    return program.error();
  // The digest is right, so an executor of that digest is this program's.
  Result<Digest> digest = statedDigest(bytes);
  if (!digest.ok())
    return digest.error();
  std::shared_ptr<const Executor> executor = findSame(digest.value());
  if (!executor) {
    auto created = Executor::create(std::move(program.value()));
    if (!created.ok())
      return created.error();
    executor = std::move(created.value());
  }
  insert(keyOf(bytes, digest.value()), executor);
  return executor;
}

std::shared_ptr<const Executor> ProgramCache::find(const Key &key) {
  std::lock_guard lock(guard);
  auto found = entries.find(key);
  if (found == entries.end())
    return nullptr;
  found->second.lastUse = ++uses;
  return found->second.executor;
}

std::shared_ptr<const Executor> ProgramCache::findSame(const Digest &digest) {
  std::lock_guard lock(guard);
  for (const auto &[key, entry] : entries)
    if (std::get<Digest>(key) == digest)
      return entry.executor;
  return nullptr;
}

void ProgramCache::insert(const Key &key,
                          std::shared_ptr<const Executor> executor) {
  std::shared_ptr<const Executor> dropped; // unmapped outside the lock
  std::lock_guard lock(guard);
  entries[key] = {std::move(executor), ++uses};
  if (entries.size() <= limit)
    return;
  auto oldest = std::min_element(entries.begin(), entries.end(),
                                 [](const auto &a, const auto &b) {
                                   return a.second.lastUse < b.second.lastUse;
                                 });
  dropped = std::move(oldest->second.executor);
  entries.erase(oldest);
}

} // namespace gossamer
