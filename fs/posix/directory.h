// Directories: ZAPs from names to (object number, file type). "." and ".." are not stored.
// source: format page 08 section 3, page 06 section 7.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "fs/object/zap.h"
#include "fs/posix/znode.h"

namespace zuse::posix {

inline constexpr std::size_t kNameMax = 255;

// A directory entry's value. `type` is that of the mode, shifted down by 12; 0: not recorded.
struct Entry {
  std::uint64_t object = 0;
  std::uint32_t type = 0;
};
constexpr Entry decode_entry(std::uint64_t value) noexcept {
  return {value & kObjectNumberMax, static_cast<std::uint32_t>(value >> 60U)};
}
constexpr std::uint64_t encode_entry(std::uint64_t object, std::uint64_t mode) noexcept {
  return (((mode & 0170000U) >> 12U) << 60U) | (object & kObjectNumberMax);
}

// How a file system's names compare, fixed when it was made.
struct NameRules {
  std::uint64_t normalization = 0;  // Unicode form and case folding, as ZAP flags
  bool utf8_only = false;
  // Names cannot be compared without Unicode tables: only exact names are found, nothing is made.
  bool exact_only() const noexcept { return normalization != 0; }
};

// errors: invalid (empty, with a slash or NUL, not UTF-8 where it must be), name_too_long.
Result<void> check_name(std::string_view name);
Result<void> check_new_name(std::string_view name, const NameRules& rules);
bool is_utf8(std::string_view text) noexcept;

// errors: not_found, those of the ZAP. The caller holds the directory's names.
Result<Entry> find_entry(const Znode& directory, std::string_view name, const NameRules& rules);

// Exclusive locks on the names of several directories, taken in the order of their numbers; one
// that is given twice is locked once, null ones are left out.
class NamesLock {
 public:
  NamesLock(std::initializer_list<Znode*> directories) ZUSE_NO_THREAD_SAFETY_ANALYSIS;
  ~NamesLock() ZUSE_NO_THREAD_SAFETY_ANALYSIS;
  NamesLock(const NamesLock&) = delete;
  NamesLock& operator=(const NamesLock&) = delete;

 private:
  std::vector<Znode*> locked_;
};

}  // namespace zuse::posix
