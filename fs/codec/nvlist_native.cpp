// The native encoding: the pairs as they lie in some machine's memory. Pool history uses it.
// source: format page 01 section 2.4.
#include <bit>
#include <cstring>

#include "fs/codec/nvlist_encoding.h"
#include "vdev/base/on_disk.h"
#include "vdev/base/units.h"

namespace zuse::codec {
namespace {

constexpr std::size_t kPairHead = 16;
constexpr std::size_t kListStruct = 24;
constexpr std::size_t kAlign = 8;

struct Cursor {
  std::span<const std::byte> bytes;
  std::size_t at = 0;
  std::size_t pairs = 0;

  bool has(std::size_t size) const { return size <= bytes.size() - at; }
};

Result<void> read_pairs(Cursor& in, NvList& list, unsigned depth);

Result<void> read_value(std::span<const std::byte> raw, std::uint32_t count, NvPair& pair) {
  const unsigned width = nv_width(pair.type);
  const auto short_value = [&] {
    return fail(Errc::corrupt, "nvlist: the value of '" + pair.name + "' is cut short");
  };
  const auto integer = [&](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, raw.data() + at, width);  // little-endian hosts only; see decode_native
    return nv_narrow(value, width, nv_signed(pair.type));
  };
  switch (nv_shape(pair.type)) {
    case NvShape::none: break;
    case NvShape::integer:
      if (raw.size() < width) {
        return short_value();
      }
      pair.value = integer(0);
      break;
    case NvShape::real:
      if (raw.size() < sizeof(double)) {
        return short_value();
      }
      pair.value = std::bit_cast<double>(load_at<std::uint64_t>(raw, 0, kHostOrder));
      break;
    case NvShape::string: {
      const auto* const text = reinterpret_cast<const char*>(raw.data());
      const std::size_t length = strnlen(text, raw.size());
      if (length == raw.size()) {
        return short_value();
      }
      pair.value = std::string(text, length);
      break;
    }
    case NvShape::bytes:
      if (raw.size() < count) {
        return short_value();
      }
      pair.value = std::vector<std::byte>(raw.begin(), raw.begin() + count);
      break;
    case NvShape::integers: {
      if (raw.size() / width < count) {
        return short_value();
      }
      std::vector<std::uint64_t> values(count);
      for (std::size_t i = 0; i < count; ++i) {
        values[i] = integer(i * width);
      }
      pair.value = std::move(values);
      break;
    }
    case NvShape::strings: {
      if (raw.size() / kAlign < count) {
        return short_value();
      }
      std::vector<std::string> values(count);
      std::size_t at = std::size_t{count} * kAlign;
      for (std::string& value : values) {
        const auto* const text = reinterpret_cast<const char*>(raw.data() + at);
        const std::size_t length = strnlen(text, raw.size() - at);
        if (length == raw.size() - at) {
          return short_value();
        }
        value.assign(text, length);
        at += length + 1;
      }
      pair.value = std::move(values);
      break;
    }
    case NvShape::list:
    case NvShape::lists: break;  // their pairs follow this one
  }
  return {};
}

Result<void> read_pairs(Cursor& in, NvList& list, unsigned depth) {
  if (depth > kNvDepthMax) {
    return fail(Errc::corrupt, "nvlist: lists are nested too deep");
  }
  for (;;) {
    if (!in.has(4)) {
      return fail(Errc::corrupt, "nvlist: the list ends early");
    }
    const auto size = load_at<std::uint32_t>(in.bytes, in.at, kHostOrder);
    if (size == 0) {
      in.at += 4;
      return {};
    }
    if (size < kPairHead || !in.has(size) || ++in.pairs > kNvPairsMax) {
      return fail(Errc::corrupt, "nvlist: a pair runs past the list");
    }
    const auto raw = in.bytes.subspan(in.at, size);
    in.at += size;
    const std::size_t name_size = load_at<std::uint16_t>(raw, 4, kHostOrder);
    const auto count = load_at<std::uint32_t>(raw, 8, kHostOrder);
    const std::size_t value_at = round_up(kPairHead + name_size, kAlign);
    NvPair pair;
    pair.type = static_cast<NvType>(load_at<std::uint32_t>(raw, 12, kHostOrder));
    if (name_size == 0 || value_at > size || raw[kPairHead + name_size - 1] != std::byte{0} ||
        !nv_known(pair.type)) {
      return fail(Errc::corrupt, "nvlist: a damaged pair");
    }
    pair.name.assign(reinterpret_cast<const char*>(raw.data()) + kPairHead, name_size - 1);
    ZUSE_TRY_VOID(read_value(raw.subspan(value_at), count, pair));
    const NvShape shape = nv_shape(pair.type);
    if (shape == NvShape::list || shape == NvShape::lists) {
      if (count > in.bytes.size() / 4 || (shape == NvShape::list && count != 1)) {
        return fail(Errc::corrupt, "nvlist: '" + pair.name + "' has a wrong count");
      }
      std::vector<NvList> lists(count);
      const std::size_t first =
          value_at + (shape == NvShape::lists ? std::size_t{count} * kAlign : 0);
      for (std::size_t i = 0; i < count; ++i) {
        if (first + (i + 1) * kListStruct <= size) {
          lists[i].set_flags(load_at<std::uint32_t>(raw, first + i * kListStruct + 4, kHostOrder));
        }
        ZUSE_TRY_VOID(read_pairs(in, lists[i], depth + 1));
      }
      pair.value = std::move(lists);
    }
    list.pairs().push_back(std::move(pair));
  }
}

void append(std::vector<std::byte>& out, const void* data, std::size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

void write_pairs(std::vector<std::byte>& out, const NvList& list) {
  for (const NvPair& pair : list.pairs()) {
    const std::size_t start = out.size();
    const std::size_t size = nv_decoded_size(pair);
    const unsigned width = nv_width(pair.type);
    out.resize(start + size);
    const std::span<std::byte> raw = std::span(out).subspan(start, size);
    const std::size_t name_size = pair.name.size() + 1;
    store_at<std::uint32_t>(raw, 0, static_cast<std::uint32_t>(size), kHostOrder);
    store_at<std::uint16_t>(raw, 4, static_cast<std::uint16_t>(name_size), kHostOrder);
    store_at<std::uint32_t>(raw, 8, static_cast<std::uint32_t>(nv_elements(pair)), kHostOrder);
    store_at<std::uint32_t>(raw, 12, static_cast<std::uint32_t>(pair.type), kHostOrder);
    std::memcpy(raw.data() + kPairHead, pair.name.c_str(), name_size);
    std::byte* const value = raw.data() + round_up(kPairHead + name_size, kAlign);
    const auto list_struct = [&](std::size_t at, const NvList& below) {
      const std::uint32_t flags = below.flags();
      std::memcpy(value + at + 4, &flags, sizeof flags);
    };
    switch (nv_shape(pair.type)) {
      case NvShape::none: break;
      case NvShape::integer: std::memcpy(value, &std::get<std::uint64_t>(pair.value), width); break;
      case NvShape::real: std::memcpy(value, &std::get<double>(pair.value), sizeof(double)); break;
      case NvShape::string: {
        const auto& text = std::get<std::string>(pair.value);
        std::memcpy(value, text.c_str(), text.size() + 1);
        break;
      }
      case NvShape::bytes: {
        const auto& bytes = std::get<std::vector<std::byte>>(pair.value);
        if (!bytes.empty()) {
          std::memcpy(value, bytes.data(), bytes.size());
        }
        break;
      }
      case NvShape::integers: {
        std::size_t at = 0;
        for (const std::uint64_t number : std::get<std::vector<std::uint64_t>>(pair.value)) {
          std::memcpy(value + at, &number, width);
          at += width;
        }
        break;
      }
      case NvShape::strings: {
        std::size_t at = nv_elements(pair) * kAlign;
        for (const std::string& text : std::get<std::vector<std::string>>(pair.value)) {
          std::memcpy(value + at, text.c_str(), text.size() + 1);
          at += text.size() + 1;
        }
        break;
      }
      case NvShape::list:
      case NvShape::lists: {
        const auto& lists = std::get<std::vector<NvList>>(pair.value);
        std::size_t at = pair.type == NvType::nvlist_array ? lists.size() * kAlign : 0;
        for (const NvList& below : lists) {
          list_struct(at, below);
          at += kListStruct;
        }
        for (const NvList& below : lists) {
          write_pairs(out, below);
        }
        break;
      }
    }
  }
  const std::uint32_t end = 0;
  append(out, &end, sizeof end);
}

}  // namespace

// Integers are taken from memory as they lie, narrow ones from its low bytes.
static_assert(kHostOrder == ByteOrder::little);

Result<NvList> decode_native(std::span<const std::byte> bytes) {
  if (bytes.size() < 8) {
    return fail(Errc::corrupt, "nvlist: no list here");
  }
  NvList list;
  list.set_flags(load_at<std::uint32_t>(bytes, 4, kHostOrder));
  Cursor in{bytes, 8};
  ZUSE_TRY_VOID(read_pairs(in, list, 1));
  return list;
}

std::vector<std::byte> NvList::encode_native() const {
  std::vector<std::byte> out = {std::byte{kNvNative}, std::byte{1}, std::byte{0}, std::byte{0}};
  const std::uint32_t head[2] = {0, flags_};
  append(out, head, sizeof head);
  write_pairs(out, *this);
  return out;
}

}  // namespace zuse::codec
