#include "tests/pool/io/rig.h"

#include <algorithm>

#include "fs/pool/label.h"
#include "vdev/base/random.h"

namespace zuse::pool {
namespace {

constexpr std::uint64_t kDeviceSize = 96 * kMiB;
constexpr unsigned kMetaslabShift = 23;

// Size of one indirect block: eight pointers, so that small objects have many levels.
constexpr unsigned kIndirectShift = 10;
constexpr std::size_t kWidth = 8;

}  // namespace

Rig::Rig(const std::vector<TopSpec>& tops, std::uint64_t arc_max) {
  config_.type = vdev::VdevType::root;
  config_.guid = 1;
  std::uint64_t guid = 100;
  for (std::size_t t = 0; t < tops.size(); ++t) {
    vdev::VdevConfig top;
    top.type = tops[t].type;
    top.id = t;
    top.guid = ++guid;
    top.parity = tops[t].parity;
    top.ashift = tops[t].ashift;
    top.metaslab_shift = kMetaslabShift;
    const std::uint64_t one = round_down(kDeviceSize - std::uint64_t{0x480000}, 262144);
    top.asize = tops[t].type == vdev::VdevType::raidz ? one * tops[t].leaves : one;
    if (tops[t].type == vdev::VdevType::file) {
      top.path = std::to_string(t) + "/0";
    } else {
      for (unsigned l = 0; l < tops[t].leaves; ++l) {
        vdev::VdevConfig leaf;
        leaf.type = vdev::VdevType::file;
        leaf.id = l;
        leaf.guid = ++guid;
        leaf.path = std::to_string(t) + "/" + std::to_string(l);
        top.children.push_back(std::move(leaf));
      }
    }
    config_.children.push_back(std::move(top));
  }
  StorageOptions options;
  options.read_only = false;
  options.arc_max = arc_max;
  options.cpu_threads = 3;
  auto storage = Storage::open(
      config_,
      [&](const vdev::VdevConfig& leaf) -> Result<std::unique_ptr<vdev::BlockDevice>> {
        auto device = std::make_unique<vdev::MemoryDevice>(kDeviceSize, leaf.path);
        const std::size_t slash = leaf.path.find('/');
        devices_[{static_cast<unsigned>(std::stoul(leaf.path.substr(0, slash))),
                  static_cast<unsigned>(std::stoul(leaf.path.substr(slash + 1)))}] = device.get();
        return device;
      },
      options);
  ZUSE_CHECK(storage.has_value());
  storage_ = *std::move(storage);
  Allocator& allocator = storage_->allocator();
  for (unsigned t = 0; t < allocator.top_count(); ++t) {
    for (std::uint64_t m = 0; m < allocator.metaslab_count(t); ++m) {
      ZUSE_CHECK(allocator.load(t, m, {}).has_value());
    }
  }
}

format::Blkptr Rig::write(std::span<const std::byte> data, WriteProperties properties,
                          std::uint64_t txg, const Bookmark& bookmark,
                          const format::Blkptr& before) {
  BlockWriteJob job;
  job.data = data;
  job.properties = properties;
  job.bookmark = bookmark;
  job.blkptr = before;
  pipeline().write(txg, std::span(&job, 1));
  EXPECT_TRUE(job.result) << job.result.error().what();
  return job.blkptr;
}

void Rig::scribble(unsigned top, unsigned leaf_index, std::uint64_t seed) {
  vdev::MemoryDevice& device = leaf(top, leaf_index);
  Xorshift128Plus rng(seed);
  std::vector<std::byte> noise(kMiB);
  rng.fill(noise);
  for (std::uint64_t at = kLeafDataOffset; at + kMiB <= kDeviceSize - kMiB; at += kMiB) {
    EXPECT_TRUE(device.write(at, noise));
  }
}

vdev::VdevStats Rig::stats() {
  vdev::VdevStats sum;
  const auto add = [&](const auto& self, const vdev::VdevStatus& status) -> void {
    if (status.children.empty()) {
      sum.read_errors += status.stats.read_errors;
      sum.write_errors += status.stats.write_errors;
      sum.checksum_errors += status.stats.checksum_errors;
      sum.reads += status.stats.reads;
      sum.writes += status.stats.writes;
      sum.bytes_read += status.stats.bytes_read;
      sum.bytes_written += status.stats.bytes_written;
      sum.bytes_repaired += status.stats.bytes_repaired;
    }
    for (const vdev::VdevStatus& child : status.children) {
      self(self, child);
    }
  };
  add(add, storage_->tree().status());
  return sum;
}

std::vector<std::byte> some_data(std::mt19937_64& rng, std::size_t size) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) {
    data[i] = i / 64 % 2 == 0 ? static_cast<std::byte>(rng()) : static_cast<std::byte>(i / 64);
  }
  return data;
}

