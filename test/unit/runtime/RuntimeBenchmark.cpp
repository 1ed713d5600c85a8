// Times of the runtime alone: a run on a 4-node graph, and building compressed
// rows for a graph of 169,343 nodes and 1.34 million edges.
//
//   runtime_benchmark [threads]

#include "test/unit/runtime/TestPrograms.h"

#include "gossamer/runtime/ThreadPool.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>

using namespace gossamer;
using namespace gossamer::test;

namespace {

template <typename Fn> double bestMicroseconds(int repeats, int inner, Fn fn) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < inner; ++k)
      fn();
    std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / inner);
  }
  return best;
}

/// A result in memory that is there already.
class FixedOutput final : public Allocator {
public:
  Result<void *> allocate(size_t, DType, std::span<const int64_t>) override {
    return static_cast<void *>(data);
  }
  float data[64];
};

bool smallRun(ParallelFor &parallel) {
  auto executor = Executor::create(sumProgram());
  if (!executor.ok())
    return false;
  OwnedGraph<int32_t> graph(4, 4, {0, 1, 2, 3, 1}, {1, 0, 2, 2, 3});
  OwnedTensor<float> x({4, 3}, std::vector<float>(12, 1.0f));
  ScratchPool pool;
  PlainGemm gemm(pool);
  FixedOutput output;
  const GraphArrays graphs[] = {graph.view};
  const TensorView inputs[] = {x.view()};
  bool ok = true;
  double time = bestMicroseconds(20, 10000, [&] {
    ok &= executor.value()
              ->run(graphs, inputs, {parallel, gemm, output, pool})
              .ok();
  });
  std::printf("run, 4 nodes: %.2f us\n", time);
  return ok;
}

bool sortGraph(ParallelFor &parallel) {
  const int64_t nodes = 169343, edges = 1335586;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> unit;
  std::vector<int64_t> names(nodes), rows(edges), cols(edges);
  for (int64_t i = 0; i < nodes; ++i)
    names[size_t(i)] = i;
  std::shuffle(names.begin(), names.end(), random);
  for (int64_t e = 0; e < edges; ++e) {
    double a = unit(random), b = unit(random);
    rows[size_t(e)] = names[size_t(a * a * double(nodes))];
    cols[size_t(e)] = names[size_t(b * b * double(nodes))];
  }
  std::vector<int32_t> offsets(nodes + 1), neighbors(edges), ids(edges);
  ScratchPool pool;
  bool ok = true;
  double time = bestMicroseconds(30, 1, [&] {
    ok &=
        buildCsr({rows.data(), cols.data(), true, edges, nodes, nodes},
                 {offsets.data(), neighbors.data(), ids.data()}, parallel, pool)
            .ok();
  });
  std::printf("csr, 1.34 M int64 edges, %d threads: %.2f ms\n",
              parallel.threads(), time / 1000);
  return ok;
}

} // namespace

int main(int argc, char **argv) {
  ThreadPool parallel(argc > 1 ? std::atoi(argv[1]) : 2);
  return smallRun(parallel) && sortGraph(parallel) ? EXIT_SUCCESS
                                                   : EXIT_FAILURE;
}
