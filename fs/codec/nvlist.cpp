// NvList as a value: lookup, setters, text. The two encodings are in nvlist_xdr.cpp and
// nvlist_native.cpp.
#include "fs/codec/nvlist.h"

#include <algorithm>

#include "fs/codec/nvlist_encoding.h"

namespace zuse::codec {

NvList::NvList() = default;
NvList::NvList(const NvList&) = default;
NvList::NvList(NvList&&) noexcept = default;
NvList& NvList::operator=(const NvList&) = default;
NvList& NvList::operator=(NvList&&) noexcept = default;
NvList::~NvList() = default;

Result<NvList> NvList::decode(std::span<const std::byte> bytes) {
  constexpr std::size_t kHead = 4;
  if (bytes.size() < kHead) {
    return fail(Errc::corrupt, "nvlist: no head");
  }
  const auto encoding = static_cast<unsigned>(bytes[0]);
  if (encoding == kNvXdr) {
    return decode_xdr(bytes.subspan(kHead));
  }
  if (encoding != kNvNative) {
    return fail(Errc::unsupported, "nvlist: unknown encoding " + std::to_string(encoding));
  }
  const bool little = bytes[1] != std::byte{0};
  if (little != (kHostOrder == ByteOrder::little)) {
    return fail(Errc::unsupported, "nvlist: a native list of the other byte order");
  }
  return decode_native(bytes.subspan(kHead));
}

bool NvList::empty() const noexcept {
  return pairs_.empty();
}

const NvPair* NvList::find(std::string_view name) const noexcept {
  const auto it = std::ranges::find(pairs_, name, &NvPair::name);
  return it == pairs_.end() ? nullptr : &*it;
}

NvPair* NvList::find(std::string_view name) noexcept {
  const auto it = std::ranges::find(pairs_, name, &NvPair::name);
  return it == pairs_.end() ? nullptr : &*it;
}

bool NvList::erase(std::string_view name) {
  return std::erase_if(pairs_, [&](const NvPair& pair) { return pair.name == name; }) != 0;
}

bool NvList::operator==(const NvList& other) const {
  return flags_ == other.flags_ && pairs_ == other.pairs_;
}

namespace {

template <class T>
Result<const T*> get(const NvList& list, std::string_view name, NvType type, const char* kind) {
  const NvPair* const pair = list.find(name);
  if (pair == nullptr) {
    return fail(Errc::not_found, "no '" + std::string(name) + "' in the list");
  }
  const T* const value = pair->type == type ? std::get_if<T>(&pair->value) : nullptr;
  if (value == nullptr) {
    return fail(Errc::corrupt, "'" + std::string(name) + "' is not " + kind);
  }
  return value;
}

}  // namespace

Result<std::uint64_t> NvList::u64(std::string_view name) const {
  ZUSE_TRY(const auto* const value,
           get<std::uint64_t>(*this, name, NvType::uint64, "a 64-bit number"));
  return *value;
}

Result<std::string> NvList::string(std::string_view name) const {
  ZUSE_TRY(const auto* const value, get<std::string>(*this, name, NvType::string, "a string"));
  return *value;
}

Result<const NvList*> NvList::list(std::string_view name) const {
  ZUSE_TRY(const auto* const value,
           get<std::vector<NvList>>(*this, name, NvType::nvlist, "a list"));
  if (value->size() != 1) {
    return fail(Errc::corrupt, "'" + std::string(name) + "' is not one list");
  }
  return &value->front();
}

Result<std::span<const NvList>> NvList::lists(std::string_view name) const {
  ZUSE_TRY(const auto* const value,
           get<std::vector<NvList>>(*this, name, NvType::nvlist_array, "an array of lists"));
  return std::span<const NvList>(*value);
}

Result<std::span<const std::uint64_t>> NvList::u64s(std::string_view name) const {
  ZUSE_TRY(const auto* const value, get<std::vector<std::uint64_t>>(
                                        *this, name, NvType::uint64_array, "an array of numbers"));
  return std::span<const std::uint64_t>(*value);
}

Result<std::span<const std::string>> NvList::strings(std::string_view name) const {
  ZUSE_TRY(const auto* const value,
           get<std::vector<std::string>>(*this, name, NvType::string_array, "an array of strings"));
  return std::span<const std::string>(*value);
}

std::uint64_t NvList::u64_or(std::string_view name, std::uint64_t otherwise) const noexcept {
  const NvPair* const pair = find(name);
  const auto* const value = pair != nullptr && pair->type == NvType::uint64
                                ? std::get_if<std::uint64_t>(&pair->value)
                                : nullptr;
  return value != nullptr ? *value : otherwise;
}

std::string NvList::string_or(std::string_view name, std::string_view otherwise) const {
  const NvPair* const pair = find(name);
  const auto* const value = pair != nullptr && pair->type == NvType::string
                                ? std::get_if<std::string>(&pair->value)
                                : nullptr;
  return value != nullptr ? *value : std::string(otherwise);
}

NvPair& NvList::slot(std::string_view name) {
  if (NvPair* const pair = find(name)) {
    return *pair;
  }
  pairs_.push_back({std::string(name), NvType::boolean, {}});
  return pairs_.back();
}

void NvList::set_boolean(std::string_view name) {
  NvPair& pair = slot(name);
  pair.type = NvType::boolean;
  pair.value = std::monostate{};
}
void NvList::set_boolean_value(std::string_view name, bool value) {
  NvPair& pair = slot(name);
  pair.type = NvType::boolean_value;
  pair.value = std::uint64_t{value ? 1U : 0U};
}
void NvList::set_u64(std::string_view name, std::uint64_t value) {
  NvPair& pair = slot(name);
  pair.type = NvType::uint64;
  pair.value = value;
}
void NvList::set_i64(std::string_view name, std::int64_t value) {
  NvPair& pair = slot(name);
  pair.type = NvType::int64;
  pair.value = static_cast<std::uint64_t>(value);
}
void NvList::set_u32(std::string_view name, std::uint32_t value) {
  NvPair& pair = slot(name);
  pair.type = NvType::uint32;
  pair.value = std::uint64_t{value};
}
void NvList::set_string(std::string_view name, std::string value) {
  NvPair& pair = slot(name);
  pair.type = NvType::string;
  pair.value = std::move(value);
}
void NvList::set_strings(std::string_view name, std::vector<std::string> values) {
  NvPair& pair = slot(name);
  pair.type = NvType::string_array;
  pair.value = std::move(values);
}
void NvList::set_u64s(std::string_view name, std::vector<std::uint64_t> values) {
  NvPair& pair = slot(name);
  pair.type = NvType::uint64_array;
  pair.value = std::move(values);
}
void NvList::set_bytes(std::string_view name, std::vector<std::byte> values) {
  NvPair& pair = slot(name);
  pair.type = NvType::byte_array;
  pair.value = std::move(values);
}
void NvList::set_list(std::string_view name, NvList value) {
  NvPair& pair = slot(name);
  pair.type = NvType::nvlist;
  std::vector<NvList> one;
  one.push_back(std::move(value));
  pair.value = std::move(one);
}
void NvList::set_lists(std::string_view name, std::vector<NvList> values) {
  NvPair& pair = slot(name);
  pair.type = NvType::nvlist_array;
  pair.value = std::move(values);
}

std::string to_text(const NvList& list, unsigned indent) {
  const std::string margin(indent, ' ');
  std::string text;
  for (const NvPair& pair : list.pairs()) {
    text += margin + pair.name;
    if (const auto* const number = std::get_if<std::uint64_t>(&pair.value)) {
      text += ": " + std::to_string(*number);
    } else if (const auto* const real = std::get_if<double>(&pair.value)) {
      text += ": " + std::to_string(*real);
    } else if (const auto* const string = std::get_if<std::string>(&pair.value)) {
      text += ": '" + *string + "'";
    } else if (const auto* const bytes = std::get_if<std::vector<std::byte>>(&pair.value)) {
      text += ": " + std::to_string(bytes->size()) + " bytes";
    } else if (const auto* const numbers = std::get_if<std::vector<std::uint64_t>>(&pair.value)) {
      text += ":";
      for (const std::uint64_t value : *numbers) {
        text += " " + std::to_string(value);
      }
    } else if (const auto* const strings = std::get_if<std::vector<std::string>>(&pair.value)) {
      text += ":";
      for (const std::string& value : *strings) {
        text += " '" + value + "'";
      }
    } else if (const auto* const lists = std::get_if<std::vector<NvList>>(&pair.value)) {
      text += ":";
      for (std::size_t i = 0; i < lists->size(); ++i) {
        if (pair.type == NvType::nvlist_array) {
          text += "\n" + margin + "  [" + std::to_string(i) + "]";
        }
        text += "\n" + to_text((*lists)[i], indent + 4);
        text.pop_back();
      }
    }
    text += "\n";
  }
  return text.empty() ? "\n" : text;
}

}  // namespace zuse::codec