namespace {

class Builder {
 public:
  Builder(Rig& rig, std::mt19937_64& rng, std::uint64_t objset, std::uint64_t txg)
      : rig_(rig), rng_(rng), objset_(objset), txg_(txg) {}

  BuiltObjset build() {
    constexpr std::uint64_t kDnodeBlocks = 9;
    std::vector<std::pair<format::Blkptr, std::uint64_t>> level0;
    std::vector<std::vector<PlacedBlock>> below(kDnodeBlocks);
    for (std::uint64_t b = 0; b < kDnodeBlocks; ++b) {
      std::vector<std::byte> block(16384);
      std::uint64_t fill = 0;
      for (std::uint64_t slot = b == 0 ? 1 : 0; slot < 32 && b % 4 != 2;) {
        format::DnodePhys dnode = file(b * 32 + slot, below[b]);
        dnode.extra_slots = rng_() % 4 == 0 && slot + 2 <= 32 ? 1 : 0;
        format::encode_dnode(dnode, std::span(block).subspan(slot * 512, dnode.slots() * 512),
                             kHostOrder);
        ++fill;
        slot += dnode.slots() + rng_() % 9;
      }
      objects_ += fill;
      WriteProperties properties = metadata(format::ObjectType::dnode, 0);
      format::Blkptr blkptr = rig_.write(block, properties, txg_, {objset_, 0, 0, b});
      blkptr.fill = blkptr.is_hole() ? 0 : fill;
      level0.emplace_back(blkptr, fill);
    }
    // The blocks of dnodes' own tree, by hand: its blocks stand before the objects below them.
    format::ObjsetPhys objset;
    objset.type = format::ObjsetType::zfs;
    format::DnodePhys& meta = objset.meta_dnode;
    meta.type = format::ObjectType::dnode;
    meta.block_size = 16384;
    meta.indirect_shift = kIndirectShift;
    meta.levels = 3;
    meta.max_block = kDnodeBlocks - 1;
    meta.flags = format::kDnodeUsedBytes;
    meta.blkptr.resize(3);
    std::vector<format::Blkptr> leaves;
    for (const auto& [blkptr, fill] : level0) {
      leaves.push_back(blkptr);
    }
    std::vector<format::Blkptr> level1 = indirect(0, format::ObjectType::dnode, 1, leaves);
    std::vector<format::Blkptr> level2 = indirect(0, format::ObjectType::dnode, 2, level1);
    meta.blkptr[0] = level2[0];
    place(0, 2, 0, level2[0], built_.blocks);
    for (std::uint64_t i = 0; i < level1.size(); ++i) {
      place(0, 1, i, level1[i], built_.blocks);
      for (std::uint64_t b = i * kWidth;
           b < std::min<std::uint64_t>((i + 1) * kWidth, kDnodeBlocks); ++b) {
        if (!leaves[b].is_hole()) {
          place(0, 0, b, leaves[b], built_.blocks);
          built_.blocks.insert(built_.blocks.end(), below[b].begin(), below[b].end());
        }
      }
    }
    objset.user_used = file(~std::uint64_t{0}, accounting_, false);
    objset.group_used = file(~std::uint64_t{0} - 1, group_);
    built_.blocks.insert(built_.blocks.end(), group_.begin(), group_.end());
    built_.blocks.insert(built_.blocks.end(), accounting_.begin(), accounting_.end());

    std::vector<std::byte> block(format::kObjsetSizeV2);
    format::encode_objset(objset, block, kHostOrder);
    built_.root =
        rig_.write(block, metadata(format::ObjectType::objset, 0), txg_, {objset_, 0, -1, 0});
    built_.root.fill = objects_;
    built_.blocks.insert(built_.blocks.begin(), {{objset_, 0, -1, 0}, built_.root});
    built_.objects = objects_ + 2;
    return std::move(built_);
  }

 private:
  static WriteProperties metadata(format::ObjectType type, std::uint8_t level) {
    WriteProperties properties;
    properties.type = type;
    properties.level = level;
    properties.compression = {format::Compression::lz4, 0};
    properties.copies = 2;
    return properties;
  }

  void place(std::uint64_t object, std::int64_t level, std::uint64_t block,
             const format::Blkptr& blkptr, std::vector<PlacedBlock>& into) const {
    if (!blkptr.is_hole()) {
      into.push_back({{objset_, object, level, block}, blkptr});
    }
  }

