// The table of dataset properties and the spelling of their values. Everything that has a name, a
// number and a default is a row here; resolving (local, inherited, default) is in dsl.cpp.
#include "fs/dataset/property.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "vdev/base/units.h"

namespace zuse::dataset {
namespace {

using enum PropertyKind;

constexpr PropertyInfo kProperties[] = {
    {"type", computed},
    {"creation", computed},
    {"used", computed},
    {"available", computed},
    {"referenced", computed},
    {"compressratio", computed},
    {"mounted", computed},
    {"quota", size, false, 0},
    {"reservation", size, false, 0},
    {"recordsize", size, true, 131072},
    {"mountpoint", text, true, 0, "/"},
    {"checksum", index, true, 1},
    {"compression", index, true, 1},
    {"atime", index, true, 1},
    {"devices", index, true, 1},
    {"exec", index, true, 1},
    {"setuid", index, true, 1},
    {"readonly", index, true, 0},
    {"snapdir", index, true, 0},
    {"createtxg", computed},
    {"canmount", index, false, 1},
    {"xattr", index, true, 2},
    {"copies", index, true, 1},
    {"version", computed},
    {"utf8only", computed},
    {"normalization", computed},
    {"casesensitivity", computed},
    {"refquota", size, false, 0},
    {"refreservation", size, false, 0},
    {"guid", computed},
    {"usedbysnapshots", computed},
    {"usedbydataset", computed},
    {"usedbychildren", computed},
    {"usedbyrefreservation", computed},
    {"logbias", index, true, 0},
    {"objsetid", computed},
    {"dedup", index, true, 2},
    {"sync", index, true, 0},
    {"dnodesize", index, true, 0},
    {"written", computed},
    {"logicalused", computed},
    {"logicalreferenced", computed},
    {"volsize", computed},
    {"volblocksize", computed},
    {"origin", computed},
    {"relatime", index, true, 1},
    {"redundant_metadata", index, true, 0},
    {"special_small_blocks", size, true, 0},
    {"longname", index, true, 0},
};

struct Name {
  std::string_view property;
  std::string_view text;
  std::uint64_t number;
};

// Rows without a property name serve every on/off property.
constexpr Name kNames[] = {
    {"", "off", 0},
    {"", "on", 1},
    {"snapdir", "hidden", 0},
    {"snapdir", "visible", 1},
    {"snapdir", "disabled", 2},
    {"canmount", "off", 0},
    {"canmount", "on", 1},
    {"canmount", "noauto", 2},
    {"xattr", "off", 0},
    {"xattr", "dir", 1},
    {"xattr", "on", 1},
    {"xattr", "sa", 2},
    {"copies", "1", 1},
    {"copies", "2", 2},
    {"copies", "3", 3},
    {"logbias", "latency", 0},
    {"logbias", "throughput", 1},
    {"sync", "standard", 0},
    {"sync", "always", 1},
    {"sync", "disabled", 2},
    {"dnodesize", "legacy", 0},
    {"dnodesize", "auto", 1},
    {"dnodesize", "1k", 1024},
    {"dnodesize", "2k", 2048},
    {"dnodesize", "4k", 4096},
    {"dnodesize", "8k", 8192},
    {"dnodesize", "16k", 16384},
    {"redundant_metadata", "all", 0},
    {"redundant_metadata", "most", 1},
    {"redundant_metadata", "some", 2},
    {"redundant_metadata", "none", 3},
    {"dedup", "off", 2},
    {"checksum", "on", 1},
    {"checksum", "off", 2},
    {"checksum", "fletcher2", 6},
    {"checksum", "fletcher4", 7},
    {"checksum", "sha256", 8},
    {"checksum", "noparity", 10},
    {"checksum", "sha512", 11},
    {"checksum", "skein", 12},
    {"checksum", "edonr", 13},
    {"checksum", "blake3", 14},
    {"compression", "on", 1},
    {"compression", "off", 2},
    {"compression", "lzjb", 3},
    {"compression", "zle", 14},
    {"compression", "lz4", 15},
    {"compression", "zstd", 16},
};

constexpr unsigned kCompressionBits = 7;
constexpr std::uint64_t kGzipDefault = 10;  // gzip means gzip-6

// zstd's fast levels and their numbers on disk. source: format page 02 section 4.4.
std::optional<std::uint8_t> fast_level_number(unsigned level) {
  if (level >= 1 && level <= 10) {
    return static_cast<std::uint8_t>(102 + level);
  }
  if (level >= 20 && level <= 90 && level % 10 == 0) {
    return static_cast<std::uint8_t>(111 + level / 10);
  }
  switch (level) {
    case 100: return std::uint8_t{121};
    case 500: return std::uint8_t{122};
    case 1000: return std::uint8_t{123};
    default: return std::nullopt;
  }
}

std::string zstd_name(std::uint64_t level) {
  if (level == 0) {
    return "zstd";
  }
  if (level < 103) {
    return "zstd-" + std::to_string(level);
  }
  for (const unsigned fast : {1U,  2U,  3U,  4U,  5U,  6U,  7U,  8U,   9U,   10U,  20U,
                              30U, 40U, 50U, 60U, 70U, 80U, 90U, 100U, 500U, 1000U}) {
    if (fast_level_number(fast) == level) {
      return fast == 1 ? "zstd-fast" : "zstd-fast-" + std::to_string(fast);
    }
  }
  return "zstd";
}

std::optional<std::uint64_t> parse_zstd(std::string_view text) {
  const auto number = [](std::string_view digits) -> std::optional<unsigned> {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? std::optional(value)
                                                                        : std::nullopt;
  };
  constexpr auto kZstd = static_cast<std::uint64_t>(format::Compression::zstd);
  if (text == "zstd-fast") {
    return kZstd | std::uint64_t{103} << kCompressionBits;
  }
  if (text.starts_with("zstd-fast-")) {
    const auto level = number(text.substr(10));
    const auto stored = level ? fast_level_number(*level) : std::nullopt;
    return stored ? std::optional(kZstd | std::uint64_t{*stored} << kCompressionBits)
                  : std::nullopt;
  }
  if (text.starts_with("zstd-")) {
    const auto level = number(text.substr(5));
    return level && *level >= 1 && *level <= 19
               ? std::optional(kZstd | std::uint64_t{*level} << kCompressionBits)
               : std::nullopt;
  }
  return std::nullopt;
}

bool has_own_names(std::string_view property) {
  return std::ranges::any_of(kNames, [&](const Name& n) { return n.property == property; });
}

}  // namespace

const PropertyValue* PropertySet::find(std::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

std::uint64_t PropertySet::number(std::string_view name) const {
  const PropertyValue* const value = find(name);
  return value == nullptr ? 0 : value->number;
}

std::string PropertySet::text(std::string_view name) const {
  const PropertyValue* const value = find(name);
  return value == nullptr ? "-" : value->text;
}

std::span<const PropertyInfo> dataset_properties() {
  return kProperties;
}

const PropertyInfo* find_property(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"avail", "available"},   {"compress", "compression"}, {"recsize", "recordsize"},
      {"refer", "referenced"},  {"ratio", "compressratio"},  {"rdonly", "readonly"},
      {"reserv", "reservation"}};
  for (const auto& [abbreviation, full] : kShort) {
    if (name == abbreviation) {
      name = full;
    }
  }
  const auto it = std::ranges::find(kProperties, name, &PropertyInfo::name);
  return it == std::end(kProperties) ? nullptr : it;
}

