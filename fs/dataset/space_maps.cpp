#include "fs/dataset/space_maps.h"

#include <algorithm>
#include <charconv>

#include "fs/dataset/mos.h"

namespace zuse::dataset {
namespace {

constexpr std::uint32_t kMapBlock = 4096;
constexpr std::uint32_t kArrayBlock = 4096;
constexpr std::size_t kReadPiece = 131072;
constexpr std::uint64_t kMapLengthMax = std::uint64_t{1} << 32;
constexpr std::uint64_t kCondenseFactor =
    4;  // a map this many times as long as needed is written anew
constexpr std::uint64_t kCondenseMin = 32768;  // bytes; shorter ones are left alone
constexpr unsigned kLogShift = 9;              // unit of log space maps
constexpr std::string_view kTopZap = "com.delphix:vdev_zap_top";
constexpr std::string_view kUnflushedTxgs = "com.delphix:ms_unflushed_phys_txgs";

using Entries = std::vector<format::SpaceMapEntry>;

struct OpenMap {
  object::DnodeRef dnode;
  format::SpaceMapHeader header;
  std::size_t bonus_size = 0;
};

Result<OpenMap> open_map(object::Objset& mos, std::uint64_t object) {
  ZUSE_TRY(object::DnodeRef dnode, mos.hold(object));
  const std::vector<std::byte> bonus = dnode->bonus();
  if (dnode->bonus_type() != format::ObjectType::space_map_header) {
    return fail(Errc::corrupt, "MOS object " + std::to_string(object) + " is not a space map");
  }
  ZUSE_TRY(const auto header, format::decode_space_map_header(bonus, kHostOrder));
  if (header.length > kMapLengthMax ||
      header.length > std::uint64_t{dnode->block_size()} * (dnode->max_block() + 1)) {
    return fail(Errc::corrupt,
                "space map " + std::to_string(object) + " is longer than its object");
  }
  return OpenMap{std::move(dnode), header, bonus.size()};
}

Result<void> read_entries(const OpenMap& map, Entries& into) {
  format::SpaceMapDecoder decoder;
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < map.header.length; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kReadPiece, map.header.length - at));
    ZUSE_TRY_VOID(map.dnode->read(at, piece));
    ZUSE_TRY_VOID(
        decoder.feed(piece, kHostOrder, [&](const format::SpaceMapEntry& entry) -> Result<void> {
          into.push_back(entry);
          return {};
        }));
  }
  return decoder.finish();
}

Result<object::DnodeRef> create_map(object::Objset& mos, object::Tx& tx, Features& features) {
  const bool histogram = features.enabled(feature::kSpacemapHistogram);
  object::NewObject spec;
  spec.type = format::ObjectType::space_map;
  spec.block_size = kMapBlock;
  spec.bonus_type = format::ObjectType::space_map_header;
  spec.bonus_size = static_cast<std::uint16_t>(histogram ? format::kSpaceMapHeaderSizeHistogram
                                                         : format::kSpaceMapHeaderSizeV0);
  ZUSE_TRY(object::DnodeRef dnode, mos.allocate(tx, spec));
  if (histogram) {
    ZUSE_TRY_VOID(features.adjust(mos, tx, feature::kSpacemapHistogram, 1));
  }
  return dnode;
}

Result<void> store_header(object::Dnode& dnode, object::Tx& tx,
                          const format::SpaceMapHeader& header, std::size_t bonus_size) {
  std::vector<std::byte> bonus(bonus_size > format::kSpaceMapHeaderSizeV0
                                   ? format::kSpaceMapHeaderSizeHistogram
                                   : format::kSpaceMapHeaderSizeV0);
  format::encode_space_map_header(header, bonus, kHostOrder);
  return dnode.set_bonus(tx, bonus);
}

