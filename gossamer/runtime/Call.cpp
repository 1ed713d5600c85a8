#include "gossamer/runtime/Call.h"

#include "gossamer/program/Validate.h"

#include <algorithm>
#include <sstream>
#include <string>

namespace gossamer {

int64_t rowCount(RowSet rows, const GraphArrays &graph) {
  switch (rows) {
  case RowSet::None:
    return 1;
  case RowSet::Src:
    return graph.numSrc;
  case RowSet::Dst:
  case RowSet::Node:
    return graph.numDst;
  case RowSet::Edge:
    return graph.numEdges;
  }
  return 0;
}

bool visitsEdges(const Program &program, uint32_t graph, VisitBy by) {
  for (const Step &step : program.steps)
    if (step.kind == Step::Kind::Kernel && step.kernel.usesEdges &&
        step.kernel.graph == graph && step.kernel.visitBy == by)
      return true;
  return std::ranges::any_of(program.variants, [&](const Program &variant) {
    return visitsEdges(variant, graph, by);
  });
}

namespace {

template <typename... Parts> Error invalid(const Parts &...parts) {
  return makeError(ErrorCode::InvalidArgument, parts...);
}

std::string shapeText(std::span<const int64_t> shape) {
  std::ostringstream text;
  text << '[';
  for (size_t i = 0; i < shape.size(); ++i)
    text << (i ? ", " : "") << shape[i];
  text << ']';
  return std::move(text).str();
}

Status checkIndexArray(const TensorView &array, const char *name,
                       uint32_t graph, int64_t length, bool wide) {
  DType dtype = wide ? DType::I64 : DType::I32;
  if (array.dtype == dtype && array.shape.size() == 1 &&
      array.shape[0] == length && array.isDense())
    return {};
  return invalid("graph ", graph, ": ", name, " are ", dtypeName(array.dtype),
                 shapeText(array.shape), ", expected contiguous ",
                 dtypeName(dtype), "[", length, "]");
}

int64_t lastOffset(const TensorView &offsets, int64_t rows, bool wide) {
  return wide ? static_cast<const int64_t *>(offsets.data)[rows]
              : static_cast<const int32_t *>(offsets.data)[rows];
}

Status checkEdges(const Program &program, const GraphArrays &graph,
                  uint32_t index, VisitBy by) {
  if (!visitsEdges(program, index, by))
    return {};
  const EdgeArrays &edges = graph.edges(by);
  bool wide = program.wideIndex, in = by == VisitBy::Dst;
  int64_t rows = in ? graph.numDst : graph.numSrc;
  if (Status s =
          checkIndexArray(edges.offsets, in ? "in-offsets" : "out-offsets",
                          index, rows + 1, wide);
      !s.ok())
    return s;
  if (Status s = checkIndexArray(edges.neighbors,
                                 in ? "in-neighbors" : "out-neighbors", index,
                                 graph.numEdges, wide);
      !s.ok())
    return s;
  if (Status s =
          checkIndexArray(edges.edgeIds, in ? "in-edge-ids" : "out-edge-ids",
                          index, graph.numEdges, wide);
      !s.ok())
    return s;
  int64_t last = lastOffset(edges.offsets, rows, wide);
  if (last != graph.numEdges)
    return invalid("graph ", index, ": ", in ? "in" : "out", "-offsets end at ",
                   last, ", but the graph has ", graph.numEdges, " edges");
  return {};
}

bool isHomogeneous(const Program &program, uint32_t graph) {
  for (const ValueInfo &value : program.values)
    if (value.rows == RowSet::Node && value.graph == graph)
      return true;
  for (const Step &step : program.steps)
    if (step.kind == Step::Kind::Kernel && step.kernel.rows == RowSet::Node &&
        step.kernel.graph == graph)
      return true;
  return false;
}

Status checkGraph(const Program &program, const GraphArrays &graph,
                  uint32_t index) {
  if (graph.numSrc < 0 || graph.numDst < 0 || graph.numEdges < 0 ||
      graph.maxInDegree < 0 || graph.maxOutDegree < 0)
    return invalid("graph ", index, ": sizes must not be negative");
  if (isHomogeneous(program, index) && graph.numSrc != graph.numDst)
    return invalid("graph ", index, " has ", graph.numSrc, " source and ",
                   graph.numDst,
                   " destination nodes, expected one set of nodes");
  if (Status s = checkEdges(program, graph, index, VisitBy::Dst); !s.ok())
    return s;
  return checkEdges(program, graph, index, VisitBy::Src);
}

std::string expectedShape(const ValueInfo &value,
                          std::span<const GraphArrays> graphs) {
  std::string text = shapeText(value.features);
  if (value.rows == RowSet::None)
    return text;
  std::ostringstream rows;
  rows << '[' << rowCount(value.rows, graphs[value.graph])
       << (value.features.empty() ? "" : ", ");
  return rows.str() + text.substr(1) + " (" + rowSetName(value.rows) +
         " of graph " + std::to_string(value.graph) + " first)";
}

bool hasShape(const TensorView &tensor, const ValueInfo &value,
              std::span<const GraphArrays> graphs) {
  std::span<const int64_t> features = tensor.shape;
  if (value.rows != RowSet::None) {
    if (features.empty() ||
        features[0] != rowCount(value.rows, graphs[value.graph]))
      return false;
    features = features.subspan(1);
  }
  return std::equal(features.begin(), features.end(), value.features.begin(),
                    value.features.end());
}

Status checkInput(const Program &program, std::span<const GraphArrays> graphs,
                  const TensorView &tensor, size_t index) {
  const ValueInfo &value = program.values[program.inputs[index]];
  if (tensor.dtype == value.dtype && hasShape(tensor, value, graphs))
    return {};
  std::string name = value.name.empty() ? "" : " ('" + value.name + "')";
  return invalid("input ", index, name, " is ", dtypeName(tensor.dtype),
                 shapeText(tensor.shape), ", expected ", dtypeName(value.dtype),
                 expectedShape(value, graphs));
}

} // namespace

Status checkCall(const Program &program, const Plan &plan,
                 std::span<const GraphArrays> graphs,
                 std::span<const TensorView> inputs) {
  if (graphs.size() != program.graphs)
    return invalid("program takes ", program.graphs, " graphs, got ",
                   graphs.size());
  if (inputs.size() != program.inputs.size())
    return invalid("program takes ", program.inputs.size(), " inputs, got ",
                   inputs.size());
  for (uint32_t i = 0; i < program.graphs; ++i)
    if (Status s = checkGraph(program, graphs[i], i); !s.ok())
      return s;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!plan.values[program.inputs[i]].isRead)
      continue;
    if (Status s = checkInput(program, graphs, inputs[i], i); !s.ok())
      return s;
  }
  return {};
}

} // namespace gossamer
