#include "gossamer/program/Serialize.h"

#include "gossamer/program/Abi.h"
#include "gossamer/program/Validate.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace gossamer {

namespace {

constexpr std::string_view kMagic = "GOSSAMER";
constexpr size_t kDigestAt = 24;
constexpr size_t kHeaderSize = kDigestAt + sizeof(Digest);

class Writer {
public:
  std::vector<uint8_t> bytes;

  void u8(uint8_t value) { bytes.push_back(value); }
  void u32(uint32_t value) { littleEndian(value, 4); }
  void u64(uint64_t value) { littleEndian(value, 8); }
  void i64(int64_t value) { u64(uint64_t(value)); }
  void string(const std::string &text) {
    u32(uint32_t(text.size()));
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  void ids(const std::vector<uint32_t> &list) {
    u32(uint32_t(list.size()));
    for (uint32_t id : list)
      u32(id);
  }
  void numbers(const std::vector<int64_t> &list) {
    u32(uint32_t(list.size()));
    for (int64_t number : list)
      i64(number);
  }

private:
  void littleEndian(uint64_t value, int size) {
    for (int i = 0; i < size; ++i)
      bytes.push_back(uint8_t(value >> (8 * i)));
  }
};

/// Reads past the end, and lists longer than the bytes that are left, give
/// zeros and make ok() false; the caller checks once, at the end.
class Reader {
public:
  explicit Reader(std::span<const uint8_t> bytes) : rest(bytes) {}

  bool ok() const { return valid; }
  bool atEnd() const { return rest.empty(); }
  void fail() { valid = false; }

  uint8_t u8() { return uint8_t(littleEndian(1)); }
  uint32_t u32() { return uint32_t(littleEndian(4)); }
  uint64_t u64() { return littleEndian(8); }
  int64_t i64() { return int64_t(u64()); }
  bool boolean() { return word(2) == 1; }

  /// An enumerator below `count`.
  template <typename Enum> Enum enumerator(uint8_t count) {
    return Enum(word(count));
  }
  std::string string() {
    auto text = take(u32());
    return {text.begin(), text.end()};
  }
  std::vector<uint8_t> code() {
    auto code = take(u64());
    return {code.begin(), code.end()};
  }
  std::vector<uint32_t> ids() {
    std::vector<uint32_t> list(length(4));
    for (uint32_t &id : list)
      id = u32();
    return list;
  }
  std::vector<int64_t> numbers() {
    std::vector<int64_t> list(length(8));
    for (int64_t &number : list)
      number = i64();
    return list;
  }
  /// The length of a list whose elements take at least `elementSize` bytes.
  uint32_t length(size_t elementSize) {
    uint32_t count = u32();
    if (count > rest.size() / elementSize)
      valid = false;
    return valid ? count : 0;
  }

private:
  uint8_t word(uint8_t count) {
    uint8_t value = u8();
    if (value >= count)
      valid = false;
    return valid ? value : 0;
  }
  std::span<const uint8_t> take(uint64_t size) {
    if (size > rest.size())
      valid = false;
    if (!valid)
      return {};
    auto taken = rest.first(size_t(size));
    rest = rest.subspan(size_t(size));
    return taken;
  }
  uint64_t littleEndian(int size) {
    uint64_t value = 0;
    auto taken = take(uint64_t(size));
    for (size_t i = 0; i < taken.size(); ++i)
      value |= uint64_t(taken[i]) << (8 * i);
    return value;
  }

