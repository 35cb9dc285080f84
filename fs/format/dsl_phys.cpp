#include "fs/format/dsl_phys.h"

namespace zuse::format {
namespace {

struct DslDirRaw {
  U64 creation_time, head_dataset, parent, origin, child_zap, used, compressed, uncompressed, quota,
      reserved, props_zap, deleg_zap, flags;
  std::array<U64, 5> used_breakdown;
  U64 clones_zap;
  std::array<U64, 13> pad;
};
static_assert(OnDisk<DslDirRaw> && sizeof(DslDirRaw) == kDslDirSize);
static_assert(offsetof(DslDirRaw, used_breakdown) == 104 && offsetof(DslDirRaw, clones_zap) == 144);

struct DslDatasetRaw {
  U64 dir, prev_snap, prev_snap_txg, next_snap, snapnames_zap, num_children, creation_time,
      creation_txg, deadlist, referenced, compressed, uncompressed, unique, fsid_guid, guid, flags;
  BlkptrPhys bp;
  U64 next_clones_zap, props_zap, userrefs_zap;
  std::array<U64, 5> pad;
};
static_assert(OnDisk<DslDatasetRaw> && sizeof(DslDatasetRaw) == kDslDatasetSize);
static_assert(offsetof(DslDatasetRaw, bp) == 128);

struct DeadlistHeaderRaw {
  U64 used, compressed, uncompressed;
  std::array<U64, 37> pad;
};
static_assert(OnDisk<DeadlistHeaderRaw> && sizeof(DeadlistHeaderRaw) == kDeadlistHeaderSize);

}  // namespace

Result<DslDirPhys> decode_dsl_dir(std::span<const std::byte> bonus, ByteOrder order) {
  ZUSE_TRY(const DslDirRaw raw, read_at<DslDirRaw>(bonus, 0));
  DslDirPhys out{.creation_time = raw.creation_time.load(order),
                 .head_dataset = raw.head_dataset.load(order),
                 .parent = raw.parent.load(order),
                 .origin = raw.origin.load(order),
                 .child_zap = raw.child_zap.load(order),
                 .used = raw.used.load(order),
                 .compressed = raw.compressed.load(order),
                 .uncompressed = raw.uncompressed.load(order),
                 .quota = raw.quota.load(order),
                 .reserved = raw.reserved.load(order),
                 .props_zap = raw.props_zap.load(order),
                 .deleg_zap = raw.deleg_zap.load(order),
                 .flags = raw.flags.load(order),
                 .used_breakdown = {},
                 .clones_zap = raw.clones_zap.load(order)};
  for (std::size_t i = 0; i < out.used_breakdown.size(); ++i) {
    out.used_breakdown[i] = raw.used_breakdown[i].load(order);
  }
  return out;
}

void encode_dsl_dir(const DslDirPhys& dir, std::span<std::byte> bonus, ByteOrder order) {
  DslDirRaw raw{};
  raw.creation_time.store(dir.creation_time, order);
  raw.head_dataset.store(dir.head_dataset, order);
  raw.parent.store(dir.parent, order);
  raw.origin.store(dir.origin, order);
  raw.child_zap.store(dir.child_zap, order);
  raw.used.store(dir.used, order);
  raw.compressed.store(dir.compressed, order);
  raw.uncompressed.store(dir.uncompressed, order);
  raw.quota.store(dir.quota, order);
  raw.reserved.store(dir.reserved, order);
  raw.props_zap.store(dir.props_zap, order);
  raw.deleg_zap.store(dir.deleg_zap, order);
  raw.flags.store(dir.flags, order);
  for (std::size_t i = 0; i < dir.used_breakdown.size(); ++i) {
    raw.used_breakdown[i].store(dir.used_breakdown[i], order);
  }
  raw.clones_zap.store(dir.clones_zap, order);
  write_at(bonus, 0, raw);
}

Result<DslDatasetPhys> decode_dsl_dataset(std::span<const std::byte> bonus, ByteOrder order) {
  ZUSE_TRY(const DslDatasetRaw raw, read_at<DslDatasetRaw>(bonus, 0));
  return DslDatasetPhys{.dir = raw.dir.load(order),
                        .prev_snap = raw.prev_snap.load(order),
                        .prev_snap_txg = raw.prev_snap_txg.load(order),
                        .next_snap = raw.next_snap.load(order),
                        .snapnames_zap = raw.snapnames_zap.load(order),
                        .num_children = raw.num_children.load(order),
                        .creation_time = raw.creation_time.load(order),
                        .creation_txg = raw.creation_txg.load(order),
                        .deadlist = raw.deadlist.load(order),
                        .referenced = raw.referenced.load(order),
                        .compressed = raw.compressed.load(order),
                        .uncompressed = raw.uncompressed.load(order),
                        .unique = raw.unique.load(order),
                        .fsid_guid = raw.fsid_guid.load(order),
                        .guid = raw.guid.load(order),
                        .flags = raw.flags.load(order),
                        .bp = decode(raw.bp, order),
                        .next_clones_zap = raw.next_clones_zap.load(order),
                        .props_zap = raw.props_zap.load(order),
                        .userrefs_zap = raw.userrefs_zap.load(order)};
}

void encode_dsl_dataset(const DslDatasetPhys& dataset, std::span<std::byte> bonus,
                        ByteOrder order) {
  DslDatasetRaw raw{};
  raw.dir.store(dataset.dir, order);
  raw.prev_snap.store(dataset.prev_snap, order);
  raw.prev_snap_txg.store(dataset.prev_snap_txg, order);
  raw.next_snap.store(dataset.next_snap, order);
  raw.snapnames_zap.store(dataset.snapnames_zap, order);
  raw.num_children.store(dataset.num_children, order);
  raw.creation_time.store(dataset.creation_time, order);
  raw.creation_txg.store(dataset.creation_txg, order);
  raw.deadlist.store(dataset.deadlist, order);
  raw.referenced.store(dataset.referenced, order);
  raw.compressed.store(dataset.compressed, order);
  raw.uncompressed.store(dataset.uncompressed, order);
  raw.unique.store(dataset.unique, order);
  raw.fsid_guid.store(dataset.fsid_guid, order);
  raw.guid.store(dataset.guid, order);
  raw.flags.store(dataset.flags, order);
  raw.bp = encode(dataset.bp, order);
  raw.next_clones_zap.store(dataset.next_clones_zap, order);
  raw.props_zap.store(dataset.props_zap, order);
  raw.userrefs_zap.store(dataset.userrefs_zap, order);
  write_at(bonus, 0, raw);
}

Result<DeadlistHeader> decode_deadlist_header(std::span<const std::byte> bonus, ByteOrder order) {
  ZUSE_TRY(const DeadlistHeaderRaw raw, read_at<DeadlistHeaderRaw>(bonus, 0));
  return DeadlistHeader{.used = raw.used.load(order),
                        .compressed = raw.compressed.load(order),
                        .uncompressed = raw.uncompressed.load(order)};
}

void encode_deadlist_header(const DeadlistHeader& header, std::span<std::byte> bonus,
                            ByteOrder order) {
  DeadlistHeaderRaw raw{};
  raw.used.store(header.used, order);
  raw.compressed.store(header.compressed, order);
  raw.uncompressed.store(header.uncompressed, order);
  write_at(bonus, 0, raw);
}

}  // namespace zuse::format
