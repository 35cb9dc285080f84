// Features: the feature counts of a version 5000 pool, as the MOS keeps them.
// source: format page 04 section 2.1.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/object/zap.h"

namespace zuse::dataset {

// Guids of the features that the code asks about.
namespace feature {
inline constexpr std::string_view kAsyncDestroy = "com.delphix:async_destroy";
inline constexpr std::string_view kEmptyBpobj = "com.delphix:empty_bpobj";
inline constexpr std::string_view kLz4Compress = "org.illumos:lz4_compress";
inline constexpr std::string_view kSpacemapHistogram = "com.delphix:spacemap_histogram";
inline constexpr std::string_view kEnabledTxg = "com.delphix:enabled_txg";
inline constexpr std::string_view kHoleBirth = "com.delphix:hole_birth";
inline constexpr std::string_view kSpacemapV2 = "com.delphix:spacemap_v2";
inline constexpr std::string_view kExtensibleDataset = "com.delphix:extensible_dataset";
inline constexpr std::string_view kLogSpacemap = "com.delphix:log_spacemap";
inline constexpr std::string_view kLargeBlocks = "org.open-zfs:large_blocks";
inline constexpr std::string_view kLargeDnode = "org.zfsonlinux:large_dnode";
inline constexpr std::string_view kSha512 = "org.illumos:sha512";
inline constexpr std::string_view kSkein = "org.illumos:skein";
inline constexpr std::string_view kEdonr = "org.illumos:edonr";
inline constexpr std::string_view kBlake3 = "org.openzfs:blake3";
inline constexpr std::string_view kUserObjAccounting = "org.zfsonlinux:userobj_accounting";
inline constexpr std::string_view kProjectQuota = "org.zfsonlinux:project_quota";
inline constexpr std::string_view kZstdCompress = "org.freebsd:zstd_compress";
inline constexpr std::string_view kHeadErrlog = "com.delphix:head_errlog";
inline constexpr std::string_view kEncryption = "com.datto:encryption";
inline constexpr std::string_view kLivelist = "com.delphix:livelist";
inline constexpr std::string_view kBlockCloning = "com.fudosecurity:block_cloning";
}  // namespace feature

// Reads are thread-safe; changes belong to the sync thread, with no reader of the same feature.
class Features {
 public:
  // `read_zap`, `write_zap`, `descriptions`: the objects that the directory names; all 0 for a pool
  // of version 28 or less, which has no features.
  static Result<Features> load(object::Objset& mos, std::uint64_t read_zap, std::uint64_t write_zap,
                               std::uint64_t descriptions);

  bool enabled(std::string_view guid) const { return counts_.contains(guid); }
  bool active(std::string_view guid) const { return count(guid) != 0; }
  std::uint64_t count(std::string_view guid) const;
  const std::map<std::string, std::uint64_t, std::less<>>& counts() const noexcept {
    return counts_;
  }
  // What label configurations list: active features that are needed to read the MOS.
  std::vector<std::string> label_features() const;

  // errors: unsupported, naming the first active feature that zuse lacks: for any use, or for
  // writing.
  Result<void> check_readable() const;
  Result<void> check_writable() const;

  // Makes a known feature usable (count 0, or 1 where it is active on enable).
  Result<void> enable(object::Objset& mos, object::Tx& tx, std::string_view guid);
  // Adds to the count. errors: corrupt, if it would fall below zero.
  Result<void> adjust(object::Objset& mos, object::Tx& tx, std::string_view guid, std::int64_t by);

 private:
  std::uint64_t zap_of(std::string_view guid) const;

  std::uint64_t read_zap_ = 0, write_zap_ = 0, descriptions_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> counts_;
  std::map<std::string, bool, std::less<>> in_write_zap_;
};

}  // namespace zuse::dataset