  std::span<const uint8_t> rest;
  bool valid = true;
};

constexpr uint8_t kDTypes = uint8_t(DType::F16) + 1;
constexpr uint8_t kRowSets = uint8_t(RowSet::Edge) + 1;
constexpr uint8_t kVisits = uint8_t(VisitBy::Src) + 1;
constexpr uint8_t kStepKinds = uint8_t(Step::Kind::CheckIndex) + 1;

void write(Writer &out, const ValueInfo &value) {
  out.u8(uint8_t(value.dtype));
  out.u8(uint8_t(value.rows));
  out.u32(value.graph);
  out.numbers(value.features);
  out.string(value.name);
}

ValueInfo readValue(Reader &in) {
  ValueInfo value;
  value.dtype = in.enumerator<DType>(kDTypes);
  value.rows = in.enumerator<RowSet>(kRowSets);
  value.graph = in.u32();
  value.features = in.numbers();
  value.name = in.string();
  return value;
}

void write(Writer &out, const KernelStep &step) {
  out.string(step.symbol);
  out.u8(uint8_t(step.rows));
  out.u32(step.graph);
  out.u8(uint8_t(step.visitBy));
  out.u8(step.usesEdges);
  out.ids(step.inputs);
  out.ids(step.outputs);
  out.i64(step.rowWork);
  out.i64(step.scratchBytes);
  out.i64(step.scratchBytesPerDegree);
  out.i64(step.gatheredBytes);
  out.i64(step.phases);
  out.i64(step.partialBytes);
}

KernelStep readKernel(Reader &in) {
  KernelStep step;
  step.symbol = in.string();
  step.rows = in.enumerator<RowSet>(kRowSets);
  step.graph = in.u32();
  step.visitBy = in.enumerator<VisitBy>(kVisits);
  step.usesEdges = in.boolean();
  step.inputs = in.ids();
  step.outputs = in.ids();
  step.rowWork = in.i64();
  step.scratchBytes = in.i64();
  step.scratchBytesPerDegree = in.i64();
  step.gatheredBytes = in.i64();
  step.phases = in.i64();
  step.partialBytes = in.i64();
  return step;
}

void write(Writer &out, const Step &step) {
  out.u8(uint8_t(step.kind));
  switch (step.kind) {
  case Step::Kind::Kernel:
    return write(out, step.kernel);
  case Step::Kind::Gemm:
    out.u32(step.gemm.input);
    out.u32(step.gemm.weight);
    return out.u32(step.gemm.output);
  case Step::Kind::View:
    out.u32(step.view.source);
    out.u32(step.view.output);
    out.i64(step.view.offset);
    return out.numbers(step.view.strides);
  case Step::Kind::Prefix:
    out.u32(step.prefix.source);
    return out.u32(step.prefix.output);
  case Step::Kind::PadRows:
    out.u32(step.padRows.source);
    return out.u32(step.padRows.output);
  case Step::Kind::SumRows:
    out.u32(step.sumRows.source);
    return out.u32(step.sumRows.output);
  case Step::Kind::ContractRows:
    out.u32(step.contractRows.left);
    out.u32(step.contractRows.right);
    return out.u32(step.contractRows.output);
  case Step::Kind::CheckIndex:
    out.u32(step.checkIndex.index);
    out.i64(step.checkIndex.count);
    out.u8(step.checkIndex.fromEnd);
    out.string(step.checkIndex.place);
    return out.string(step.checkIndex.field);
  }
}

Step readStep(Reader &in) {
  Step step;
  step.kind = in.enumerator<Step::Kind>(kStepKinds);
  switch (step.kind) {
  case Step::Kind::Kernel:
    step.kernel = readKernel(in);
    break;
  case Step::Kind::Gemm:
    step.gemm.input = in.u32();
    step.gemm.weight = in.u32();
    step.gemm.output = in.u32();
    break;
  case Step::Kind::View:
    step.view.source = in.u32();
    step.view.output = in.u32();
    step.view.offset = in.i64();
    step.view.strides = in.numbers();
    break;
  case Step::Kind::Prefix:
    step.prefix.source = in.u32();
    step.prefix.output = in.u32();
    break;
  case Step::Kind::PadRows:
    step.padRows.source = in.u32();
    step.padRows.output = in.u32();
    break;
  case Step::Kind::SumRows:
    step.sumRows.source = in.u32();
    step.sumRows.output = in.u32();
    break;
  case Step::Kind::ContractRows:
    step.contractRows.left = in.u32();
    step.contractRows.right = in.u32();
    step.contractRows.output = in.u32();
    break;
  case Step::Kind::CheckIndex:
    step.checkIndex.index = in.u32();
    step.checkIndex.count = in.i64();
    step.checkIndex.fromEnd = in.boolean();
    step.checkIndex.place = in.string();
    step.checkIndex.field = in.string();
    break;
  }
  return step;
}

void write(Writer &out, const RowCost &cost) {
  out.u8(uint8_t(cost.rows));
  out.u32(cost.graph);
  out.i64(cost.perRow);
}

RowCost readCost(Reader &in) {
  RowCost cost;
  cost.rows = in.enumerator<RowSet>(kRowSets);
  cost.graph = in.u32();
  cost.perRow = in.i64();
  return cost;
}

void write(Writer &out, const Program &program) {
  out.u32(uint32_t(program.values.size()));
  for (const ValueInfo &value : program.values)
    write(out, value);
  out.ids(program.inputs);
  out.ids(program.outputs);
  out.u32(uint32_t(program.steps.size()));
  for (const Step &step : program.steps)
    write(out, step);
  out.u32(program.graphs);
  out.u8(program.wideIndex);
  out.string(program.cpu);
  out.u64(program.code.size());
  out.bytes.insert(out.bytes.end(), program.code.begin(), program.code.end());
  out.u32(uint32_t(program.variants.size()));
  for (const Program &variant : program.variants)
    write(out, variant);
  out.u32(uint32_t(program.costs.size()));
  for (const RowCost &cost : program.costs)
    write(out, cost);
}

/// A variant at `depth` 1 has none itself.
Program readProgram(Reader &in, int depth = 0) {
  Program program;
  for (uint32_t n = in.length(14); n > 0 && in.ok(); --n)
    program.values.push_back(readValue(in));
  program.inputs = in.ids();
  program.outputs = in.ids();
  for (uint32_t n = in.length(9); n > 0 && in.ok(); --n)
    program.steps.push_back(readStep(in));
  program.graphs = in.u32();
  program.wideIndex = in.boolean();
  program.cpu = in.string();
  program.code = in.code();
  uint32_t variants = in.length(1);
  if (depth > 0 && variants > 0)
    in.fail();
  for (; variants > 0 && in.ok(); --variants)
    program.variants.push_back(readProgram(in, depth + 1));
  for (uint32_t n = in.length(13); n > 0 && in.ok(); --n)
    program.costs.push_back(readCost(in));
  return program;
}

/// The payload of `bytes`, when the header fits this build and the size.
Result<std::span<const uint8_t>> payloadIn(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeaderSize ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return makeError(ErrorCode::Corrupt,
                     "not a gossamer program: the header is missing (",
                     bytes.size(), " bytes)");
  Reader header(bytes.subspan(kMagic.size()));
  uint32_t abi = header.u32();
  uint32_t format = header.u32();
  uint64_t size = header.u64();
  if (abi != kAbiVersion || format != kFormatVersion)
    return makeError(ErrorCode::Unsupported, "program has ABI version ", abi,
                     " and format version ", format, ", this build reads ",
                     kAbiVersion, " and ", kFormatVersion,
                     ": compile it again");
  auto payload = bytes.subspan(kHeaderSize);
  if (payload.size() != size)
    return makeError(ErrorCode::Corrupt, "damaged program: ", payload.size(),
                     " bytes follow the header, which states ", size);
  return payload;
}

} // namespace

std::vector<uint8_t> save(const Program &program) {
  Writer content;
  write(content, program);
  const std::vector<uint8_t> &payload = content.bytes;
  Digest digest = sha256(payload);
  Writer out;
  out.bytes.assign(kMagic.begin(), kMagic.end());
  out.u32(kAbiVersion);
  out.u32(kFormatVersion);
  out.u64(payload.size());
  out.bytes.insert(out.bytes.end(), digest.begin(), digest.end());
  out.bytes.insert(out.bytes.end(), payload.begin(), payload.end());
  return std::move(out.bytes);
}

Result<Digest> statedDigest(std::span<const uint8_t> bytes) {
  auto payload = payloadIn(bytes);
  if (!payload.ok())
    return payload.error();
  Digest digest;
  std::copy_n(bytes.begin() + kDigestAt, digest.size(), digest.begin());
  return digest;
}

Result<Program> load(std::span<const uint8_t> bytes) {
  auto payload = payloadIn(bytes);
  if (!payload.ok())
    return payload.error();
  Digest digest = sha256(payload.value());
  if (!std::equal(digest.begin(), digest.end(), bytes.begin() + kDigestAt))
    return makeError(ErrorCode::Corrupt,
                     "damaged program: its content does not have the digest "
                     "that the header states");
  Reader in(payload.value());
  Program program = readProgram(in);
  if (!in.ok() || !in.atEnd())
    return makeError(ErrorCode::Corrupt,
                     "malformed program: a field is out of range");
  if (Status status = validate(program); !status.ok())
    return status.error();
  return program;
}

} // namespace gossamer