  // Writes the indirect blocks of one level over `children`.
  std::vector<format::Blkptr> indirect(std::uint64_t object, format::ObjectType type,
                                       std::uint8_t level,
                                       const std::vector<format::Blkptr>& children) {
    std::vector<format::Blkptr> result;
    for (std::size_t first = 0; first < children.size(); first += kWidth) {
      std::vector<std::byte> block(std::size_t{1} << kIndirectShift);
      for (std::size_t i = first; i < std::min(first + kWidth, children.size()); ++i) {
        write_at(std::span(block), (i - first) * 128, format::encode(children[i], kHostOrder));
      }
      result.push_back(
          rig_.write(block, metadata(type, level), txg_, {objset_, object, level, first / kWidth}));
    }
    return result;
  }

  // An object with 0 to about 150 blocks.
  format::DnodePhys file(std::uint64_t object, std::vector<PlacedBlock>& placed,
                         bool may_spill = true) {
    format::DnodePhys dnode;
    dnode.type = format::ObjectType::plain_file;
    dnode.block_size = 1024;
    dnode.indirect_shift = kIndirectShift;
    dnode.flags = format::kDnodeUsedBytes;
    const std::uint64_t blocks = rng_() % 3 == 0 ? rng_() % 150 + 1 : rng_() % 4 + 1;
    std::vector<std::vector<format::Blkptr>> levels(1);
    WriteProperties properties;
    properties.type = dnode.type;
    properties.compression = {format::Compression::lz4, 0};
    properties.data = true;
    for (std::uint64_t b = 0; b < blocks; ++b) {
      std::vector<std::byte> data(1024);
      const std::uint64_t kind = rng_() % 8;
      if (kind == 7) {
        data[3] = std::byte{1};  // compresses to an embedded block
      } else if (kind != 0) {
        data = some_data(rng_, 1024);
      }
      levels[0].push_back(rig_.write(data, properties, txg_, {objset_, object, 0, b}));
    }
    dnode.max_block = blocks - 1;
    while (levels.back().size() > 3) {
      levels.push_back(
          indirect(object, dnode.type, static_cast<std::uint8_t>(levels.size()), levels.back()));
    }
    dnode.levels = static_cast<std::uint8_t>(levels.size());
    dnode.blkptr = levels.back();
    dnode.blkptr.resize(3);
    order(object, levels, levels.size() - 1, 0, levels.back().size(), placed);
    if (may_spill && rng_() % 5 == 0) {
      dnode.flags |= format::kDnodeSpill;
      dnode.blkptr.resize(1);
      if (levels.back().size() > 1) {  // no room for more pointers beside a spill: one level more
        levels.push_back(
            indirect(object, dnode.type, static_cast<std::uint8_t>(levels.size()), levels.back()));
        dnode.levels = static_cast<std::uint8_t>(levels.size());
        dnode.blkptr[0] = levels.back()[0];
        std::erase_if(placed, [&](const PlacedBlock& b) { return b.bookmark.object == object; });
        order(object, levels, levels.size() - 1, 0, 1, placed);
      }
      WriteProperties spill = metadata(format::ObjectType::sa, 0);
      dnode.spill = rig_.write(some_data(rng_, 512), spill, txg_,
                               {objset_, object, 0, ~std::uint64_t{0} - 1});
      placed.push_back({{objset_, object, 0, ~std::uint64_t{0} - 1}, *dnode.spill});
    }
    return dnode;
  }

  // Appends blocks [first, end) of a level, each followed by what is below it.
  void order(std::uint64_t object, const std::vector<std::vector<format::Blkptr>>& levels,
             std::size_t level, std::size_t first, std::size_t end,
             std::vector<PlacedBlock>& placed) const {
    for (std::size_t i = first; i < std::min(end, levels[level].size()); ++i) {
      place(object, static_cast<std::int64_t>(level), i, levels[level][i], placed);
      if (level > 0 && !levels[level][i].is_hole()) {
        order(object, levels, level - 1, i * kWidth, (i + 1) * kWidth, placed);
      }
    }
  }

  Rig& rig_;
  std::mt19937_64& rng_;
  const std::uint64_t objset_, txg_;
  std::uint64_t objects_ = 0;
  BuiltObjset built_;
  std::vector<PlacedBlock> accounting_, group_;
};

}  // namespace

BuiltObjset build_objset(Rig& rig, std::mt19937_64& rng, std::uint64_t objset, std::uint64_t txg) {
  return Builder(rig, rng, objset, txg).build();
}

}  // namespace zuse::pool
