// Extended attributes as they are stored with an object's system attributes: a packed name-value
// list of byte arrays. The other form, a hidden directory of small files, is in tree_xattr.cpp.
// source: format page 08 section 8.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fs/codec/nvlist.h"
#include "vdev/base/result.h"

namespace zuse::posix {

inline constexpr std::size_t kXattrSaValueMax = 32768;   // bytes of one value in the list
inline constexpr std::size_t kXattrSaListMax = 65535;    // bytes of the packed list
inline constexpr std::size_t kXattrDirValueMax = 65536;  // bytes of one value in a file

// user., trusted., security., system.: what Linux calls a namespace.
bool has_xattr_namespace(std::string_view name) noexcept;
// A stored name as Linux shows it: one without a namespace belongs to user.
std::string shown_xattr_name(std::string_view stored);
// The names under which an attribute may be stored, the usual one first.
std::vector<std::string> stored_xattr_names(const std::string& name);

class XattrList {
 public:
  // Empty bytes give an empty list. errors: corrupt.
  static Result<XattrList> decode(std::span<const std::byte> packed);
  std::vector<std::byte> encode() const { return list_.encode_xdr(); }

  // By the name that Linux uses.
  std::optional<std::vector<std::byte>> find(const std::string& name) const;
  bool has(const std::string& name) const { return find(name).has_value(); }
  void set(const std::string& name, std::span<const std::byte> value);
  bool erase(const std::string& name);
  std::vector<std::string> names() const;

 private:
  codec::NvList list_;
};

}  // namespace zuse::posix
