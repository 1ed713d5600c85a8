// A mutex that a forked child can lock. All such mutexes are taken before a
// fork and released on both sides after it, so the child finds what they guard
// in a consistent state. Hold at most one of them at a time.
#ifndef GOSSAMER_RUNTIME_FORKSAFEMUTEX_H
#define GOSSAMER_RUNTIME_FORKSAFEMUTEX_H

#include <mutex>

namespace gossamer {

class ForkSafeMutex {
public:
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex &) = delete;
  ForkSafeMutex &operator=(const ForkSafeMutex &) = delete;

  void lock() { mutex.lock(); }
  void unlock() { mutex.unlock(); }

private:
  std::mutex mutex;
};

} // namespace gossamer

#endif
