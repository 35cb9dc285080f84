#include "fs/format/feature.h"

#include <algorithm>
#include <iterator>

namespace zuse::format {
namespace {

constexpr std::string_view kExtensibleDataset = "com.delphix:extensible_dataset";

constexpr auto kNone = FeatureSupport::none;
constexpr auto kRead = FeatureSupport::read;
constexpr auto kReadWrite = FeatureSupport::read_write;

// The letters of format page 04 section 2.2: R read-only compatible, M in labels, E active once
// enabled, D per dataset. The name is what follows the guid's colon.
constexpr Feature feature(std::string_view guid, std::string_view letters, FeatureSupport support,
                          std::array<std::string_view, 3> dependencies,
                          std::string_view description) {
  const auto has = [&](char letter) { return letters.find(letter) != std::string_view::npos; };
  return {.guid = guid,
          .name = guid.substr(guid.find(':') + 1),
          .read_only_compatible = has('R'),
          .mos = has('M'),
          .activate_on_enable = has('E'),
          .per_dataset = has('D'),
          .support = support,
          .dependencies = dependencies,
          .description = description};
}

constexpr Feature kFeatures[] = {
    feature("com.delphix:async_destroy", "R", kRead, {},
            "Destroyed datasets are freed in the background."),
    feature("com.delphix:empty_bpobj", "R", kReadWrite, {},
            "Empty lists of block pointers share one object."),
    feature("org.illumos:lz4_compress", "E", kReadWrite, {},
            "LZ4 compression, and its use for metadata."),
    feature("com.joyent:multi_vdev_crash_dump", "", kReadWrite, {},
            "Crash dumps to volumes on several vdevs."),
    feature("com.delphix:spacemap_histogram", "R", kReadWrite, {},
            "Space maps keep a histogram of their free segments."),
    feature("com.delphix:enabled_txg", "R", kReadWrite, {},
            "Records when each feature was enabled."),
    feature("com.delphix:hole_birth", "ME", kReadWrite, {"com.delphix:enabled_txg"},
            "Holes remember when they were punched."),
    feature("com.delphix:zpool_checkpoint", "R", kRead, {},
            "The whole pool can be taken back to a checkpoint."),
    feature("com.delphix:spacemap_v2", "RE", kReadWrite, {},
            "Space map entries of two words for long ranges."),
    feature("com.delphix:extensible_dataset", "", kReadWrite, {},
            "Datasets and directories can carry named values."),
    feature("com.delphix:bookmarks", "R", kReadWrite, {kExtensibleDataset},
            "Bookmarks: the birth of a snapshot, kept without its blocks."),
    feature("com.joyent:filesystem_limits", "R", kRead, {kExtensibleDataset},
            "Limits on the number of file systems and snapshots."),
    feature("com.delphix:embedded_data", "ME", kReadWrite, {},
            "Small blocks live inside their block pointer."),
    feature("com.delphix:livelist", "R", kRead, {kExtensibleDataset},
            "Clones list their own blocks, to be deleted fast."),
    feature("com.delphix:log_spacemap", "R", kReadWrite, {"com.delphix:spacemap_v2"},
            "Changes of all space maps of a txg are logged in one."),
    feature("org.open-zfs:large_blocks", "D", kReadWrite, {kExtensibleDataset},
            "Blocks larger than 128 KiB."),
    feature("org.zfsonlinux:large_dnode", "D", kReadWrite, {kExtensibleDataset},
            "Dnodes larger than 512 bytes."),
    feature("org.illumos:sha512", "D", kReadWrite, {kExtensibleDataset}, "SHA-512/256 checksums."),
    feature("org.illumos:skein", "D", kNone, {kExtensibleDataset}, "Skein checksums."),
    feature("org.illumos:edonr", "D", kNone, {kExtensibleDataset}, "Edon-R checksums."),
    feature("org.openzfs:blake3", "D", kNone, {kExtensibleDataset}, "BLAKE3 checksums."),
    feature("com.datto:bookmark_v2", "", kReadWrite, {kExtensibleDataset, "com.delphix:bookmarks"},
            "Bookmarks of a larger size."),
    feature("com.delphix:redaction_bookmarks", "", kRead,
            {"com.datto:bookmark_v2", kExtensibleDataset, "com.delphix:bookmarks"},
            "Bookmarks that list redacted blocks."),
    feature("com.delphix:redacted_datasets", "D", kNone, {kExtensibleDataset},
            "Datasets received with parts left out."),
    feature("com.delphix:bookmark_written", "", kRead,
            {"com.datto:bookmark_v2", kExtensibleDataset, "com.delphix:bookmarks"},
            "Bookmarks that count what was written since."),
    feature("com.delphix:device_removal", "M", kNone, {},
            "Top-level vdevs were removed, their blocks mapped elsewhere."),
    feature("com.delphix:obsolete_counts", "R", kRead,
            {kExtensibleDataset, "com.delphix:device_removal"},
            "Counts of mapped blocks no longer needed."),
    feature("org.zfsonlinux:userobj_accounting", "RD", kReadWrite, {kExtensibleDataset},
            "Objects are counted by owner."),
    feature("com.datto:encryption", "D", kNone, {kExtensibleDataset, "com.datto:bookmark_v2"},
            "Encrypted datasets."),
    feature("org.zfsonlinux:project_quota", "RD", kReadWrite, {kExtensibleDataset},
            "Space and objects are counted by project."),
    feature("org.zfsonlinux:allocation_classes", "R", kRead, {},
            "Vdevs for metadata, small blocks or dedup tables only."),
    feature("com.datto:resilver_defer", "R", kRead, {}, "A second resilver waits for the first."),
    feature("org.openzfs:device_rebuild", "R", kRead, {},
            "Mirrors and dRAID rebuild in order of the device."),
    feature("org.freebsd:zstd_compress", "D", kReadWrite, {kExtensibleDataset},
            "Zstandard compression."),
    feature("org.openzfs:draid", "M", kNone, {}, "Distributed spare RAID."),
    feature("com.seagate:draid_failure_domains", "M", kNone, {"org.openzfs:draid"},
            "Failure domains of dRAID."),
    feature("org.openzfs:zilsaxattr", "RD", kReadWrite, {kExtensibleDataset},
            "Extended attributes kept as system attributes are logged."),
    feature("com.delphix:head_errlog", "E", kReadWrite, {},
            "The error log names blocks by their head dataset."),
    feature("com.fudosecurity:block_cloning", "R", kRead, {},
            "Files share blocks, which are counted."),
    feature("com.truenas:block_cloning_endian", "R", kRead, {"com.fudosecurity:block_cloning"},
            "Counts of shared blocks are stored in the pool's byte order."),
    feature("com.klarasystems:vdev_zaps_v2", "M", kReadWrite, {},
            "The root vdev has a table of values too."),
    feature("com.delphix:redaction_list_spill", "", kRead, {"com.delphix:redaction_bookmarks"},
            "Redaction lists may be long."),
    feature("org.openzfs:raidz_expansion", "M", kNone, {}, "Raidz vdevs were widened."),
    feature("com.klarasystems:fast_dedup", "R", kRead, {}, "Dedup tables with a log."),
    feature("org.zfsonlinux:longname", "D", kRead, {kExtensibleDataset},
            "File names of up to 1023 bytes."),
    feature("com.klarasystems:large_microzap", "RD", kRead,
            {kExtensibleDataset, "org.open-zfs:large_blocks"}, "Micro ZAPs larger than 128 KiB."),
    feature("com.klarasystems:dynamic_gang_header", "M", kNone, {},
            "Gang headers as large as their sector."),
    feature("com.truenas:physical_rewrite", "RD", kReadWrite, {kExtensibleDataset},
            "Blocks may be rewritten and keep their logical birth."),
};

const Feature* find(std::string_view Feature::* key, std::string_view value) noexcept {
  const auto* const found = std::ranges::find(kFeatures, value, key);
  return found == std::end(kFeatures) ? nullptr : found;
}

}  // namespace

std::span<const Feature> all_features() noexcept {
  return kFeatures;
}

const Feature* find_feature(std::string_view guid) noexcept {
  return find(&Feature::guid, guid);
}

const Feature* find_feature_by_name(std::string_view name) noexcept {
  return find(&Feature::name, name);
}

bool pool_may_read(std::string_view guid, bool read_only_compatible) noexcept {
  const Feature* const known = find_feature(guid);
  if (known == nullptr) {
    return read_only_compatible;
  }
  return known->support != FeatureSupport::none || known->per_dataset ||
         known->read_only_compatible;
}

bool pool_may_write(std::string_view guid) noexcept {
  const Feature* const known = find_feature(guid);
  return known != nullptr && (known->support == FeatureSupport::read_write || known->per_dataset);
}

}  // namespace zuse::format
