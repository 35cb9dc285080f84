// The XDR encoding: big-endian, everything at multiples of four bytes. source: format page 01
// section 2.2.
#include <bit>

#include "fs/codec/nvlist_encoding.h"
#include "vdev/base/on_disk.h"
#include "vdev/base/units.h"

namespace zuse::codec {
namespace {

constexpr std::size_t kUnit = 4;
constexpr std::uint32_t kStringMax = 1U << 20U;

// Reads forward and remembers the first failure, so that parsing stays straight.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint32_t u32() {
    const auto raw = take(sizeof(std::uint32_t));
    return raw.empty() ? 0 : load_at<std::uint32_t>(raw, 0, ByteOrder::big);
  }
  std::uint64_t u64() {
    const auto raw = take(sizeof(std::uint64_t));
    return raw.empty() ? 0 : load_at<std::uint64_t>(raw, 0, ByteOrder::big);
  }
  std::span<const std::byte> take(std::size_t size) {
    if (failed_ || size > bytes_.size() - at_) {
      failed_ = true;
      return {};
    }
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  std::span<const std::byte> padded(std::size_t size) {
    const auto result = take(size);
    take(round_up(size, kUnit) - size);
    return failed_ ? std::span<const std::byte>{} : result;
  }
  std::string string() {
    const std::uint32_t length = u32();
    if (length > kStringMax) {
      failed_ = true;
      return {};
    }
    const auto raw = padded(length);
    return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
  }
  std::size_t at() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }
  void seek(std::size_t at) {
    if (at > bytes_.size() || at < at_) {
      failed_ = true;
    } else {
      at_ = at;
    }
  }
  bool failed() const { return failed_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

struct Limits {
  unsigned depth = 0;
  std::size_t* pairs = nullptr;
};

Result<NvList> read_list(Reader& in, Limits limits);

Result<void> read_value(Reader& in, NvPair& pair, std::uint32_t count, Limits limits) {
  const unsigned width = nv_width(pair.type);
  const auto integer = [&] {
    return nv_narrow(width == 8 ? in.u64() : in.u32(), width, nv_signed(pair.type));
  };
  switch (nv_shape(pair.type)) {
    case NvShape::none: break;
    case NvShape::integer: pair.value = integer(); break;
    case NvShape::real: pair.value = std::bit_cast<double>(in.u64()); break;
    case NvShape::string: pair.value = in.string(); break;
    case NvShape::bytes: {
      const auto raw = in.padded(count);
      pair.value = std::vector<std::byte>(raw.begin(), raw.end());
      break;
    }
    case NvShape::integers: {
      if (in.u32() != count || count > in.left() / kUnit) {
        return fail(Errc::corrupt, "nvlist: the array '" + pair.name + "' has a wrong count");
      }
      std::vector<std::uint64_t> values(count);
      for (std::uint64_t& value : values) {
        value = integer();
      }
      pair.value = std::move(values);
      break;
    }
    case NvShape::strings: {
      if (count > in.left() / kUnit) {
        return fail(Errc::corrupt, "nvlist: the array '" + pair.name + "' has a wrong count");
      }
      std::vector<std::string> values(count);
      for (std::string& value : values) {
        value = in.string();
      }
      pair.value = std::move(values);
      break;
    }
    case NvShape::list:
    case NvShape::lists: {
      if (count > in.left() / kUnit) {
        return fail(Errc::corrupt, "nvlist: the array '" + pair.name + "' has a wrong count");
      }
      std::vector<NvList> lists;
      for (std::uint32_t i = 0; i < count; ++i) {
        ZUSE_TRY(NvList below, read_list(in, limits));
        lists.push_back(std::move(below));
      }
      pair.value = std::move(lists);
      break;
    }
  }
  return {};
}

Result<NvList> read_list(Reader& in, Limits limits) {
  if (++limits.depth > kNvDepthMax) {
    return fail(Errc::corrupt, "nvlist: lists are nested too deep");
  }
  NvList list;
  const std::uint32_t version = in.u32();
  list.set_flags(in.u32());
  if (in.failed() || version != 0) {
    return fail(Errc::corrupt, "nvlist: no list here");
  }
  for (;;) {
    const std::size_t start = in.at();
    const std::uint32_t encoded = in.u32(), decoded = in.u32();
    if (in.failed()) {
      return fail(Errc::corrupt, "nvlist: the list ends early");
    }
    if (decoded == 0) {
      if (encoded != 0) {
        return fail(Errc::corrupt, "nvlist: a pair without a size");
      }
      return list;
    }
    if (++*limits.pairs > kNvPairsMax) {
      return fail(Errc::corrupt, "nvlist: too many pairs");
    }
    NvPair pair;
    pair.name = in.string();
    const std::uint32_t type = in.u32(), count = in.u32();
    pair.type = static_cast<NvType>(type);
    if (in.failed() || !nv_known(pair.type)) {
      return fail(Errc::corrupt, "nvlist: '" + pair.name + "' has an unknown type");
    }
    const NvShape shape = nv_shape(pair.type);
    const bool scalar = shape == NvShape::integer || shape == NvShape::real ||
                        shape == NvShape::string || shape == NvShape::list;
    if (scalar && count != 1) {
      return fail(Errc::corrupt,
                  "nvlist: '" + pair.name + "' has " + std::to_string(count) + " values");
    }
    ZUSE_TRY_VOID(read_value(in, pair, count, limits));
    if (in.failed() || in.at() - start > encoded) {
      return fail(Errc::corrupt, "nvlist: '" + pair.name + "' runs past its end");
    }
    in.seek(start + encoded);
    if (in.failed()) {
      return fail(Errc::corrupt, "nvlist: '" + pair.name + "' runs past the list");
    }
    list.pairs().push_back(std::move(pair));
  }
}

class Writer {
 public:
  void u32(std::uint32_t value) { put<std::uint32_t>(value); }
  void u64(std::uint64_t value) { put<std::uint64_t>(value); }
  void padded(std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    out.resize(round_up(out.size(), kUnit));
  }
  void string(const std::string& text) {
    u32(static_cast<std::uint32_t>(text.size()));
    padded(std::as_bytes(std::span(text)));
  }

  std::vector<std::byte> out;

 private:
  template <class T>
  void put(T value) {
    Raw<T> raw;
    raw.store(value, ByteOrder::big);
    out.insert(out.end(), raw.bytes.begin(), raw.bytes.end());
  }
};

void write_list(Writer& writer, const NvList& list);

void write_value(Writer& writer, const NvPair& pair) {
  const unsigned width = nv_width(pair.type);
  const auto integer = [&](std::uint64_t value) {
    if (width == 8) {
      writer.u64(value);
    } else {
      writer.u32(static_cast<std::uint32_t>(value));
    }
  };
  switch (nv_shape(pair.type)) {
    case NvShape::none: break;
    case NvShape::integer: integer(std::get<std::uint64_t>(pair.value)); break;
    case NvShape::real:
      writer.u64(std::bit_cast<std::uint64_t>(std::get<double>(pair.value)));
      break;
    case NvShape::string: writer.string(std::get<std::string>(pair.value)); break;
    case NvShape::bytes: writer.padded(std::get<std::vector<std::byte>>(pair.value)); break;
    case NvShape::integers:
      writer.u32(static_cast<std::uint32_t>(nv_elements(pair)));
      for (const std::uint64_t value : std::get<std::vector<std::uint64_t>>(pair.value)) {
        integer(value);
      }
      break;
    case NvShape::strings:
      for (const std::string& text : std::get<std::vector<std::string>>(pair.value)) {
        writer.string(text);
      }
      break;
    case NvShape::list:
    case NvShape::lists:
      for (const NvList& below : std::get<std::vector<NvList>>(pair.value)) {
        write_list(writer, below);
      }
      break;
  }
}

void write_list(Writer& writer, const NvList& list) {
  writer.u32(0);
  writer.u32(list.flags());
  for (const NvPair& pair : list.pairs()) {
    const std::size_t start = writer.out.size();
    writer.u32(0);  // the size, once it is known
    writer.u32(static_cast<std::uint32_t>(nv_decoded_size(pair)));
    writer.string(pair.name);
    writer.u32(static_cast<std::uint32_t>(pair.type));
    writer.u32(static_cast<std::uint32_t>(nv_elements(pair)));
    write_value(writer, pair);
    store_at<std::uint32_t>(writer.out, start,
                            static_cast<std::uint32_t>(writer.out.size() - start), ByteOrder::big);
  }
  writer.u64(0);
}

}  // namespace

Result<NvList> decode_xdr(std::span<const std::byte> bytes) {
  Reader in(bytes);
  std::size_t pairs = 0;
  return read_list(in, {0, &pairs});
}

std::vector<std::byte> NvList::encode_xdr(ByteOrder order) const {
  Writer writer;
  writer.out = {std::byte{kNvXdr}, order == ByteOrder::little ? std::byte{1} : std::byte{0},
                std::byte{0}, std::byte{0}};
  write_list(writer, *this);
  return std::move(writer.out);
}

}  // namespace zuse::codec
