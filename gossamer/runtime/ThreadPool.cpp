#include "gossamer/runtime/ThreadPool.h"

#include <atomic>
#include <unistd.h>

namespace gossamer {

struct ThreadPool::Job {
  Body body;
  void *context;
  int64_t chunks;
  std::atomic<int64_t> next = 0;

  void takeChunks() {
    for (int64_t c;
         (c = next.fetch_add(1, std::memory_order_relaxed)) < chunks;)
      body(context, c);
  }
};

struct ThreadPool::State {
  std::mutex turn; // held by the caller whose job is running
  std::mutex guard;
  std::condition_variable changed;
  std::condition_variable finished;
  Job *job = nullptr;
  uint64_t jobs = 0; // how many were posted
  int busy = 0;      // workers inside the job
  bool stop = false;
};

namespace {
thread_local bool insideBody = false;
} // namespace

ThreadPool::ThreadPool(int threads)
    : state(std::make_unique<State>()), owner(getpid()) {
  for (int i = 1; i < threads; ++i)
    workers.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  if (getpid() != owner) {
    // The child has neither the threads nor a usable state: leave both.
    for (std::thread &worker : workers)
      worker.detach();
    static_cast<void>(state.release());
    return;
  }
  {
    std::lock_guard lock(state->guard);
    state->stop = true;
  }
  state->changed.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

int ThreadPool::threads() const {
  return getpid() == owner ? int(workers.size()) + 1 : 1;
}

void ThreadPool::work() {
  insideBody = true;
  uint64_t seen = 0;
  std::unique_lock lock(state->guard);
  while (true) {
    state->changed.wait(lock, [&] {
      return state->stop || (state->job && state->jobs != seen);
    });
    if (state->stop)
      return;
    seen = state->jobs;
    Job *job = state->job;
    ++state->busy;
    lock.unlock();
    job->takeChunks();
    lock.lock();
    if (--state->busy == 0)
      state->finished.notify_all();
  }
}

void ThreadPool::run(int64_t chunks, Body body, void *context) {
  if (chunks <= 1 || insideBody || workers.empty() || getpid() != owner)
    return SerialFor().run(chunks, body, context);

  std::lock_guard turn(state->turn);
  Job job{body, context, chunks};
  {
    std::lock_guard lock(state->guard);
    state->job = &job;
    ++state->jobs;
  }
  state->changed.notify_all();
  insideBody = true;
  job.takeChunks();
  insideBody = false;
  std::unique_lock lock(state->guard);
  state->job = nullptr; // no worker joins from here on
  state->finished.wait(lock, [&] { return state->busy == 0; });
}

} // namespace gossamer