// Appends words after `header.length`. Updates the header's length only.
Result<void> append_words(object::Dnode& dnode, object::Tx& tx, format::SpaceMapHeader& header,
                          bool two_words, const Entries& entries) {
  format::SpaceMapEncoder encoder(header.length, dnode.block_size(), two_words);
  for (const format::SpaceMapEntry& entry : entries) {
    ZUSE_TRY_VOID(encoder.add(entry));
  }
  std::vector<std::byte> bytes;
  encoder.append_to(bytes, kHostOrder);
  ZUSE_TRY_VOID(dnode.write(tx, header.length, bytes));
  header.length += bytes.size();
  return {};
}

std::string where(std::uint32_t top, std::uint64_t metaslab) {
  return "space map of metaslab " + std::to_string(metaslab) + " of vdev " + std::to_string(top);
}

}  // namespace

Result<void> SpaceMaps::load(object::Objset& mos, const Features& features,
                             const pool::PoolConfig& config, pool::Allocator& allocator) {
  allocator_ = &allocator;
  std::map<std::uint32_t, std::map<std::uint64_t, Entries>> entries;
  for (std::uint32_t i = 0; i < config.root.children.size(); ++i) {
    const vdev::VdevConfig& vdev = config.root.children[i];
    if (vdev.type == vdev::VdevType::hole || vdev.metaslab_array == 0) {
      continue;
    }
    Top& top = tops_[i];
    top.array = vdev.metaslab_array;
    top.metaslab_shift = vdev.metaslab_shift;
    top.ashift = vdev.ashift;
    top.maps.resize(allocator.metaslab_count(i));
    ZUSE_TRY_VOID(load_top(mos, i, top, entries[i]));
  }
  if (features.active(feature::kLogSpacemap)) {
    ZUSE_TRY_VOID(load_logs(mos, config, entries));
  }
  for (auto& [index, top] : tops_) {
    for (std::uint64_t m = 0; m < top.maps.size(); ++m) {
      auto loaded = allocator.load(index, m, entries[index][m]);
      if (!loaded) {
        return std::unexpected(std::move(loaded).error().within(where(index, m)));
      }
    }
  }
  return {};
}

Result<void> SpaceMaps::load_top(object::Objset& mos, std::uint32_t index, Top& top,
                                 std::map<std::uint64_t, Entries>& entries) {
  ZUSE_TRY(const object::DnodeRef array, mos.hold(top.array));
  std::vector<std::byte> numbers(top.maps.size() * 8);
  ZUSE_TRY_VOID(array->read(0, numbers));
  for (std::uint64_t m = 0; m < top.maps.size(); ++m) {
    Map& map = top.maps[m];
    map.object = load_at<std::uint64_t>(numbers, m * 8, kHostOrder);
    if (map.object == 0) {
      continue;
    }
    auto opened = open_map(mos, map.object);
    if (!opened) {
      return std::unexpected(std::move(opened).error().within(where(index, m)));
    }
    map.header = opened->header;
    map.bonus_size = opened->bonus_size;
    ZUSE_TRY_VOID(read_entries(*opened, entries[m]));
  }
  return {};
}

