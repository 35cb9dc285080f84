// What a ZAP's keys are and how they hash: a CRC-64 that starts from the table's own salt, over the
// name as it is compared, of which only the top bits count. source: format page 06 sections 5, 6.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "vdev/base/result.h"

namespace zuse::object::zap {

// Bits of the fat header's flags.
inline constexpr std::uint64_t kHash64 = 1;
inline constexpr std::uint64_t kUint64Key = 2;
inline constexpr std::uint64_t kPreHashed = 4;
inline constexpr std::uint64_t kKnownFlags = kHash64 | kUint64Key | kPreHashed;
// Bits of the normalisation.
inline constexpr std::uint64_t kFoldCase = 2;

inline constexpr std::uint64_t kBlockMicro = 0x8000000000000003U;
inline constexpr std::uint64_t kBlockHeader = 0x8000000000000001U;
inline constexpr std::uint64_t kBlockLeaf = 0x8000000000000000U;

inline constexpr std::size_t kValueBytesMax = 8192;

// How one table turns names into hashes.
struct KeyRule {
  std::uint64_t salt = 0;
  std::uint64_t normalization = 0;
  std::uint64_t flags = 0;

  unsigned hash_bits() const noexcept { return (flags & kHash64) != 0 ? 48 : 28; }
  // Collision differentiators are below this.
  std::uint64_t cd_limit() const noexcept {
    return (flags & kHash64) != 0 ? 65535 : std::uint64_t{0xffffffff};
  }
  bool words() const noexcept { return (flags & kUint64Key) != 0; }
  bool folds() const noexcept { return (normalization & kFoldCase) != 0; }
};

// The CRC as a running value, not masked. `fold`: ASCII letters count as upper case.
std::uint64_t crc64(std::uint64_t start, std::string_view bytes, bool fold = false) noexcept;

// Keeps the hash bits of a raw value.
constexpr std::uint64_t masked(std::uint64_t raw, unsigned hash_bits) noexcept {
  return raw >> (64 - hash_bits) << (64 - hash_bits);
}

// A key to look for: its bytes as callers spell it, and its hash. For UINT64_KEY tables the bytes
// are 64-bit words, big-endian. Points into the name it was made of.
struct Key {
  std::string_view bytes;
  std::uint64_t hash = 0;
  bool words = false;
  bool fold = false;

  // Length as the entry chunk counts it: with the NUL, or in words.
  std::size_t elements() const noexcept { return words ? bytes.size() / 8 : bytes.size() + 1; }
  // Bytes as the name array stores them.
  std::size_t stored_bytes() const noexcept { return words ? bytes.size() : bytes.size() + 1; }
};

// errors: unsupported (normalised table and a name that is not plain ASCII), invalid (a NUL inside;
// words that are not whole).
Result<Key> make_key(std::string_view name, const KeyRule& rule);
// The hash of a name that is already stored. Names that we cannot normalise hash as if every byte
// stood for itself, which keeps a listing in one order.
std::uint64_t stored_hash(std::string_view name, const KeyRule& rule) noexcept;

constexpr char folded(char c) noexcept {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
bool same_name(std::string_view a, std::string_view b, bool fold) noexcept;

// A place in the order of iteration, and its 64-bit form. source: format page 06 section 7.
struct Position {
  std::uint64_t hash = 0;
  std::uint64_t cd = 0;
  auto operator<=>(const Position&) const = default;
};
// shape: cursor is not the end.
Position position_of(std::uint64_t cursor, const KeyRule& rule) noexcept;
// The cursor of the place just after an entry; the end where there is none.
std::uint64_t cursor_after(Position entry, const KeyRule& rule) noexcept;

}  // namespace zuse::object::zap
