#include "gossamer/runtime/Executor.h"

#include "gossamer/program/Validate.h"
#include "gossamer/runtime/HostCpu.h"
#include "gossamer/runtime/Variants.h"

#include <algorithm>

namespace gossamer {

Executor::Executor(Program checked, LoadedObject loaded)
    : source(std::move(checked)), object(std::move(loaded)),
      plan(makePlan(source)), kernels(source.steps.size(), nullptr) {}

Result<std::shared_ptr<const Executor>> Executor::create(Program program) {
  if (Status s = validate(program); !s.ok())
    return s.error();
  if (Status s = checkHostCpu(program.cpu); !s.ok())
    return s.error();
  Result<LoadedObject> object = LoadedObject::load(program.code);
  if (!object.ok())
    return object.error();
  std::shared_ptr<Executor> executor(
      new Executor(std::move(program), std::move(object.value())));
  if (Status s = executor->findKernels(); !s.ok())
    return s.error();
  for (const Program &variant : executor->source.variants) {
    auto created = create(variant);
    if (!created.ok())
      return created.error();
    executor->variants.push_back(std::move(created.value()));
  }
  return std::shared_ptr<const Executor>(std::move(executor));
}

Status Executor::findKernels() {
  for (size_t step : kernelSteps()) {
    const std::string &symbol = source.steps[step].kernel.symbol;
    void *address = object.find(symbol);
    if (!address)
      return makeError(ErrorCode::Corrupt,
                       "malformed program: its code has "
                       "no kernel ",
                       symbol);
    kernels[step] = reinterpret_cast<GsKernel>(address);
  }
  return {};
}

bool Executor::readsInput(size_t index) const {
  return plan.values[source.inputs[index]].isRead ||
         std::ranges::any_of(variants, [&](const auto &variant) {
           return variant->readsInput(index);
         });
}

size_t Executor::variantOn(std::span<const GraphArrays> graphs) const {
  return wayOn(graphs).variant;
}

const Executor &Executor::variant(size_t number) const {
  return number == 0 ? *this : *variants[number - 1];
}

Way Executor::wayOn(std::span<const GraphArrays> graphs) const {
  std::optional<Way> measured = tuned.find(graphs);
  size_t number =
      variantFor(source, graphs,
                 measured ? std::optional(measured->variant) : std::nullopt);
  if (measured && measured->variant == number)
    return std::move(*measured);
  return {number, {}};
}

Status Executor::run(std::span<const GraphArrays> graphs,
                     std::span<const TensorView> inputs,
                     const Services &services) const {
  if (Status s = checkCall(source, plan, graphs, inputs); !s.ok())
    return s;
  Way way = wayOn(graphs);
  return runProgram(variant(way.variant).runOf(graphs, inputs, way.choices),
                    services);
}

std::vector<Schedule>
Executor::schedules(std::span<const GraphArrays> graphs) const {
  Way way = wayOn(graphs);
  const Executor &one = variant(way.variant);
  way.choices.resize(one.source.steps.size());
  std::vector<Schedule> found;
  for (size_t step : one.kernelSteps())
    found.push_back(scheduleOf(one.source, one.source.steps[step].kernel,
                               graphs, way.choices[step]));
  return found;
}

std::vector<size_t> Executor::kernelSteps() const {
  std::vector<size_t> found;
  for (size_t step = 0; step < source.steps.size(); ++step)
    if (source.steps[step].kind == Step::Kind::Kernel)
      found.push_back(step);
  return found;
}

Result<std::vector<ScheduleChoices>>
Executor::tuneKernels(std::span<const GraphArrays> graphs,
                      std::span<const TensorView> inputs,
                      const Services &services) const {
  std::vector<int64_t> mostEdges(source.steps.size(), 0);
  for (size_t step : kernelSteps())
    mostEdges[step] =
        workloadOf(source, source.steps[step].kernel, graphs).mostEdges;
  return fastestChoices(mostEdges,
                        [&](const std::vector<ScheduleChoices> &choices,
                            std::span<double> seconds) {
                          ProgramRun run = runOf(graphs, inputs, choices);
                          run.seconds = seconds;
                          return runProgram(run, services);
                        });
}

Result<Way> Executor::tune(std::span<const GraphArrays> graphs,
                           std::span<const TensorView> inputs,
                           const Services &services) const {
  if (Status s = checkCall(source, plan, graphs, inputs); !s.ok())
    return s.error();
  std::vector<Way> ways;
  for (size_t number = 0; number <= variants.size(); ++number) {
    auto choices = variant(number).tuneKernels(graphs, inputs, services);
    if (!choices.ok())
      return choices.error();
    ways.push_back({number, std::move(choices.value())});
  }
  auto fastest = fastestWay(ways.size(), [&](size_t number) {
    return runProgram(
        variant(number).runOf(graphs, inputs, ways[number].choices), services);
  });
  if (!fastest.ok())
    return fastest.error();
  Way byKernels{fastest.value(), {}};
  for (size_t step : variant(byKernels.variant).kernelSteps())
    byKernels.choices.push_back(ways[byKernels.variant].choices[step]);
  if (Status s = keepTuned(graphs, byKernels); !s.ok())
    return s.error();
  return byKernels;
}

Status Executor::keepTuned(std::span<const GraphArrays> graphs,
                           const Way &byKernels) const {
  if (byKernels.variant > variants.size())
    return makeError(ErrorCode::InvalidArgument, "program has ",
                     variants.size() + 1, " variants; got number ",
                     byKernels.variant);
  const Executor &one = variant(byKernels.variant);
  std::vector<size_t> steps = one.kernelSteps();
  if (byKernels.choices.size() != steps.size())
    return makeError(ErrorCode::InvalidArgument, "program has ", steps.size(),
                     " kernels; got choices of ", byKernels.choices.size());
  Way way{byKernels.variant,
          std::vector<ScheduleChoices>(one.source.steps.size())};
  for (size_t kernel = 0; kernel < steps.size(); ++kernel) {
    const ScheduleChoices &choices = byKernels.choices[kernel];
    if (int64_t ahead = choices.prefetch.value_or(0); ahead < 0)
      return makeError(ErrorCode::InvalidArgument, "kernel ", kernel,
                       " cannot prefetch ", ahead, " edges ahead");
    if (int64_t edges = choices.pieceEdges.value_or(kWholeRows); edges < 1)
      return makeError(ErrorCode::InvalidArgument, "kernel ", kernel,
                       " cannot cut rows in pieces of ", edges, " edges");
    way.choices[steps[kernel]] = choices;
  }
  tuned.keep(graphs, std::move(way));
  return {};
}

} // namespace gossamer
