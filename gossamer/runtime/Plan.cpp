#include "gossamer/runtime/Plan.h"

#include "gossamer/program/Validate.h"

namespace gossamer {

namespace {

std::vector<int64_t> denseStrides(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

Place denseAt(uint32_t root, const ValueInfo &info) {
  return {root, 0, rowElements(info), denseStrides(info.features), true};
}

bool isDense(const ValueInfo &info, const Place &place) {
  int64_t elements = rowElements(info);
  if (elements == 0)
    return true;
  std::vector<int64_t> dense = denseStrides(info.features);
  for (size_t axis = 0; axis < dense.size(); ++axis)
    if (info.features[axis] != 1 && place.strides[axis] != dense[axis])
      return false;
  return info.rows == RowSet::None || place.rowStride == elements;
}

/// The place of a view of `source`, which lies at `at`. Each axis of the view
/// must walk along one axis of the source without leaving it; otherwise no
/// strides describe the view, and there is no place.
std::optional<Place> viewPlace(const ValueInfo &source, const Place &at,
                               const ValueInfo &view, const ViewStep &step) {
  Place place = at;
  place.strides.assign(view.features.size(), 0);
  if (rowElements(view) == 0)
    return place;
  std::vector<int64_t> dense = denseStrides(source.features);
  std::vector<int64_t> reached(dense.size());
  int64_t rest = step.offset;
  for (size_t axis = 0; axis < dense.size(); ++axis) {
    reached[axis] = rest / dense[axis];
    rest %= dense[axis];
    place.offset += reached[axis] * at.strides[axis];
  }
  for (size_t i = 0; i < view.features.size(); ++i) {
    int64_t stride = step.strides[i];
    if (view.features[i] == 1 || stride == 0)
      continue;
    size_t axis = 0;
    while (source.features[axis] == 1 || dense[axis] > stride)
      ++axis;
    int64_t pace = stride / dense[axis];
    reached[axis] += pace * (view.features[i] - 1);
    if (stride % dense[axis] != 0 || reached[axis] >= source.features[axis])
      return std::nullopt;
    place.strides[i] = pace * at.strides[axis];
  }
  return place;
}

class Planner {
public:
  explicit Planner(const Program &source) : program(source) {
    plan.values.resize(program.values.size());
    for (size_t i = 0; i < plan.values.size(); ++i)
      plan.values[i].info = program.values[i];
  }

  Plan run() {
    for (size_t i = 0; i < program.inputs.size(); ++i)
      own(program.inputs[i], Plan::Owner::Input, uint32_t(i));
    for (size_t i = 0; i < program.steps.size(); ++i)
      add(program.steps[i], uint32_t(i));
    for (size_t i = 0; i < program.outputs.size(); ++i)
      addOutput(program.outputs[i], uint32_t(i));
    for (const PlanStep &step : plan.steps)
      for (uint32_t id : step.reads)
        plan.values[plan.values[id].place.root].isRead = true;
    for (size_t i = 0; i < plan.steps.size(); ++i)
      for (const auto *ids : {&plan.steps[i].reads, &plan.steps[i].writes})
        for (uint32_t id : *ids)
          plan.values[plan.values[id].place.root].lastStep = uint32_t(i);
    return std::move(plan);
  }

private:
  void own(uint32_t id, Plan::Owner owner, uint32_t position = 0) {
    Plan::Value &value = plan.values[id];
    value.place = denseAt(id, value.info);
    value.owner = owner;
    value.position = position;
  }

  void add(const Step &step, uint32_t index) {
    switch (step.kind) {
    case Step::Kind::Kernel:
      return addKernel(step.kernel, index);
    case Step::Kind::Gemm:
      return addGemm(step.gemm);
    case Step::Kind::View:
      return addView(step.view);
    case Step::Kind::Prefix:
      plan.values[step.prefix.output].place =
          plan.values[step.prefix.source].place;
      return;
    case Step::Kind::PadRows:
      return addOnRows(PlanStep::Kind::PadRows, {step.padRows.source},
                       step.padRows.output);
    case Step::Kind::SumRows:
      return addOnRows(PlanStep::Kind::SumRows, {step.sumRows.source},
                       step.sumRows.output);
    case Step::Kind::ContractRows:
      return addOnRows(PlanStep::Kind::ContractRows,
                       {step.contractRows.left, step.contractRows.right},
                       step.contractRows.output);
    case Step::Kind::CheckIndex:
      plan.steps.push_back({PlanStep::Kind::CheckIndex,
                            index,
                            {denseForm(step.checkIndex.index)},
                            {}});
      return;
    }
  }

  void addKernel(const KernelStep &kernel, uint32_t index) {
    PlanStep step{PlanStep::Kind::Kernel, index, {}, kernel.outputs};
    for (uint32_t id : kernel.inputs)
      step.reads.push_back(denseForm(id));
    for (uint32_t id : kernel.outputs)
      own(id, Plan::Owner::Temporary);
    plan.steps.push_back(std::move(step));
  }

  void addGemm(const GemmStep &gemm) {
    uint32_t input = gemm.input;
    if (!matrixRows(plan.values[input]))
      input = denseForm(input);
    own(gemm.output, Plan::Owner::Temporary);
    plan.steps.push_back(
        {PlanStep::Kind::Gemm, 0, {input, gemm.weight}, {gemm.output}});
  }

  /// A step that reads dense tables.
  void addOnRows(PlanStep::Kind kind, std::vector<uint32_t> sources,
                 uint32_t output) {
    for (uint32_t &id : sources)
      id = denseForm(id);
    own(output, Plan::Owner::Temporary);
    plan.steps.push_back({kind, 0, std::move(sources), {output}});
  }

  void addView(const ViewStep &view) {
    uint32_t source = view.source;
    std::optional<Place> place =
        viewPlace(plan.values[source].info, plan.values[source].place,
                  plan.values[view.output].info, view);
    if (!place) {
      source = denseForm(source);
      place = overDense(source, view);
    }
    Plan::Value &output = plan.values[view.output];
    place->dense = isDense(output.info, *place);
    output.place = std::move(*place);
  }

  /// The place of any view of a dense table: its strides are memory strides.
  Place overDense(uint32_t source, const ViewStep &view) const {
    Place place = plan.values[source].place;
    place.offset += view.offset;
    place.strides = view.strides;
    return place;
  }

  void addOutput(uint32_t id, uint32_t position) {
    Plan::Value &value = plan.values[id];
    if (value.owner == Plan::Owner::Temporary) {
      value.owner = Plan::Owner::Output;
      value.position = position;
      return;
    }
    copyOf(id, Plan::Owner::Output, position);
  }

  /// `id` where it is dense, else a dense copy, which later steps share.
  uint32_t denseForm(uint32_t id) {
    if (plan.values[id].place.dense)
      return id;
    denseForms.resize(plan.values.size(), kNone);
    if (denseForms[id] == kNone)
      denseForms[id] = copyOf(id, Plan::Owner::Temporary, 0);
    return denseForms[id];
  }

  uint32_t copyOf(uint32_t id, Plan::Owner owner, uint32_t position) {
    uint32_t copy = uint32_t(plan.values.size());
    plan.values.push_back({plan.values[id].info, {}, owner, position, 0});
    own(copy, owner, position);
    plan.steps.push_back({PlanStep::Kind::Copy, 0, {id}, {copy}});
    return copy;
  }

  static constexpr uint32_t kNone = ~uint32_t(0);

  const Program &program;
  Plan plan;
  std::vector<uint32_t> denseForms; // by value
};

} // namespace

std::optional<MatrixRows> matrixRows(const Plan::Value &value) {
  const std::vector<int64_t> &features = value.info.features;
  const std::vector<int64_t> &strides = value.place.strides;
  MatrixRows rows;
  if (rowElements(value.info) == 0)
    return MatrixRows{0, 0};
  // From the inside out; axes of extent one may have any stride.
  int64_t expected = 0;
  for (size_t axis = features.size() - 1; axis-- > 0;) {
    if (features[axis] != 1) {
      if (rows.perRow == 1)
        rows.stride = strides[axis];
      else if (strides[axis] != expected)
        return std::nullopt;
      expected = strides[axis] * features[axis];
    }
    rows.perRow *= features[axis];
  }
  if (value.info.rows == RowSet::None)
    return rows;
  if (rows.perRow == 1)
    rows.stride = value.place.rowStride;
  else if (value.place.rowStride != expected)
    return std::nullopt;
  return rows;
}

Plan makePlan(const Program &program) { return Planner(program).run(); }

} // namespace gossamer
