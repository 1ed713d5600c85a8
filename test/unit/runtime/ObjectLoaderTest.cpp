#include "gossamer/runtime/ObjectLoader.h"

#include "test/unit/runtime/TestPrograms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <elf.h>
#include <fstream>

using namespace gossamer;
using namespace gossamer::test;

namespace {

template <typename Fn>
Fn *function(const LoadedObject &object, const char *name) {
  return reinterpret_cast<Fn *>(object.find(name));
}

/// Each way in which the compiler was asked for addresses.
class ObjectLoaderPlain : public testing::TestWithParam<const char *> {};

TEST_P(ObjectLoaderPlain, CodeConstantsVariablesAndImportsWork) {
  auto loaded = LoadedObject::load(readObject(GetParam()));
  ASSERT_TRUE(loaded.ok()) << loaded.error().text;
  const LoadedObject &object = loaded.value();
  EXPECT_EQ(function<double(int)>(object, "lookup")(1), -2.25);
  EXPECT_EQ(function<char(int)>(object, "initial")(2), 't');
  auto count = function<int()>(object, "count");
  EXPECT_EQ(count(), 41);
  EXPECT_EQ(count(), 42);
  auto classify = function<int(int)>(object, "classify");
  const int classes[] = {17, 5, -4, 1234, 16, 99, -1};
  for (int i = 0; i < 7; ++i)
    EXPECT_EQ(classify(i), classes[i]);
  EXPECT_FLOAT_EQ(function<float(float)>(object, "softplus")(1.5f),
                  std::log1p(std::exp(1.5f)));
  auto exp = function<float (*(void))(float)>(object, "pointerToExp")();
  EXPECT_FLOAT_EQ(exp(2.0f), std::exp(2.0f));
  char to[6] = {};
  function<void(char *, const char *, unsigned long)>(object, "copyBytes")(
      to, "hello", 5);
  EXPECT_STREQ(to, "hello");
}

INSTANTIATE_TEST_SUITE_P(Models, ObjectLoaderPlain,
                         testing::Values("plain-pic", "plain-fixed",
                                         "plain-pic-no-plt"),
                         [](const auto &test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

#ifdef GOSSAMER_HAVE_LLC
TEST(ObjectLoader, LlvmObject) {
  auto loaded = LoadedObject::load(readObject("llvm"));
  ASSERT_TRUE(loaded.ok()) << loaded.error().text;
  float x[8] = {0, 1, 1, 1, 1, -1, -1, -1};
  function<void(float *, int64_t)>(loaded.value(), "scale_exp")(x, 2);
  const float expected[8] = {1, 2, 3, 4, std::exp(1.0f), -2, -3, -4};
  for (int i = 0; i < 8; ++i)
    EXPECT_FLOAT_EQ(x[i], expected[i]);
}
#endif

TEST(ObjectLoader, NamesWhatItDoesNotHave) {
  auto loaded = LoadedObject::load(readObject("plain-pic"));
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.value().find("absent"), nullptr);
  EXPECT_EQ(loaded.value().find("twice"), nullptr) << "a local function";
}

TEST(ObjectLoader, UnknownImportIsNamed) {
  auto loaded = LoadedObject::load(readObject("unknown-import"));
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::Unsupported);
  EXPECT_NE(loaded.error().text.find("'getpid'"), std::string::npos)
      << loaded.error().text;
  EXPECT_NE(loaded.error().text.find("R_X86_64_"), std::string::npos);
}

TEST(ObjectLoader, ThreadLocalVariablesAreRefused) {
  auto loaded = LoadedObject::load(readObject("thread-local"));
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().text.find("thread-local"), std::string::npos);
}

TEST(ObjectLoader, OtherMachinesAreNamed) {
  std::vector<uint8_t> object = readObject("plain-pic");
  uint16_t machine = EM_AARCH64;
  std::memcpy(object.data() + offsetof(Elf64_Ehdr, e_machine), &machine, 2);
  auto loaded = LoadedObject::load(object);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::Unsupported);
  EXPECT_NE(loaded.error().text.find("aarch64"), std::string::npos);
}

TEST(ObjectLoader, EveryTruncationIsAnError) {
  std::vector<uint8_t> object = readObject("plain-pic");
  for (size_t size = 1; size < object.size(); size += 7)
    EXPECT_FALSE(LoadedObject::load(std::span(object).first(size)).ok());
}

// Damaged objects are refused or load, but never crash the loader.
TEST(ObjectLoader, EveryDamagedByteIsSafe) {
  std::vector<uint8_t> object = readObject("plain-pic");
  int refused = 0;
  for (size_t i = 0; i < object.size(); ++i)
    for (uint8_t replacement : {0x00, 0x7f, 0xff}) {
      std::vector<uint8_t> damaged = object;
      damaged[i] = replacement;
      refused += !LoadedObject::load(damaged).ok();
    }
  EXPECT_GT(refused, 100);
}

TEST(ObjectLoader, NoPageIsWritableAndExecutable) {
  auto loaded = LoadedObject::load(readObject("plain-pic"));
  ASSERT_TRUE(loaded.ok());
  uint64_t code = uint64_t(loaded.value().find("lookup"));
  std::ifstream maps("/proc/self/maps");
  std::string line, found;
  while (std::getline(maps, line)) {
    uint64_t begin, end;
    char access[5];
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) == 3 &&
        begin <= code && code < end)
      found = access;
  }
  EXPECT_EQ(found, "r-xp");
}

} // namespace
