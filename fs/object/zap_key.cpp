// See zap_key.h.
#include "fs/object/zap_key.h"

#include <algorithm>
#include <array>

#include "fs/object/zap.h"
#include "vdev/base/on_disk.h"

namespace zuse::object::zap {

namespace {

// The reflected CRC of polynomial ECMA-182, a byte at a time.
constexpr std::array<std::uint64_t, 256> crc_table() {
  std::array<std::uint64_t, 256> table{};
  for (std::uint64_t i = 0; i < table.size(); ++i) {
    std::uint64_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xc96c5795d7870f42U : 0U);
    }
    table[i] = value;
  }
  return table;
}
constexpr auto kCrcTable = crc_table();
static_assert(kCrcTable[0] == 0 && kCrcTable[1] == 0xb32e4cbe03a75f6fU);
static_assert(kCrcTable[128] == 0xc96c5795d7870f42U && kCrcTable[255] == 0xe0ada17364673f59U);

constexpr std::uint64_t crc_step(std::uint64_t crc, std::uint8_t byte) noexcept {
  return (crc >> 8U) ^ kCrcTable[(crc ^ byte) & 0xffU];
}

std::uint64_t word_at(std::string_view bytes, std::size_t index) noexcept {
  return load_at<std::uint64_t>(std::as_bytes(std::span(bytes)), index * 8, ByteOrder::big);
}

std::uint64_t hash_words(std::string_view bytes, const KeyRule& rule) noexcept {
  if ((rule.flags & kPreHashed) != 0) {
    return masked(bytes.size() < 8 ? 0 : word_at(bytes, 0), rule.hash_bits());
  }
  std::uint64_t crc = rule.salt;
  for (std::size_t i = 0; i < bytes.size() / 8; ++i) {
    const std::uint64_t word = word_at(bytes, i);
    for (unsigned shift = 0; shift < 64; shift += 8) {  // the low byte first
      crc = crc_step(crc, static_cast<std::uint8_t>(word >> shift));
    }
  }
  return masked(crc, rule.hash_bits());
}

}  // namespace

std::uint64_t crc64(std::uint64_t start, std::string_view bytes, bool fold) noexcept {
  std::uint64_t crc = start;
  for (const char c : bytes) {
    crc = crc_step(crc, static_cast<std::uint8_t>(fold ? folded(c) : c));
  }
  return crc;
}

Result<Key> make_key(std::string_view name, const KeyRule& rule) {
  if (rule.words()) {
    if (name.empty() || name.size() % 8 != 0) {
      return fail(Errc::invalid, "a key of this ZAP is whole 64-bit words");
    }
    return Key{name, hash_words(name, rule), true, false};
  }
  if (name.find('\0') != std::string_view::npos) {
    return fail(Errc::invalid, "a ZAP name cannot hold a NUL");
  }
  if (rule.normalization != 0 &&
      std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) {
    return fail(Errc::unsupported,
                "this directory normalises names, and only ASCII ones can be normalised here");
  }
  return Key{name, masked(crc64(rule.salt, name, rule.folds()), rule.hash_bits()), false,
             rule.folds()};
}

std::uint64_t stored_hash(std::string_view name, const KeyRule& rule) noexcept {
  if (rule.words()) {
    return hash_words(name, rule);
  }
  return masked(crc64(rule.salt, name, rule.folds()), rule.hash_bits());
}

bool same_name(std::string_view a, std::string_view b, bool fold) noexcept {
  return fold ? std::ranges::equal(a, b, {}, folded, folded) : a == b;
}

Position position_of(std::uint64_t cursor, const KeyRule& rule) noexcept {
  const unsigned bits = rule.hash_bits();
  const std::uint64_t cd = cursor >> bits;
  return {cursor << (64 - bits), cd >= rule.cd_limit() ? 0 : cd};
}

std::uint64_t cursor_after(Position entry, const KeyRule& rule) noexcept {
  const unsigned bits = rule.hash_bits();
  std::uint64_t hash = entry.hash >> (64 - bits);
  std::uint64_t cd = entry.cd + 1;
  if (cd >= rule.cd_limit()) {  // would read back as cd 0, and the walk would never end
    cd = 0;
    if (++hash >> bits != 0) {
      return kZapCursorEnd;
    }
  }
  return hash | (cd << bits);
}

}  // namespace zuse::object::zap
