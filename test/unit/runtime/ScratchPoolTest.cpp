#include "gossamer/runtime/ScratchPool.h"

#include "test/unit/runtime/ForkedChild.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

using namespace gossamer;
using namespace gossamer::test;

namespace {

TEST(ScratchPool, BlocksAreAlignedAndWritable) {
  ScratchPool pool;
  for (size_t bytes :
       {size_t(0), size_t(1), size_t(4097), size_t(100000), size_t(5) << 20}) {
    auto lease = pool.lease(bytes);
    ASSERT_TRUE(lease);
    EXPECT_EQ(uintptr_t(lease.data()) % ScratchPool::kAlignment, 0u);
    std::memset(lease.data(), 1, bytes);
  }
}

TEST(ScratchPool, ReusesBlocksOfAboutTheSize) {
  ScratchPool pool;
  void *first = pool.lease(1000000).data();
  EXPECT_EQ(pool.lease(990000).data(), first);
  auto small = pool.lease(1000);
  EXPECT_NE(small.data(), first) << "a large block for a small lease";
  auto a = pool.lease(1000000), b = pool.lease(1000000);
  EXPECT_NE(a.data(), b.data());
}

TEST(ScratchPool, KeepsNoMoreThanItsLimit) {
  ScratchPool pool(1 << 20);
  {
    std::vector<ScratchPool::Lease> leases;
    for (int i = 0; i < 100; ++i)
      leases.push_back(pool.lease(100000));
  }
  EXPECT_LE(pool.keptBytes(), size_t(1) << 20);
  EXPECT_GT(pool.keptBytes(), size_t(1) << 19);
  {
    auto large = pool.lease(4 << 20);
  }
  EXPECT_LE(pool.keptBytes(), size_t(1) << 20);
  pool.trim();
  EXPECT_EQ(pool.keptBytes(), 0u);
}

TEST(ScratchPool, MovedLeasesEndOnce) {
  ScratchPool pool;
  auto a = pool.lease(100);
  void *data = a.data();
  ScratchPool::Lease b = std::move(a);
  EXPECT_FALSE(a);
  EXPECT_EQ(b.data(), data);
  b.end();
  b.end();
  size_t kept = pool.keptBytes();
  auto again = pool.lease(100);
  EXPECT_LT(pool.keptBytes(), kept);
}

TEST(ScratchPool, ImpossibleSizesGiveNoLease) {
  ScratchPool pool;
  EXPECT_FALSE(pool.lease(SIZE_MAX));
  // The sanitizers end the process over a request this large.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_FALSE(pool.lease(size_t(1) << 60));
#endif
}

TEST(ScratchPool, ThreadsNeverShareABlock) {
  ScratchPool pool;
  std::atomic<int> clashes = 0;
  auto work = [&](int seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 2000; ++i) {
      size_t words = 16 + random() % 5000;
      auto lease = pool.lease(words * sizeof(int));
      int *data = static_cast<int *>(lease.data());
      std::fill_n(data, words, seed);
      std::this_thread::yield();
      for (size_t w = 0; w < words; ++w)
        clashes += data[w] != seed;
    }
  };
  std::thread one(work, 1), two(work, 2), three(work, 3);
  one.join(), two.join(), three.join();
  EXPECT_EQ(clashes, 0);
}

TEST(ScratchPool, ChildrenForkedMidLeaseCanLease) {
  ScratchPool pool;
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop)
      pool.lease(10000);
  });
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(holdsInChild([&] { return bool(pool.lease(10000)); }));
  stop = true;
  busy.join();
}

} // namespace
