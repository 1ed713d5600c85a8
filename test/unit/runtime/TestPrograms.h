// Programs with code, graphs and tensors that own their memory.
#ifndef GOSSAMER_TEST_UNIT_RUNTIME_TESTPROGRAMS_H
#define GOSSAMER_TEST_UNIT_RUNTIME_TESTPROGRAMS_H

#include "gossamer/program/Program.h"
#include "gossamer/runtime/Call.h"
#include "gossamer/runtime/CsrGraph.h"
#include "gossamer/runtime/Executor.h"
#include "test/unit/program/ProgramBuilders.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace gossamer::test {

inline std::vector<uint8_t> readObject(const std::string &name) {
  std::ifstream file(std::string(GOSSAMER_TEST_OBJECTS) + "/" + name + ".o",
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// y = sum over in-edges of x; x and y have three columns.
inline Program sumProgram() {
  Program program;
  program.values = {value(RowSet::Src, {3}, DType::F32, "h"),
                    value(RowSet::Dst, {3})};
  program.inputs = {0};
  program.outputs = {1};
  program.steps = {kernelStep("sum_neighbors", RowSet::Dst, {0}, {1})};
  program.code = readObject("kernels");
  return program;
}

/// A tensor that owns its memory.
template <typename T> struct OwnedTensor {
  std::vector<T> data;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;

  OwnedTensor(std::vector<int64_t> axes, std::vector<T> values)
      : data(std::move(values)), shape(std::move(axes)), strides(shape.size()) {
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      strides[axis] = stride;
      stride *= shape[axis];
    }
  }

  TensorView view() const {
    DType dtype = std::is_same_v<T, float>     ? DType::F32
                  : std::is_same_v<T, double>  ? DType::F64
                  : std::is_same_v<T, int32_t> ? DType::I32
                                               : DType::I64;
    return {data.data(), dtype, shape, strides};
  }
};

/// Both directions of a graph with int32 or int64 arrays.
template <typename Index> struct OwnedGraph {
  OwnedTensor<Index> arrays[6];
  GraphArrays view;

  OwnedGraph(int64_t numSrc, int64_t numDst, const std::vector<int64_t> &src,
             const std::vector<int64_t> &dst)
      : arrays{make(numDst + 1), make(src.size()), make(src.size()),
               make(numSrc + 1), make(src.size()), make(src.size())} {
    view.maxInDegree = fill(arrays, dst, src, numDst);
    view.maxOutDegree = fill(arrays + 3, src, dst, numSrc);
    view.in = {arrays[0].view(), arrays[1].view(), arrays[2].view()};
    view.out = {arrays[3].view(), arrays[4].view(), arrays[5].view()};
    view.numSrc = numSrc;
    view.numDst = numDst;
    view.numEdges = int64_t(src.size());
  }
  OwnedGraph(const OwnedGraph &) = delete;

private:
  static OwnedTensor<Index> make(int64_t length) {
    return {{length}, std::vector<Index>(size_t(length))};
  }

  static int64_t fill(OwnedTensor<Index> *out, const std::vector<int64_t> &rows,
                      const std::vector<int64_t> &cols, int64_t numRows) {
    int64_t at = 0, maxDegree = 0;
    for (int64_t row = 0; row < numRows; ++row) {
      int64_t begin = at;
      for (size_t e = 0; e < rows.size(); ++e)
        if (rows[e] == row) {
          out[1].data[size_t(at)] = Index(cols[e]);
          out[2].data[size_t(at++)] = Index(e);
        }
      out[0].data[size_t(row) + 1] = Index(at);
      maxDegree = std::max(maxDegree, at - begin);
    }
    return maxDegree;
  }
};

/// Outputs in vectors.
class VectorOutputs final : public Allocator {
public:
  Result<void *> allocate(size_t index, DType,
                          std::span<const int64_t> shape) override {
    if (outputs.size() <= index)
      outputs.resize(index + 1);
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    outputs[index].assign(size_t(count), -77.0f);
    return static_cast<void *>(outputs[index].data());
  }

  std::vector<std::vector<float>> outputs;
};

} // namespace gossamer::test

#endif
