#include "gossamer/runtime/ForkSafeMutex.h"

#include <algorithm>
#include <pthread.h>
#include <vector>

namespace gossamer {

namespace {

/// Never destroyed: the fork handlers may run after static destruction began.
struct Registry {
  std::mutex guard;
  std::vector<ForkSafeMutex *> mutexes;

  static Registry &get() {
    static Registry *registry = create();
    return *registry;
  }

private:
  static Registry *create() {
    pthread_atfork(&lockAll, &unlockAll, &unlockAll);
    return new Registry;
  }
  static void lockAll() {
    Registry &registry = get();
    registry.guard.lock();
    for (ForkSafeMutex *mutex : registry.mutexes)
      mutex->lock();
  }
  static void unlockAll() {
    Registry &registry = get();
    for (ForkSafeMutex *mutex : registry.mutexes)
      mutex->unlock();
    registry.guard.unlock();
  }
};

} // namespace

ForkSafeMutex::ForkSafeMutex() {
  Registry &registry = Registry::get();
  std::lock_guard lock(registry.guard);
  registry.mutexes.push_back(this);
}

ForkSafeMutex::~ForkSafeMutex() {
  Registry &registry = Registry::get();
  std::lock_guard lock(registry.guard);
  std::erase(registry.mutexes, this);
}

} // namespace gossamer
