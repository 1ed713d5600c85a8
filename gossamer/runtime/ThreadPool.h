// Threads for programs that run outside torch.
#ifndef GOSSAMER_RUNTIME_THREADPOOL_H
#define GOSSAMER_RUNTIME_THREADPOOL_H

#include "gossamer/runtime/ParallelFor.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace gossamer {

/// `threads - 1` workers beside the caller. Callers on several threads take
/// turns; a call from inside a body runs serially, and so does every call in a
/// forked child, which has no workers.
class ThreadPool final : public ParallelFor {
public:
  explicit ThreadPool(int threads);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  void run(int64_t chunks, Body body, void *context) override;
  int threads() const override;

private:
  struct Job;
  struct State;

  void work();

  std::unique_ptr<State> state;
  std::vector<std::thread> workers;
  pid_t owner;
};

} // namespace gossamer

#endif