Result<std::uint64_t> parse_property(const PropertyInfo& property, std::string_view text) {
  if (property.kind == size) {
    if (text == "none") {
      return std::uint64_t{0};
    }
    ZUSE_TRY(const std::uint64_t bytes, parse_size(text));
    if (property.name == "recordsize" &&
        (bytes < 512 || bytes > kMiB || (bytes & (bytes - 1)) != 0)) {
      return fail(Errc::invalid, "recordsize must be a power of two from 512 to 1M");
    }
    return bytes;
  }
  if (property.name == "compression") {
    if (text == "gzip") {
      return kGzipDefault;
    }
    if (text.starts_with("gzip-") && text.size() == 6 && text[5] >= '1' && text[5] <= '9') {
      return std::uint64_t{4} + static_cast<std::uint64_t>(text[5] - '0');
    }
    if (const auto zstd = parse_zstd(text)) {
      return *zstd;
    }
  }
  const std::string_view owner = has_own_names(property.name) ? property.name : "";
  std::string allowed;
  for (const Name& name : kNames) {
    if (name.property != owner) {
      continue;
    }
    if (name.text == text) {
      if (property.name == "checksum" && name.number >= 12) {
        return fail(Errc::unsupported,
                    "checksum " + std::string(text) +
                        " cannot be written yet; use on, fletcher4, sha256 or sha512");
      }
      return name.number;
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(name.text);
  }
  return fail(Errc::invalid, "'" + std::string(text) + "' is not a value of " +
                                 std::string(property.name) + " (use " + allowed + ")");
}

std::string format_property(const PropertyInfo& property, std::uint64_t number, bool exact) {
  if (property.kind == size) {
    if (exact) {
      return std::to_string(number);
    }
    const bool limit = property.name.ends_with("quota") || property.name.ends_with("reservation");
    return limit && number == 0 ? "none" : format_size(number);
  }
  if (property.name == "compression") {
    const std::uint64_t algorithm = bits(number, 0, kCompressionBits);
    if (algorithm == static_cast<std::uint64_t>(format::Compression::zstd)) {
      return zstd_name(number >> kCompressionBits);
    }
    if (algorithm == kGzipDefault) {
      return "gzip";
    }
    if (algorithm >= 5 && algorithm <= 13) {
      return "gzip-" + std::to_string(algorithm - 4);
    }
  }
  const std::string_view owner = has_own_names(property.name) ? property.name : "";
  for (const Name& name : kNames) {
    if (name.property == owner && name.number == number) {
      return std::string(name.text);
    }
  }
  return std::to_string(number);
}

std::string format_size(std::uint64_t bytes) {
  static constexpr std::string_view kSuffix = "BKMGTPE";
  unsigned index = 0;
  std::uint64_t whole = bytes;
  while (whole >= 1024 && index + 1 < kSuffix.size()) {
    whole /= 1024;
    ++index;
  }
  const std::string suffix = index == 0 ? "B" : std::string(1, kSuffix[index]);
  if (bytes == 0) {
    return "0";
  }
  if (index == 0) {
    return std::to_string(bytes) + suffix;
  }
  if (bytes % pow2(10 * index) == 0) {
    return std::to_string(whole) + suffix;
  }
  // As many decimals as leave five characters at most with the suffix.
  const double value = static_cast<double>(bytes) / static_cast<double>(pow2(10 * index));
  std::array<char, 32> text{};
  for (int decimals = 2; decimals >= 0; --decimals) {
    if (std::snprintf(text.data(), text.size(), "%.*f%s", decimals, value, suffix.c_str()) <= 5) {
      break;
    }
  }
  return text.data();
}

Result<std::uint64_t> parse_size(std::string_view text) {
  static constexpr std::string_view kSuffix = "KMGTPE";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) {
    return fail(Errc::invalid, "'" + std::string(text) + "' is not a size");
  }
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  unsigned shift = 0;
  if (!rest.empty()) {
    const std::size_t index = kSuffix.find(static_cast<char>(rest[0] & ~0x20));
    if (index != std::string_view::npos) {
      shift = static_cast<unsigned>(10 * (index + 1));
      rest.remove_prefix(1);
    }
    if (rest == "iB" || rest == "B" || rest == "b" || rest == "ib") {
      rest = {};
    }
  }
  const double bytes = value * static_cast<double>(pow2(shift));
  if (!rest.empty() || bytes >= 18446744073709551616.0) {
    return fail(Errc::invalid, "'" + std::string(text) + "' is not a size");
  }
  return static_cast<std::uint64_t>(bytes);
}

format::CompressionChoice compression_choice(std::uint64_t stored, format::Compression on) {
  const auto algorithm = static_cast<format::Compression>(bits(stored, 0, kCompressionBits));
  if (algorithm == format::Compression::on || algorithm == format::Compression::inherit) {
    return {on, 0};
  }
  const bool zstd = algorithm == format::Compression::zstd;
  return {algorithm, static_cast<std::uint8_t>(zstd ? bits(stored, kCompressionBits, 8) : 0)};
}

}  // namespace zuse::dataset
