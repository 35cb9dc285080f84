#include "fs/format/types.h"

#include <cstddef>
#include <iterator>

namespace zuse::format {
namespace {

// The numbered types; above them, a type says its own attributes in bits.
constexpr std::uint8_t kNumberedTypes = 54;
constexpr std::uint8_t kNewStyle = 0x80;
constexpr std::uint8_t kNewStyleMetadata = 0x40;
constexpr std::uint8_t kNewStyleClass = 0x1f;
constexpr std::uint8_t kClasses = 10;
constexpr std::uint8_t kClassZap = 4;

}  // namespace

bool is_valid(ObjectType type) noexcept {
  const auto value = static_cast<std::uint8_t>(type);
  return value < kNumberedTypes ||
         ((value & kNewStyle) != 0 && (value & kNewStyleClass) < kClasses);
}

// source: format page 02 section 6.
bool is_metadata(ObjectType type) noexcept {
  const auto value = static_cast<std::uint8_t>(type);
  if ((value & kNewStyle) != 0) {
    return (value & kNewStyleMetadata) != 0;
  }
  switch (type) {
    case ObjectType::plain_file:
    case ObjectType::zvol:
    case ObjectType::plain_other:
    case ObjectType::uint64_other:
    case ObjectType::dedup: return false;
    default: return true;
  }
}

bool is_zap(ObjectType type) noexcept {
  const auto value = static_cast<std::uint8_t>(type);
  if ((value & kNewStyle) != 0) {
    return (value & kNewStyleClass) == kClassZap;
  }
  switch (type) {
    case ObjectType::object_directory:
    case ObjectType::dsl_dir_child_map:
    case ObjectType::dsl_dataset_snap_map:
    case ObjectType::dsl_props:
    case ObjectType::directory:
    case ObjectType::master_node:
    case ObjectType::unlinked_set:
    case ObjectType::zvol_prop:
    case ObjectType::zap_other:
    case ObjectType::error_log:
    case ObjectType::pool_props:
    case ObjectType::dsl_perms:
    case ObjectType::next_clones:
    case ObjectType::scan_queue:
    case ObjectType::user_group_used:
    case ObjectType::user_group_quota:
    case ObjectType::user_refs:
    case ObjectType::ddt_zap:
    case ObjectType::ddt_stats:
    case ObjectType::sa_master_node:
    case ObjectType::sa_attr_registration:
    case ObjectType::sa_attr_layouts:
    case ObjectType::scan_xlate:
    case ObjectType::deadlist:
    case ObjectType::dsl_clones: return true;
    default: return false;
  }
}

const char* to_string(Checksum checksum) noexcept {
  switch (checksum) {
    case Checksum::inherit: return "inherit";
    case Checksum::on: return "on";
    case Checksum::off: return "off";
    case Checksum::label: return "label";
    case Checksum::gang_header: return "gang_header";
    case Checksum::zilog: return "zilog";
    case Checksum::fletcher2: return "fletcher2";
    case Checksum::fletcher4: return "fletcher4";
    case Checksum::sha256: return "sha256";
    case Checksum::zilog2: return "zilog2";
    case Checksum::noparity: return "noparity";
    case Checksum::sha512: return "sha512";
    case Checksum::skein: return "skein";
    case Checksum::edonr: return "edonr";
    case Checksum::blake3: return "blake3";
  }
  return "unknown";
}

const char* to_string(Compression compression) noexcept {
  constexpr const char* kNames[] = {"inherit", "on",     "off",    "lzjb",   "empty",  "gzip-1",
                                    "gzip-2",  "gzip-3", "gzip-4", "gzip-5", "gzip-6", "gzip-7",
                                    "gzip-8",  "gzip-9", "zle",    "lz4",    "zstd"};
  const auto value = static_cast<std::size_t>(compression);
  return value < std::size(kNames) ? kNames[value] : "unknown";
}

}  // namespace zuse::format
