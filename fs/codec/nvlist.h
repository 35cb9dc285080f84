// NvList: an ordered list of named, typed values. Labels, the pool configuration and history
// records are such lists. Two encodings: XDR (big-endian, for labels and the MOS) and native (the
// memory image of some machine, for history records). Every type survives decoding and encoding,
// and so does the order: what we do not understand we can still write back. source: format page 01
// section 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "vdev/base/byte_order.h"
#include "vdev/base/result.h"

namespace zuse::codec {

enum class NvType : std::uint32_t {
  boolean = 1,  // present or not, no value
  byte = 2,
  int16 = 3,
  uint16 = 4,
  int32 = 5,
  uint32 = 6,
  int64 = 7,
  uint64 = 8,
  string = 9,
  byte_array = 10,
  int16_array = 11,
  uint16_array = 12,
  int32_array = 13,
  uint32_array = 14,
  int64_array = 15,
  uint64_array = 16,
  string_array = 17,
  hrtime = 18,
  nvlist = 19,
  nvlist_array = 20,
  boolean_value = 21,
  int8 = 22,
  uint8 = 23,
  boolean_array = 24,
  int8_array = 25,
  uint8_array = 26,
  real = 27,  // double
};

inline constexpr unsigned kNvDepthMax = 20;            // lists within lists
inline constexpr std::size_t kNvPairsMax = 1U << 20U;  // pairs of one encoded list, all depths

struct NvPair;

class NvList {
 public:
  NvList();
  NvList(const NvList&);
  NvList(NvList&&) noexcept;
  NvList& operator=(const NvList&);
  NvList& operator=(NvList&&) noexcept;
  ~NvList();

  // By the first byte: XDR or native. Trailing bytes are ignored.
  // errors: corrupt (said where), unsupported (another encoding; a native list of the other byte
  // order).
  static Result<NvList> decode(std::span<const std::byte> bytes);
  // With the 4-byte head. `order` goes into the head only: XDR is big-endian always.
  std::vector<std::byte> encode_xdr(ByteOrder order = kHostOrder) const;
  // With the 4-byte head, in the host's order.
  std::vector<std::byte> encode_native() const;

  const std::vector<NvPair>& pairs() const noexcept { return pairs_; }
  std::vector<NvPair>& pairs() noexcept { return pairs_; }
  bool empty() const noexcept;
  std::uint32_t flags() const noexcept { return flags_; }
  void set_flags(std::uint32_t flags) noexcept { flags_ = flags; }

  // Null: no pair of that name.
  const NvPair* find(std::string_view name) const noexcept;
  NvPair* find(std::string_view name) noexcept;
  bool has(std::string_view name) const noexcept { return find(name) != nullptr; }
  bool erase(std::string_view name);

  // errors: not_found (no such pair), corrupt (of another type); both name it.
  Result<std::uint64_t> u64(std::string_view name) const;
  Result<std::string> string(std::string_view name) const;
  Result<const NvList*> list(std::string_view name) const;
  Result<std::span<const NvList>> lists(std::string_view name) const;
  Result<std::span<const std::uint64_t>> u64s(std::string_view name) const;
  Result<std::span<const std::string>> strings(std::string_view name) const;
  // The value, or `otherwise` where there is none of that type.
  std::uint64_t u64_or(std::string_view name, std::uint64_t otherwise) const noexcept;
  std::string string_or(std::string_view name, std::string_view otherwise) const;

  // Each replaces the pair of that name where it stands, or appends one.
  void set_boolean(std::string_view name);
  void set_boolean_value(std::string_view name, bool value);
  void set_u64(std::string_view name, std::uint64_t value);
  void set_i64(std::string_view name, std::int64_t value);
  void set_u32(std::string_view name, std::uint32_t value);
  void set_string(std::string_view name, std::string value);
  void set_strings(std::string_view name, std::vector<std::string> values);
  void set_u64s(std::string_view name, std::vector<std::uint64_t> values);
  void set_bytes(std::string_view name, std::vector<std::byte> values);  // byte array
  void set_list(std::string_view name, NvList value);
  void set_lists(std::string_view name, std::vector<NvList> values);

  bool operator==(const NvList& other) const;

 private:
  NvPair& slot(std::string_view name);

  std::vector<NvPair> pairs_;
  std::uint32_t flags_ = 1;  // names are unique
};

// One value with its name. Integers of every width and sign, booleans and times are held as 64 bits
// (signed ones sign-extended); the arrays of them likewise, except byte arrays.
struct NvPair {
  using Value = std::variant<std::monostate,              // boolean
                             std::uint64_t,               // every integer, boolean_value, hrtime
                             double,                      // real
                             std::string,                 // string
                             std::vector<std::byte>,      // byte_array
                             std::vector<std::uint64_t>,  // arrays of integers and booleans
                             std::vector<std::string>,    // string_array
                             std::vector<NvList>>;        // nvlist (exactly one), nvlist_array
  std::string name;
  NvType type = NvType::boolean;
  Value value;
  bool operator==(const NvPair&) const = default;
};

// For people: "name: 'tank'" a line, nested lists indented, as `zdb -l` prints labels.
std::string to_text(const NvList& list, unsigned indent = 0);

}  // namespace zuse::codec
