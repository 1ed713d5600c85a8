// How fast this machine reads rows of a table in a given order: the floor under
// every kernel that gathers. Nothing is written but one number per thread.

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kLanes = 16, kSums = 4;
typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4)));

// Several running sums of whole vectors: no addition waits for the one before,
// and nothing is done per row but reading it.
float readRows(const float *table, const int32_t *index, int64_t begin,
               int64_t end, int64_t width, int64_t ahead) {
  Lanes sums[kSums] = {};
  float rest = 0;
  for (int64_t i = begin; i < end; ++i) {
    if (i + ahead < end) {
      const float *later = table + index[i + ahead] * width;
      for (int64_t j = 0; j < width; j += kLanes)
        __builtin_prefetch(later + j, 0, 2);
    }
    const float *row = table + index[i] * width;
    int64_t j = 0;
    for (; j + kSums * kLanes <= width; j += kSums * kLanes)
      for (int64_t s = 0; s < kSums; ++s)
        sums[s] += *reinterpret_cast<const Lanes *>(row + j + s * kLanes);
    for (; j + kLanes <= width; j += kLanes)
      sums[0] += *reinterpret_cast<const Lanes *>(row + j);
    for (; j < width; ++j)
      rest += row[j];
  }
  for (const Lanes &sum : sums)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      rest += sum[lane];
  return rest;
}

} // namespace

/// Seconds that `threads` threads take to read `count` rows of `width` floats,
/// prefetching `ahead` rows early; `sink` has one place per thread.
extern "C" double gatherSeconds(const float *table, const int32_t *index,
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
