#include "gossamer/program/Serialize.h"

#include "test/unit/program/ProgramBuilders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

using namespace gossamer;
using namespace gossamer::test;

namespace {

/// One of everything, with odd values in every field.
Program fullProgram() {
  Program p;
  p.graphs = 2;
  p.wideIndex = true;
  p.cpu = "x86-64,native";
  p.code = {1, 2, 3, 250};
  p.values = {value(RowSet::Src, {4, 2}, DType::F32, "h"),
              value(RowSet::None, {2, 5}, DType::F32, "weight"),
              value(RowSet::None, {5, 2}),
              value(RowSet::Src, {4, 5}),
              value(RowSet::Dst, {4, 5}),
              value(RowSet::Dst, {1}, DType::Bool),
              value(RowSet::Edge, {}, DType::I64),
              value(RowSet::None, {4, 5}),
              value(RowSet::None, {2, 5}),
              value(RowSet::Src, {4, 5})};
  p.values[4].graph = p.values[5].graph = p.values[6].graph = 1;
  p.inputs = {0, 2};
  p.steps = {
      viewStep(2, 1, 0, {1, 2}), gemmStep(0, 1, 3),
      prefixStep(3, 4),          kernelStep("k", RowSet::Dst, {4}, {5, 6}),
      sumRowsStep(3, 7),         contractRowsStep(0, 3, 8),
      padRowsStep(4, 9),         checkIndexStep(6, 8, true, "a.py:3", "t")};
  p.steps[3].kernel.graph = 1;
  p.steps[3].kernel.rowWork = 7;
  p.steps[3].kernel.scratchBytes = 1 << 20;
  p.steps[3].kernel.scratchBytesPerDegree = 12;
  p.steps[3].kernel.gatheredBytes = 256;
  p.steps[3].kernel.phases = 3;
  p.steps[3].kernel.partialBytes = 448;
  p.outputs = {5, 6, 3, 7, 8, 9};
  p.costs = {{RowSet::Src, 1, 640}};
  p.variants = {p};
  p.variants[0].costs = {{RowSet::Edge, 0, 12}};
  p.variants[0].steps[3].kernel.symbol = "other";
  return p;
}

TEST(Sha256, KnownDigests) {
  // FIPS 180-4 examples, and a length that needs a second block of padding.
  auto hex = [](const std::string &text) {
    Digest digest =
        sha256({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
    std::string out;
    for (uint8_t byte : digest) {
      char pair[3];
      std::snprintf(pair, sizeof(pair), "%02x", byte);
      out += pair;
    }
    return out;
  };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b"
                     "7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff"
                        "61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Serialize, RoundTripKeepsEveryField) {
  Program program = fullProgram();
  std::vector<uint8_t> bytes = save(program);
  auto loaded = load(bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.error().text;
  EXPECT_EQ(save(loaded.value()), bytes);
  const Program &copy = loaded.value();
  EXPECT_EQ(copy.graphs, 2u);
  EXPECT_TRUE(copy.wideIndex);
  EXPECT_EQ(copy.cpu, program.cpu);
  EXPECT_EQ(copy.code, program.code);
  EXPECT_EQ(copy.outputs, program.outputs);
  EXPECT_EQ(copy.values[0].name, "h");
  EXPECT_EQ(copy.values[5].dtype, DType::Bool);
  EXPECT_EQ(copy.steps[0].view.strides, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(copy.steps[3].kernel.symbol, "k");
  EXPECT_EQ(copy.steps[3].kernel.rowWork, 7);
  EXPECT_EQ(copy.steps[3].kernel.scratchBytesPerDegree, 12);
  EXPECT_EQ(copy.steps[3].kernel.gatheredBytes, 256);
  EXPECT_EQ(copy.steps[3].kernel.phases, 3);
  EXPECT_EQ(copy.steps[3].kernel.partialBytes, 448);
  EXPECT_EQ(copy.steps[7].checkIndex.count, 8);
  EXPECT_TRUE(copy.steps[7].checkIndex.fromEnd);
  EXPECT_EQ(copy.steps[7].checkIndex.place, "a.py:3");
  EXPECT_EQ(copy.steps[7].checkIndex.field, "t");
  EXPECT_EQ(copy.costs, program.costs);
  ASSERT_EQ(copy.variants.size(), 1u);
  EXPECT_EQ(copy.variants[0].costs, program.variants[0].costs);
  EXPECT_EQ(copy.variants[0].steps[3].kernel.symbol, "other");
}

TEST(Serialize, VariantsHaveNone) {
  Program program = fullProgram();
  program.variants[0].variants = {fullProgram()};
  auto loaded = load(save(program));
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::Corrupt);
}

TEST(Serialize, EveryDamagedByteIsNoticed) {
  std::vector<uint8_t> bytes = save(fullProgram());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<uint8_t> damaged = bytes;
    damaged[i] ^= 0x40;
    EXPECT_FALSE(load(damaged).ok()) << "byte " << i;
  }
}

TEST(Serialize, EveryTruncationIsNoticed) {
  std::vector<uint8_t> bytes = save(fullProgram());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(load(std::span(bytes).first(size)).ok()) << size;
}

// Bytes whose digest is right may still be anything: they load as a valid
// program, or give an error, but never crash.
TEST(Serialize, WellSignedNonsenseIsSafe) {
  std::vector<uint8_t> good = save(fullProgram());
  const size_t header = 56;
  int refused = 0;
  for (size_t i = header; i < good.size(); ++i)
    for (uint8_t replacement : {0x00, 0x01, 0x7f, 0xff}) {
      std::vector<uint8_t> bytes = good;
      bytes[i] = replacement;
      Digest digest = sha256(std::span(bytes).subspan(header));
      std::copy(digest.begin(), digest.end(), bytes.begin() + 24);
      refused += !load(bytes).ok();
    }
  EXPECT_GT(refused, 100);
}

TEST(Serialize, ForeignBytesAndVersionsAreNamed) {
  std::vector<uint8_t> bytes = save(fullProgram());
  std::vector<uint8_t> text(100, 'x');
  EXPECT_EQ(load(text).error().code, ErrorCode::Corrupt);
  std::vector<uint8_t> other = bytes;
  other[8] += 1;
  auto loaded = load(other);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::Unsupported);
  EXPECT_NE(loaded.error().text.find("ABI version 4"), std::string::npos);
}

TEST(Serialize, StatedDigestIsThatOfTheContent) {
  std::vector<uint8_t> bytes = save(fullProgram());
  auto digest = statedDigest(bytes);
  ASSERT_TRUE(digest.ok());
  EXPECT_EQ(digest.value(), sha256(std::span(bytes).subspan(56)));
}

} // namespace