Result<void> SpaceMaps::load_logs(
    object::Objset& mos, const pool::PoolConfig& config,
    std::map<std::uint32_t, std::map<std::uint64_t, Entries>>& entries) {
  ZUSE_TRY(const auto zap_object, directory_entry(mos, key::kLogSpacemapZap));
  if (!zap_object) {
    return {};
  }
  has_logs_ = true;
  // The txg from which on the logs add to each metaslab's own map.
  std::map<std::uint32_t, std::vector<std::uint64_t>> unflushed;
  for (const auto& [index, top] : tops_) {
    std::vector<std::uint64_t>& txgs = unflushed[index];
    txgs.resize(top.maps.size());
    const auto others = config.vdev_others.find(config.root.children[index].guid);
    const std::uint64_t top_zap =
        others == config.vdev_others.end() ? 0 : others->second.u64_or(kTopZap, 0);
    if (top_zap == 0) {
      continue;
    }
    ZUSE_TRY(const object::Zap zap, object::Zap::open(mos, top_zap));
    const auto object = zap.lookup(kUnflushedTxgs);
    if (!object) {
      if (object.error().code() == Errc::not_found) {
        continue;
      }
      return std::unexpected(object.error());
    }
    ZUSE_TRY(const object::DnodeRef dnode, mos.hold(*object));
    std::vector<std::byte> bytes(txgs.size() * 8);
    ZUSE_TRY_VOID(dnode->read(0, bytes));
    for (std::size_t m = 0; m < txgs.size(); ++m) {
      txgs[m] = load_at<std::uint64_t>(bytes, m * 8, kHostOrder);
    }
  }
  ZUSE_TRY(const object::Zap zap, object::Zap::open(mos, *zap_object));
  std::map<std::uint64_t, std::uint64_t> logs;
  ZUSE_TRY_VOID(zap.for_each([&](const object::ZapEntry& entry) -> Result<void> {
    std::uint64_t txg = 0;
    const char* const end = entry.name.data() + entry.name.size();
    if (std::from_chars(entry.name.data(), end, txg, 16).ptr != end ||
        entry.value.integers.empty()) {
      return fail(Errc::corrupt, "the list of log space maps has a damaged entry");
    }
    logs[txg] = entry.value.integers[0];
    return {};
  }));
  for (const auto& [txg, object] : logs) {
    ZUSE_TRY(const OpenMap map, open_map(mos, object));
    Entries list;
    ZUSE_TRY_VOID(read_entries(map, list));
    for (format::SpaceMapEntry entry : list) {
      const auto top = tops_.find(entry.vdev.value_or(~0U));
      const std::uint64_t offset = entry.offset << kLogShift;
      if (top == tops_.end() || entry.offset >> (63 - kLogShift) != 0 ||
          offset >> top->second.metaslab_shift >= top->second.maps.size()) {
        return fail(Errc::corrupt,
                    "log space map of txg " + std::to_string(txg) + " names no metaslab");
      }
      const std::uint64_t metaslab = offset >> top->second.metaslab_shift;
      if (txg < unflushed[top->first][metaslab]) {
        continue;
      }
      const unsigned shift = top->second.ashift - kLogShift;
      entry.offset = (offset - (metaslab << top->second.metaslab_shift)) >> top->second.ashift;
      entry.run >>= shift;
      entry.vdev.reset();
      entries[top->first][metaslab].push_back(entry);
    }
  }
  return {};
}

Result<void> SpaceMaps::create(object::Objset& mos, object::Tx& tx, pool::PoolConfig& config,
                               pool::Allocator& allocator) {
  allocator_ = &allocator;
  for (std::uint32_t i = 0; i < config.root.children.size(); ++i) {
    vdev::VdevConfig& vdev = config.root.children[i];
    object::NewObject spec;
    spec.type = format::ObjectType::object_array;
    spec.block_size = kArrayBlock;
    ZUSE_TRY(const object::DnodeRef array, mos.allocate(tx, spec));
    vdev.metaslab_array = array->object();
    Top& top = tops_[i];
    top.array = vdev.metaslab_array;
    top.metaslab_shift = vdev.metaslab_shift;
    top.ashift = vdev.ashift;
    top.maps.resize(allocator.metaslab_count(i));
    for (std::uint64_t m = 0; m < top.maps.size(); ++m) {
      ZUSE_TRY_VOID(allocator.load(i, m, {}));
    }
  }
  return {};
}

Result<void> SpaceMaps::ensure_object(object::Objset& mos, object::Tx& tx, Features& features,
                                      Top& top, std::uint64_t metaslab) {
  Map& map = top.maps[metaslab];
  if (map.object != 0) {
    return {};
  }
  ZUSE_TRY(const object::DnodeRef dnode, create_map(mos, tx, features));
  map.object = dnode->object();
  map.header = {};
  map.header.object = map.object;
  map.bonus_size = dnode->bonus().size();
  ZUSE_TRY(const object::DnodeRef array, mos.hold(top.array));
  U64 number;
  number.store(map.object, kHostOrder);
  return array->write(tx, metaslab * 8, std::as_bytes(std::span(&number, 1)));
}

