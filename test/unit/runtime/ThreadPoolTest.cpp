#include "gossamer/runtime/ThreadPool.h"

#include "test/unit/runtime/ForkedChild.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

using namespace gossamer;
using namespace gossamer::test;

namespace {

/// Whether each of `chunks` chunks ran exactly once.
bool runsEachOnce(ParallelFor &parallel, int64_t chunks) {
  std::vector<std::atomic<int>> runs(static_cast<size_t>(chunks));
  parallel.forEach(chunks, [&](int64_t chunk) { ++runs[size_t(chunk)]; });
  for (auto &count : runs)
    if (count != 1)
      return false;
  return true;
}

TEST(ThreadPool, RunsEachChunkOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t chunks : {0, 1, 2, 3, 1000})
      for (int repeat = 0; repeat < 50; ++repeat)
        ASSERT_TRUE(runsEachOnce(pool, chunks));
  }
}

TEST(ThreadPool, SerialForRunsEachChunkOnce) {
  SerialFor serial;
  EXPECT_TRUE(runsEachOnce(serial, 100));
}

TEST(ThreadPool, NestedCallsRun) {
  ThreadPool pool(3);
  std::atomic<int> inner = 0;
  pool.forEach(10,
               [&](int64_t) { pool.forEach(10, [&](int64_t) { ++inner; }); });
  EXPECT_EQ(inner, 100);
}

TEST(ThreadPool, SeveralCallersTakeTurns) {
  ThreadPool pool(3);
  std::atomic<int> failures = 0;
  auto call = [&] {
    for (int i = 0; i < 200; ++i)
      failures += !runsEachOnce(pool, 20);
  };
  std::thread one(call), two(call);
  one.join(), two.join();
  EXPECT_EQ(failures, 0);
}

TEST(ThreadPool, ForkedChildrenRunSerially) {
  auto pool = std::make_unique<ThreadPool>(3);
  EXPECT_TRUE(runsEachOnce(*pool, 100));
  EXPECT_TRUE(holdsInChild([&] {
    bool ran = pool->threads() == 1 && runsEachOnce(*pool, 100);
    pool.reset();
    return ran;
  }));
  EXPECT_TRUE(runsEachOnce(*pool, 100));
}

} // namespace
