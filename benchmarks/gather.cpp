// How fast this machine reads rows of a table in a given order: the floor under
// every kernel that gathers. Nothing is written but one number per thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace {

float readRows(const float *table, const int64_t *index, int64_t begin,
               int64_t end, int64_t width, int64_t ahead) {
  float total = 0;
  for (int64_t i = begin; i < end; ++i) {
    if (i + ahead < end) {
      const float *later = table + index[i + ahead] * width;
      for (int64_t j = 0; j < width; j += 16)
        __builtin_prefetch(later + j);
    }
    const float *row = table + index[i] * width;
    for (int64_t j = 0; j < width; ++j)
      total += row[j];
  }
  return total;
}

} // namespace

/// Seconds that `threads` threads take to read `count` rows of `width` floats,
/// prefetching `ahead` rows early; `sink` has one place per thread.
extern "C" double gatherSeconds(const float *table, const int64_t *index,
                                int64_t count, int64_t width, int64_t threads,
                                int64_t ahead, float *sink) {
  auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int64_t t = 0; t < threads; ++t)
    workers.emplace_back([=] {
      sink[t] = readRows(table, index, count * t / threads,
                         count * (t + 1) / threads, width, ahead);
    });
  for (std::thread &worker : workers)
    worker.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}