Result<void> SpaceMaps::append(object::Objset& mos, object::Tx& tx, const Features& features,
                               const Top&, Map& map, const Entries& entries,
                               std::uint64_t allocated) {
  ZUSE_TRY(const object::DnodeRef dnode, mos.hold(map.object));
  ZUSE_TRY_VOID(
      append_words(*dnode, tx, map.header, features.active(feature::kSpacemapV2), entries));
  map.header.allocated = static_cast<std::int64_t>(allocated);
  return store_header(*dnode, tx, map.header, map.bonus_size);
}

Result<void> SpaceMaps::rewrite(object::Objset& mos, object::Tx& tx, const Features& features,
                                std::uint32_t index, std::uint64_t metaslab) {
  Top& top = tops_[index];
  Map& map = top.maps[metaslab];
  const std::uint64_t start = metaslab << top.metaslab_shift;
  Entries entries;
  std::uint64_t allocated = 0;
  for (const pool::Range& range : allocator_->map_contents(index, metaslab)) {
    entries.push_back({format::SpaceMapOp::alloc, (range.offset - start) >> top.ashift,
                       range.size >> top.ashift, std::nullopt});
    allocated += range.size;
  }
  ZUSE_TRY(const object::DnodeRef dnode, mos.hold(map.object));
  ZUSE_TRY_VOID(dnode->free_range(tx, 0, object::kToEnd));
  map.header.length = 0;
  return append(mos, tx, features, top, map, entries, allocated);
}

Result<bool> SpaceMaps::flush(object::Objset& mos, object::Tx& tx, Features& features,
                              unsigned pass) {
  const std::vector<pool::MetaslabChanges> changed = allocator_->take_changes(tx.txg());
  for (const pool::MetaslabChanges& changes : changed) {
    const auto found = tops_.find(changes.top);
    ZUSE_CHECK(found != tops_.end() && changes.metaslab < found->second.maps.size());
    Top& top = found->second;
    ZUSE_TRY_VOID(ensure_object(mos, tx, features, top, changes.metaslab));
    Map& map = top.maps[changes.metaslab];
    if (pass == 1 && map.header.length >= kCondenseMin) {
      const std::size_t needed = allocator_->map_contents(changes.top, changes.metaslab).size() * 8;
      if (map.header.length > kCondenseFactor * needed) {
        ZUSE_TRY_VOID(rewrite(mos, tx, features, changes.top, changes.metaslab));
        continue;
      }
    }
    const std::uint64_t start = changes.metaslab << top.metaslab_shift;
    Entries entries;
    const auto add = [&](format::SpaceMapOp op, const std::vector<pool::Range>& ranges) {
      for (const pool::Range& range : ranges) {
        entries.push_back(
            {op, (range.offset - start) >> top.ashift, range.size >> top.ashift, std::nullopt});
      }
    };
    add(format::SpaceMapOp::alloc, changes.allocated);
    add(format::SpaceMapOp::free, changes.freed);
    ZUSE_TRY_VOID(append(mos, tx, features, top, map, entries, changes.allocated_total));
  }
  return !changed.empty();
}

