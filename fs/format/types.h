// Numbers that name things on disk: object types, checksum and compression algorithms.
// source: format page 02 sections 3, 4, 6.
#pragma once

#include <cstdint>

namespace zuse::format {

// Any byte value may come from disk: the named ones are those that the code speaks of.
enum class ObjectType : std::uint8_t {
  none = 0,
  object_directory = 1,
  object_array = 2,
  packed_nvlist = 3,
  packed_nvlist_size = 4,
  bpobj = 5,
  bpobj_header = 6,
  space_map_header = 7,
  space_map = 8,
  intent_log = 9,
  dnode = 10,
  objset = 11,
  dsl_dir = 12,
  dsl_dir_child_map = 13,
  dsl_dataset_snap_map = 14,
  dsl_props = 15,
  dsl_dataset = 16,
  znode = 17,
  old_acl = 18,
  plain_file = 19,
  directory = 20,
  master_node = 21,
  unlinked_set = 22,
  zvol = 23,
  zvol_prop = 24,
  plain_other = 25,
  uint64_other = 26,
  zap_other = 27,
  error_log = 28,
  spa_history = 29,
  spa_history_offsets = 30,
  pool_props = 31,
  dsl_perms = 32,
  acl = 33,
  sysacl = 34,
  fuid = 35,
  fuid_size = 36,
  next_clones = 37,
  scan_queue = 38,
  user_group_used = 39,
  user_group_quota = 40,
  user_refs = 41,
  ddt_zap = 42,
  ddt_stats = 43,
  sa = 44,
  sa_master_node = 45,
  sa_attr_registration = 46,
  sa_attr_layouts = 47,
  scan_xlate = 48,
  dedup = 49,
  deadlist = 50,
  deadlist_header = 51,
  dsl_clones = 52,
  bpobj_subobj = 53,
  uint8_data = 0x80,
  uint64_data = 0x83,
  zap_data = 0x84,
  uint8_metadata = 0xc0,
  uint64_metadata = 0xc3,
  zap_metadata = 0xc4,
};

bool is_valid(ObjectType type) noexcept;
// Metadata decides checksum, compression and number of copies.
bool is_metadata(ObjectType type) noexcept;
// Its contents are a ZAP.
bool is_zap(ObjectType type) noexcept;

enum class Checksum : std::uint8_t {
  inherit = 0,
  on = 1,
  off = 2,
  label = 3,
  gang_header = 4,
  zilog = 5,
  fletcher2 = 6,
  fletcher4 = 7,
  sha256 = 8,
  zilog2 = 9,
  noparity = 10,
  sha512 = 11,
  skein = 12,
  edonr = 13,
  blake3 = 14,
};

enum class Compression : std::uint8_t {
  inherit = 0,
  on = 1,
  off = 2,
  lzjb = 3,
  empty = 4,
  gzip1 = 5,
  gzip9 = 13,
  zle = 14,
  lz4 = 15,
  zstd = 16,
};

// What a property or a dnode asks for. `level` matters to zstd only: the level as on disk
// (1..19 plain, 103..123 fast; 0: the default, 3).
struct CompressionChoice {
  Compression algorithm = Compression::off;
  std::uint8_t level = 0;
  bool operator==(const CompressionChoice&) const = default;
};

// The names that properties use: "lz4", "gzip-6", "zstd-fast-10". Parsing answers nullopt-like
// errors in fs/dataset/property; here only the spelling of an algorithm for messages.
const char* to_string(Checksum checksum) noexcept;
const char* to_string(Compression compression) noexcept;

inline constexpr std::uint64_t kMaxBlockSize = std::uint64_t{16} << 20;

}  // namespace zuse::format
