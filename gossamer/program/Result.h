// How the runtime reports failure: a value, or an error with a code and a text
// that says what was found and what is required. Nothing here throws or prints.
#ifndef GOSSAMER_PROGRAM_RESULT_H
#define GOSSAMER_PROGRAM_RESULT_H

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

namespace gossamer {

enum class ErrorCode : uint8_t {
  InvalidArgument, // the caller passed something that does not fit
  Corrupt,         // bytes that are damaged, or not ours
  Unsupported,     // well-formed, but not for this build or machine
  OutOfMemory,
  OutOfRange, // a number in the caller's data is that of no row
  Internal    // a promise between our own parts was broken
};

struct Error {
  ErrorCode code = ErrorCode::Internal;
  std::string text;
};

/// An error whose text is the parts, printed one after the other.
template <typename... Parts>
Error makeError(ErrorCode code, const Parts &...parts) {
  std::ostringstream text;
  (text << ... << parts);
  return {code, std::move(text).str()};
}

/// Success, or an error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::make_unique<Error>(std::move(error))) {}

  bool ok() const { return !failure; }
  const Error &error() const { return *failure; }

private:
  std::unique_ptr<Error> failure;
};

/// A value, or an error.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state.index() == 0; }
  T &value() { return std::get<0>(state); }
  const T &value() const { return std::get<0>(state); }
  const Error &error() const { return std::get<1>(state); }

private:
  std::variant<T, Error> state;
};

} // namespace gossamer

#endif
