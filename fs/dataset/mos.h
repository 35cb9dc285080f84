// Names and small objects of the MOS, the meta object set: what its object directory lists, and the
// calls to make and read them. source: format page 04 section 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "fs/codec/nvlist.h"
#include "fs/object/objset.h"
#include "fs/object/zap.h"

namespace zuse::dataset {

inline constexpr std::uint64_t kObjectDirectory = 1;
inline constexpr std::uint32_t kPackedListBlock = 16384;

namespace key {
inline constexpr std::string_view kRootDataset = "root_dataset";
inline constexpr std::string_view kConfig = "config";
inline constexpr std::string_view kSyncBplist = "sync_bplist";
inline constexpr std::string_view kFreeBpobj = "free_bpobj";
inline constexpr std::string_view kDeflate = "deflate";
inline constexpr std::string_view kCreationVersion = "creation_version";
inline constexpr std::string_view kHistory = "history";
inline constexpr std::string_view kFeaturesForRead = "features_for_read";
inline constexpr std::string_view kFeaturesForWrite = "features_for_write";
inline constexpr std::string_view kFeatureDescriptions = "feature_descriptions";
inline constexpr std::string_view kFeatureEnabledTxg = "feature_enabled_txg";
inline constexpr std::string_view kPoolProps = "pool_props";
inline constexpr std::string_view kScan = "scan";
inline constexpr std::string_view kErrlogLast = "errlog_last";
inline constexpr std::string_view kErrlogScrub = "errlog_scrub";
inline constexpr std::string_view kLogSpacemapZap = "com.delphix:log_spacemap_zap";
}  // namespace key

// The object directory. errors: corrupt, and those of reading.
Result<object::Zap> object_directory(object::Objset& mos);

// The integer under a name of the directory; nullopt where there is none.
Result<std::optional<std::uint64_t>> directory_entry(object::Objset& mos, std::string_view name);

// A packed nvlist object: its bonus holds the exact size. source: format page 04 section 1.1.
Result<std::uint64_t> create_packed_list(object::Objset& mos, object::Tx& tx);
Result<void> write_packed_list(object::Objset& mos, object::Tx& tx, std::uint64_t object,
                               const codec::NvList& list);
Result<codec::NvList> read_packed_list(object::Objset& mos, std::uint64_t object);

}  // namespace zuse::dataset
