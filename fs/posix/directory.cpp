// Checking and finding names, and locking several directories without a cycle.
#include "fs/posix/directory.h"

#include <algorithm>

namespace zuse::posix {

bool is_utf8(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    if (length == 0 || text.size() - at < length) {
      return false;
    }
    std::uint32_t code = length == 1 ? first : first & (0xFFU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      if ((next & 0xC0U) != 0x80U) {
        return false;
      }
      code = (code << 6U) | (next & 0x3FU);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (overlong || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      return false;
    }
    at += length;
  }
  return true;
}

Result<void> check_name(std::string_view name) {
  if (name.size() > kNameMax) {
    return fail(Errc::name_too_long, "a name has at most 255 bytes");
  }
  if (name.empty() || name.find('/') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos) {
    return fail(Errc::invalid, "a name must not be empty or contain / or NUL");
  }
  return {};
}

Result<void> check_new_name(std::string_view name, const NameRules& rules) {
  ZUSE_TRY_VOID(check_name(name));
  if (name == "." || name == "..") {
    return fail(Errc::exists, "the names . and .. are taken");
  }
  if (rules.utf8_only && !is_utf8(name)) {
    return fail(Errc::invalid, "this file system (utf8only) takes names in UTF-8 only");
  }
  return {};
}

Result<Entry> find_entry(const Znode& directory, std::string_view name, const NameRules& rules) {
  const object::Zap zap(directory.dnode);
  if (!rules.exact_only()) {
    ZUSE_TRY(const std::uint64_t value, zap.lookup(name));
    return decode_entry(value);
  }
  // The hash is that of the folded name, which we cannot compute: look at every entry.
  std::uint64_t cursor = 0;
  for (;;) {
    constexpr std::size_t kPage = 256;
    ZUSE_TRY(const std::vector<object::ZapEntry> page, zap.page(cursor, kPage));
    if (page.empty()) {
      return fail(Errc::not_found);
    }
    for (const object::ZapEntry& entry : page) {
      if (entry.name == name && !entry.value.integers.empty()) {
        return decode_entry(entry.value.integers[0]);
      }
    }
    cursor = page.back().cursor;
    if (cursor == object::kZapCursorEnd) {
      return fail(Errc::not_found);
    }
  }
}

NamesLock::NamesLock(std::initializer_list<Znode*> directories) : locked_(directories) {
  std::erase(locked_, nullptr);
  std::sort(locked_.begin(), locked_.end(),
            [](const Znode* a, const Znode* b) { return a->object < b->object; });
  locked_.erase(std::unique(locked_.begin(), locked_.end()), locked_.end());
  for (Znode* const znode : locked_) {
    znode->names.lock();
  }
}

NamesLock::~NamesLock() {
  for (auto it = locked_.rbegin(); it != locked_.rend(); ++it) {
    (*it)->names.unlock();
  }
}

}  // namespace zuse::posix