Result<void> SpaceMaps::retire_logs(object::Objset& mos, object::Tx& tx, Features& features,
                                    const pool::PoolConfig& config) {
  for (auto& [index, top] : tops_) {
    for (std::uint64_t m = 0; m < top.maps.size(); ++m) {
      if (top.maps[m].object == 0 && allocator_->map_contents(index, m).empty()) {
        continue;
      }
      ZUSE_TRY_VOID(ensure_object(mos, tx, features, top, m));
      ZUSE_TRY_VOID(rewrite(mos, tx, features, index, m));
    }
    const auto others = config.vdev_others.find(config.root.children[index].guid);
    const std::uint64_t top_zap =
        others == config.vdev_others.end() ? 0 : others->second.u64_or(kTopZap, 0);
    if (top_zap != 0) {
      ZUSE_TRY(object::Zap zap, object::Zap::open(mos, top_zap));
      const auto txgs = zap.lookup(kUnflushedTxgs);
      if (txgs) {
        ZUSE_TRY_VOID(zap.remove(tx, kUnflushedTxgs));
        ZUSE_TRY_VOID(mos.free_object(tx, *txgs));
      }
    }
  }
  ZUSE_TRY(const auto zap_object, directory_entry(mos, key::kLogSpacemapZap));
  if (zap_object) {
    ZUSE_TRY(object::Zap zap, object::Zap::open(mos, *zap_object));
    std::vector<std::uint64_t> logs;
    ZUSE_TRY_VOID(zap.for_each([&](const object::ZapEntry& entry) -> Result<void> {
      logs.insert(logs.end(), entry.value.integers.begin(), entry.value.integers.end());
      return {};
    }));
    for (const std::uint64_t log : logs) {
      ZUSE_TRY(const object::DnodeRef dnode, mos.hold(log));
      const bool histogram = dnode->bonus().size() > format::kSpaceMapHeaderSizeV0;
      ZUSE_TRY_VOID(mos.free_object(tx, log));
      if (histogram) {
        ZUSE_TRY_VOID(features.adjust(mos, tx, feature::kSpacemapHistogram, -1));
      }
    }
    ZUSE_TRY_VOID(mos.free_object(tx, *zap_object));
    ZUSE_TRY(object::Zap directory, object_directory(mos));
    ZUSE_TRY_VOID(directory.remove(tx, key::kLogSpacemapZap));
  }
  if (features.active(feature::kLogSpacemap)) {
    ZUSE_TRY_VOID(
        features.adjust(mos, tx, feature::kLogSpacemap,
                        -static_cast<std::int64_t>(features.count(feature::kLogSpacemap))));
  }
  has_logs_ = false;
  return {};
}

Result<vdev::Dtl> read_dtl(object::Objset& mos, std::uint64_t object) {
  vdev::Dtl dtl;
  ZUSE_TRY(const OpenMap map, open_map(mos, object));
  Entries entries;
  ZUSE_TRY_VOID(read_entries(map, entries));
  for (const format::SpaceMapEntry& entry : entries) {
    if (entry.op == format::SpaceMapOp::alloc) {
      dtl.add(entry.offset, entry.offset + entry.run);
    } else {
      dtl.remove(entry.offset, entry.offset + entry.run);
    }
  }
  return dtl;
}

Result<std::uint64_t> write_dtl(object::Objset& mos, object::Tx& tx, Features& features,
                                std::uint64_t object, const vdev::Dtl& dtl) {
  if (object == 0) {
    ZUSE_TRY(const object::DnodeRef dnode, create_map(mos, tx, features));
    object = dnode->object();
  }
  ZUSE_TRY(const object::DnodeRef dnode, mos.hold(object));
  format::SpaceMapHeader header;
  header.object = object;
  Entries entries;
  for (const auto& [first, end] : dtl.ranges()) {
    entries.push_back({format::SpaceMapOp::alloc, first, end - first, std::nullopt});
    header.allocated += static_cast<std::int64_t>(end - first);
  }
  ZUSE_TRY_VOID(dnode->free_range(tx, 0, object::kToEnd));
  ZUSE_TRY_VOID(append_words(*dnode, tx, header, features.active(feature::kSpacemapV2), entries));
  ZUSE_TRY_VOID(store_header(*dnode, tx, header, dnode->bonus().size()));
  return object;
}

}  // namespace zuse::dataset
