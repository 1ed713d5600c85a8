// Short ways to write values and steps of a program.
#ifndef GOSSAMER_TEST_UNIT_PROGRAM_PROGRAMBUILDERS_H
#define GOSSAMER_TEST_UNIT_PROGRAM_PROGRAMBUILDERS_H

#include "gossamer/program/Program.h"

#include <string>
#include <utility>
#include <vector>

namespace gossamer::test {

inline ValueInfo value(RowSet rows, std::vector<int64_t> features,
                       DType dtype = DType::F32, std::string name = {}) {
  return {dtype, rows, 0, std::move(features), std::move(name)};
}

inline Step kernelStep(std::string symbol, RowSet rows,
                       std::vector<uint32_t> inputs,
                       std::vector<uint32_t> outputs, bool usesEdges = true) {
  Step step;
  step.kind = Step::Kind::Kernel;
  step.kernel.symbol = std::move(symbol);
  step.kernel.rows = rows;
  step.kernel.usesEdges = usesEdges;
  step.kernel.inputs = std::move(inputs);
  step.kernel.outputs = std::move(outputs);
  return step;
}

inline Step gemmStep(uint32_t input, uint32_t weight, uint32_t output) {
  Step step;
  step.kind = Step::Kind::Gemm;
  step.gemm = {input, weight, output};
  return step;
}

inline Step viewStep(uint32_t source, uint32_t output, int64_t offset,
                     std::vector<int64_t> strides) {
  Step step;
  step.kind = Step::Kind::View;
  step.view = {source, output, offset, std::move(strides)};
  return step;
}

inline Step prefixStep(uint32_t source, uint32_t output) {
  Step step;
  step.kind = Step::Kind::Prefix;
  step.prefix = {source, output};
  return step;
}

inline Step padRowsStep(uint32_t source, uint32_t output) {
  Step step;
  step.kind = Step::Kind::PadRows;
  step.padRows = {source, output};
  return step;
}

inline Step sumRowsStep(uint32_t source, uint32_t output) {
  Step step;
  step.kind = Step::Kind::SumRows;
  step.sumRows = {source, output};
  return step;
}

inline Step contractRowsStep(uint32_t left, uint32_t right, uint32_t output) {
  Step step;
  step.kind = Step::Kind::ContractRows;
  step.contractRows = {left, right, output};
  return step;
}

inline Step checkIndexStep(uint32_t index, int64_t count, bool fromEnd,
                           std::string place = {}, std::string field = {}) {
  Step step;
  step.kind = Step::Kind::CheckIndex;
  step.checkIndex = {index, count, fromEnd, std::move(place), std::move(field)};
  return step;
}

} // namespace gossamer::test

#endif
