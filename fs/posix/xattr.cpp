// Names and the packed list. Lists written by other systems may hold names without a namespace.
#include "fs/posix/xattr.h"

#include <array>

namespace zuse::posix {
namespace {

constexpr std::string_view kUser = "user.";
constexpr std::array<std::string_view, 4> kNamespaces{kUser, "trusted.", "security.", "system."};

}  // namespace

bool has_xattr_namespace(std::string_view name) noexcept {
  for (const std::string_view space : kNamespaces) {
    if (name.size() > space.size() && name.starts_with(space)) {
      return true;
    }
  }
  return false;
}

std::string shown_xattr_name(std::string_view stored) {
  return has_xattr_namespace(stored) ? std::string(stored)
                                     : std::string(kUser) + std::string(stored);
}

std::vector<std::string> stored_xattr_names(const std::string& name) {
  std::vector<std::string> names{name};
  if (name.starts_with(kUser)) {
    const std::string bare = name.substr(kUser.size());
    if (!has_xattr_namespace(bare)) {
      names.push_back(bare);
    }
  }
  return names;
}

Result<XattrList> XattrList::decode(std::span<const std::byte> packed) {
  XattrList xattrs;
  if (packed.empty()) {
    return xattrs;
  }
  ZUSE_TRY(xattrs.list_, codec::NvList::decode(packed));
  for (const codec::NvPair& pair : xattrs.list_.pairs()) {
    if (!std::holds_alternative<std::vector<std::byte>>(pair.value)) {
      return fail(Errc::corrupt, "extended attribute " + pair.name + " is not an array of bytes");
    }
  }
  return xattrs;
}

std::optional<std::vector<std::byte>> XattrList::find(const std::string& name) const {
  for (const std::string& stored : stored_xattr_names(name)) {
    const codec::NvPair* const pair = list_.find(stored);
    if (pair == nullptr) {
      continue;
    }
    if (const auto* const bytes = std::get_if<std::vector<std::byte>>(&pair->value)) {
      return *bytes;
    }
  }
  return std::nullopt;
}

void XattrList::set(const std::string& name, std::span<const std::byte> value) {
  for (const std::string& stored : stored_xattr_names(name)) {
    if (stored != name) {
      list_.erase(stored);
    }
  }
  list_.set_bytes(name, {value.begin(), value.end()});
}

bool XattrList::erase(const std::string& name) {
  bool erased = false;
  for (const std::string& stored : stored_xattr_names(name)) {
    erased = list_.erase(stored) || erased;
  }
  return erased;
}

std::vector<std::string> XattrList::names() const {
  std::vector<std::string> names;
  for (const codec::NvPair& pair : list_.pairs()) {
    names.push_back(shown_xattr_name(pair.name));
  }
  return names;
}

}  // namespace zuse::posix
