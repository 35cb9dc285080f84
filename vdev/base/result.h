// What a call that may fail returns. A failed read is ordinary traffic in a storage system: three
// layers answer it differently, so errors are values with a kind (what to do) and a sentence (what
// a person reads), never exceptions.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <utility>

namespace zuse {

// Kinds exist because reactions differ; the sentence carries the rest.
enum class Errc : std::uint8_t {
  io,             // the device failed: another copy, or rebuild
  gone,           // the device is not there at all
  checksum,       // bytes came back wrong: rebuild, then repair
  corrupt,        // verified bytes that make no sense: stop
  unsupported,    // a newer or unimplemented format: refuse, say which
  no_space,       // the pool (or a quota) is full
  not_found,      // no such name or object
  exists,         // the name is taken
  access,         // permission denied by mode bits
  not_permitted,  // the operation itself is not allowed
  read_only,      // the pool or dataset is read-only
  busy,           // in use; try again later
  invalid,        // an argument out of its range
  not_directory,
  is_directory,
  not_empty,
  name_too_long,
  too_large,  // past the largest file or value
  no_data,    // no such extended attribute
  range,      // the caller's buffer is too small
  cross_device,
  too_many_links,
  stale,    // an object number that no longer names that object
  stopped,  // the pool is closing, or the operation was cancelled
};

// The short name of a kind, as logs and --json print it: "io", "no_space".
const char* to_string(Errc code) noexcept;

class [[nodiscard]] Error {
 public:
  explicit Error(Errc code, std::string what = {}) : code_(code), what_(std::move(what)) {}

  Errc code() const noexcept { return code_; }
  // The sentence, without a final full stop; the kind's short name where none was given.
  std::string what() const { return what_.empty() ? to_string(code_) : what_; }

  // The same error with where it happened put before it: "reading dnode 34: checksum mismatch".
  Error within(const std::string& context) && { return Error(code_, context + ": " + what()); }

 private:
  Errc code_;
  std::string what_;
};

template <class T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(Errc code, std::string what = {}) {
  return std::unexpected(Error(code, std::move(what)));
}

// Stops the program: an invariant of our own code is broken. Never for disk contents or user input.
[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace zuse

#define ZUSE_CONCAT_(a, b) a##b
#define ZUSE_CONCAT(a, b) ZUSE_CONCAT_(a, b)

// ZUSE_TRY(const Buffer raw, device.read(at)); - declares, or passes the failure up. One a line,
// inside braces.
#define ZUSE_TRY(declaration, expression)                                        \
  auto ZUSE_CONCAT(zuse_try_, __LINE__) = (expression);                          \
  if (!ZUSE_CONCAT(zuse_try_, __LINE__)) {                                       \
    return std::unexpected(std::move(ZUSE_CONCAT(zuse_try_, __LINE__)).error()); \
  }                                                                              \
  declaration = *std::move(ZUSE_CONCAT(zuse_try_, __LINE__))

// The same for a call that returns Result<void>, or whose value is not wanted.
#define ZUSE_TRY_VOID(expression)                                 \
  do {                                                            \
    if (auto zuse_try_result = (expression); !zuse_try_result) {  \
      return std::unexpected(std::move(zuse_try_result).error()); \
    }                                                             \
  } while (false)

#define ZUSE_CHECK(expression) \
  (static_cast<bool>(expression) ? void() : ::zuse::check_failed(#expression, __FILE__, __LINE__))
