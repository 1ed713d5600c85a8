#include "gossamer/runtime/IndexCheck.h"
#include "gossamer/runtime/ThreadPool.h"

#include <gtest/gtest.h>

#include <vector>

using namespace gossamer;

namespace {

template <typename T>
Status checked(const std::vector<T> &numbers, const CheckIndexStep &step) {
  ThreadPool pool(4);
  DType dtype = sizeof(T) == 4 ? DType::I32 : DType::I64;
  return checkIndex(step, dtype, numbers.data(), int64_t(numbers.size()), pool);
}

template <typename T> void expectOk(const std::vector<T> &numbers, bool end) {
  Status status = checked(numbers, {0, 8, end, "", ""});
  EXPECT_TRUE(status.ok()) << status.error().text;
}

TEST(IndexCheck, TakesEveryRow) {
  expectOk<int64_t>({}, false);
  expectOk<int64_t>({0, 7, 3}, false);
  expectOk<int32_t>({0, 7, 3}, false);
  expectOk<int64_t>({0, 7, -1, -8}, true);
  expectOk<int32_t>({-8}, true);
}

TEST(IndexCheck, NamesLineFieldNumberAndRow) {
  Status status = checked<int64_t>({1, 8, 9}, {0, 8, false, "a.py:3", "t"});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::OutOfRange);
  EXPECT_EQ(status.error().text,
            "a.py:3: t is 8 in row 1, but the table has 8 rows, 0 to 7");
}

TEST(IndexCheck, NegativeNumbersCountOnlyWhereTheyMay) {
  Status status = checked<int32_t>({-1}, {0, 8, false, "", ""});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text,
            "the index is -1 in row 0, but the table has 8 rows, 0 to 7");
  status = checked<int32_t>({-8, -9}, {0, 8, true, "", ""});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text, "the index is -9 in row 1, but the table has "
                                 "8 rows, 0 to 7, or -8 to -1");
}

// Whichever thread finds one first, the first is named; the largest numbers of
// the type are out of range, too.
TEST(IndexCheck, NamesTheFirstOfMany) {
  std::vector<int64_t> numbers(200000, 5);
  numbers[70001] = INT64_MAX;
  numbers[70002] = INT64_MIN;
  numbers[199999] = -9;
  Status status = checked(numbers, {0, 8, true, "", ""});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().text.find("in row 70001,"), std::string::npos);
}

} // namespace
