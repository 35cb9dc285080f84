// The sync of one dnode; see the header. source: format page 05 sections 4.1, 4.3, 4.5, 5, 8.
#include "fs/object/sync_tree.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fs/object/dnode_internal.h"
#include "vdev/base/log.h"
#include "vdev/base/on_disk.h"
#include "vdev/base/units.h"

namespace zuse::object {

using format::Blkptr;

namespace {

constexpr std::uint64_t kQueueBytes = 64 * kMiB;
constexpr std::size_t kQueueJobs = 8192;
constexpr std::size_t kLoadTogether = 32;        // indirect blocks read side by side
constexpr std::uint64_t kWaveBytes = 32 * kMiB;  // level-1 blocks of one tree in memory

spdlog::logger& log() {
  static auto& logger = layer_log("object");
  return logger;
}

Blkptr pointer_at(const Buffer& bytes, std::size_t slot, ByteOrder order) {
  static constexpr format::BlkptrPhys kNone{};
  format::BlkptrPhys phys;
  std::memcpy(&phys, bytes.data() + slot * format::kBlkptrSize, sizeof phys);
  if (std::memcmp(&phys, &kNone, sizeof phys) == 0) {
    return {};  // most slots of most blocks
  }
  return format::decode(phys, order);
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

pool::WriteProperties SyncContext::properties(format::ObjectType type, unsigned level,
                                              bool metadata, std::uint8_t checksum,
                                              std::uint8_t compression) const {
  pool::WriteProperties to;
  to.type = type;
  to.level = static_cast<std::uint8_t>(level);
  to.data = !metadata;
  to.checksum = metadata ? policy.metadata_checksum : policy.checksum;
  to.compression = metadata ? policy.metadata_compression : policy.compression;
  to.copies = metadata ? policy.metadata_copies : policy.data_copies;
  if (!metadata && checksum > static_cast<std::uint8_t>(format::Checksum::on)) {
    to.checksum = static_cast<format::Checksum>(checksum);
  }
  if (!metadata && compression != 0) {
    const auto asked = static_cast<format::Compression>(compression);
    to.compression = asked == format::Compression::on
                         ? policy.metadata_compression
                         : format::CompressionChoice{.algorithm = asked, .level = 0};
  }
  if (!compress) {
    to.compression = {.algorithm = format::Compression::off, .level = 0};
  }
  return to;
}

bool SyncContext::replaced(const Blkptr& before, const Blkptr& after) const {
  if (!before.is_hole() && !after.is_hole() && !before.embedded && !after.embedded &&
      before.logical_birth == txg && before.dva == after.dva) {
    return false;  // rewritten in place
  }
  if (!before.is_hole()) {
    owner.killed(txg, before);
  }
  if (!after.is_hole()) {
    owner.born(txg, after);
  }
  return true;
}

// --- WriteQueue

Result<void> WriteQueue::add(Place place, pool::BlockWriteJob job) {
  bytes_ += job.data.size();
  places_.push_back(place);
  jobs_.push_back(std::move(job));
  if (bytes_ >= kQueueBytes || jobs_.size() >= kQueueJobs) {
    return flush();
  }
  return {};
}

Result<void> WriteQueue::flush() {
  if (jobs_.empty()) {
    return {};
  }
  context_.store.write(context_.txg, jobs_);
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (!jobs_[i].result) {
      return std::unexpected(std::move(jobs_[i].result)
                                 .error()
                                 .within("writing object " +
                                         std::to_string(jobs_[i].bookmark.object) + " of " +
                                         context_.name));
    }
    ZUSE_TRY_VOID(places_[i].tree->written(places_[i], jobs_[i]));
  }
  places_.clear();
  jobs_.clear();
  bytes_ = 0;
  return {};
}

// --- SyncTree

SyncTree::SyncTree(const SyncContext& context, std::uint64_t object,
                   std::shared_ptr<const format::DnodePhys> before,
                   std::shared_ptr<const DirtyGroup> changes)
    : context_(context),
      object_(object),
      before_(std::move(before)),
      changes_(std::move(changes)),
      after_(*before_),
      next_(changes_->records.end()) {
  const unsigned shift = before_->type == format::ObjectType::none
                             ? changes_->header.indirect_shift - 7U
                             : before_->indirect_shift - 7U;
  std::uint64_t parent = ~std::uint64_t{0};
  for (const auto& [block, data] : changes_->records) {
    cost_ += data->size();
    if (changes_->header.max_block != 0 && block >> shift != parent) {
      parent = block >> shift;
      cost_ += pow2(shift) * format::kBlkptrSize;
    }
  }
}

pool::Bookmark SyncTree::bookmark(unsigned level, std::uint64_t id) const {
  return {.objset = context_.objset,
          .object = object_,
          .level = static_cast<std::int64_t>(level),
          .block = id};
}

SyncTree::Node* SyncTree::find_node(unsigned level, std::uint64_t id) {
  const auto it = nodes_[level].find(id);
  return it == nodes_[level].end() ? nullptr : &it->second;
}

Blkptr SyncTree::get(unsigned level, std::uint64_t id) const {
  if (level + 1 == shape_.levels) {
    ZUSE_CHECK(id < after_.blkptr.size());
    return after_.blkptr[id];
  }
  const auto it = nodes_[level + 1].find(id >> shape_.shift);
  ZUSE_CHECK(it != nodes_[level + 1].end());
  return pointer_at(*it->second.bytes, id & ((std::uint64_t{1} << shape_.shift) - 1), kHostOrder);
}

void SyncTree::put(unsigned level, std::uint64_t id, const Blkptr& blkptr) {
  if (level + 1 == shape_.levels) {
    ZUSE_CHECK(id < after_.blkptr.size());
    after_.blkptr[id] = blkptr;
    return;
  }
  Node* const node = find_node(level + 1, id >> shape_.shift);
  ZUSE_CHECK(node != nullptr);
  const format::BlkptrPhys phys = format::encode(blkptr, kHostOrder);
  std::byte* const at =
      node->bytes->data() + (id & ((std::uint64_t{1} << shape_.shift) - 1)) * format::kBlkptrSize;
  if (std::memcmp(at, &phys, sizeof phys) != 0) {
    std::memcpy(at, &phys, sizeof phys);
    node->changed = true;
  }
}

// A hole comes back as a block: its slots are holes as old as it was.
void SyncTree::materialise(unsigned level, std::uint64_t id, const Blkptr& hole) {
  const std::size_t size = std::size_t{1} << after_.indirect_shift;
  Node node;
  node.bytes = std::make_shared<Buffer>(Buffer::zeroed(size));
  node.old = hole;
  if (hole.logical_birth != 0) {
    const Blkptr child = format::make_hole(
        level == 1 ? after_.block_size : static_cast<std::uint32_t>(size), hole.type,
        static_cast<std::uint8_t>(level - 1), hole.logical_birth, context_.policy.hole_birth);
    const format::BlkptrPhys phys = format::encode(child, kHostOrder);
    for (std::size_t at = 0; at < size; at += format::kBlkptrSize) {
      std::memcpy(node.bytes->data() + at, &phys, sizeof phys);
    }
  }
  nodes_[level].emplace(id, std::move(node));
}

Result<void> SyncTree::adopt(unsigned level, std::uint64_t id, const Blkptr& blkptr,
                             const Buffer& bytes) {
  if (bytes.size() != std::size_t{1} << after_.indirect_shift) {
    return fail(Errc::corrupt, "indirect block of the wrong size");
  }
  Node node;
  node.bytes = std::make_shared<Buffer>(Buffer::copy_of(bytes.span()));
  node.old = blkptr;
  if (blkptr.order != kHostOrder) {
    for (std::size_t slot = 0; slot < bytes.size() / format::kBlkptrSize; ++slot) {
      const auto phys = format::encode(pointer_at(bytes, slot, blkptr.order), kHostOrder);
      std::memcpy(node.bytes->data() + slot * format::kBlkptrSize, &phys, sizeof phys);
    }
  }
  nodes_[level].emplace(id, std::move(node));
  return {};
}

// Brings the indirect blocks above `blocks` into memory, the top first. shape: blocks ascend.
Result<void> SyncTree::load(const std::vector<std::uint64_t>& blocks) {
  for (unsigned level = shape_.levels - 1; level >= 1; --level) {
    std::vector<std::uint64_t> ids;
    std::vector<Blkptr> blkptrs;
    std::vector<pool::Bookmark> bookmarks;
    const auto read = [&]() -> Result<void> {
      std::vector<Result<SharedBuffer>> results(blkptrs.size());
      context_.store.read_many(blkptrs, bookmarks, results);
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (!results[i]) {
          return std::unexpected(std::move(results[i]).error());
        }
        ZUSE_TRY_VOID(adopt(level, ids[i], blkptrs[i], **results[i]));
      }
      ids.clear();
      blkptrs.clear();
      bookmarks.clear();
      return {};
    };
    std::uint64_t previous = ~std::uint64_t{0};
    for (const std::uint64_t block : blocks) {
      const std::uint64_t id = shift_right(block, shape_.shift * level);
      if (id == previous || find_node(level, id) != nullptr) {
        continue;
      }
      previous = id;
      Blkptr blkptr = get(level, id);
      if (blkptr.is_hole()) {
        materialise(level, id, blkptr);
        continue;
      }
      ZUSE_TRY_VOID(TreeReader::check_pointer(blkptr, level, *before_));
      ids.push_back(id);
      blkptrs.push_back(std::move(blkptr));
      bookmarks.push_back(bookmark(level, id));
      if (ids.size() == kLoadTogether) {
        ZUSE_TRY_VOID(read());
      }
    }
    ZUSE_TRY_VOID(read());
  }
  return {};
}

void SyncTree::account(const Blkptr& before, const Blkptr& after) {
  const std::uint64_t less = before.is_hole() ? 0 : context_.store.dsize(before);
  const std::uint64_t more = after.is_hole() ? 0 : context_.store.dsize(after);
  if (after_.used + more < less) {
    log().warn("dnode_used_too_small objset={} object={} used={} less={}", context_.objset, object_,
               after_.used, less);
    after_.used = 0;
    return;
  }
  after_.used = after_.used + more - less;
}

void SyncTree::kill(const Blkptr& blkptr) {
  account(blkptr, Blkptr{});
  context_.owner.killed(context_.txg, blkptr);
}

void SyncTree::punch(unsigned level, std::uint64_t id, const Blkptr& blkptr) {
  put(level, id,
      format::make_hole(blkptr.lsize, blkptr.type, static_cast<std::uint8_t>(level), context_.txg,
                        context_.policy.hole_birth));
}

// Everything below a block that is not in memory. What cannot be read any more is left allocated:
// losing some space is better than losing the group.
void SyncTree::kill_below(const Blkptr& blkptr, unsigned level, std::uint64_t id) {
  if (level == 0) {
    return;
  }
  const auto checked = TreeReader::check_pointer(blkptr, level, *before_);
  auto bytes = checked ? context_.store.read(blkptr, bookmark(level, id))
                       : Result<SharedBuffer>(std::unexpected(checked.error()));
  if (!bytes) {
    log().error("space_leaked objset={} object={} level={} block={} why={}", context_.objset,
                object_, level, id, bytes.error().what());
    return;
  }
  const std::size_t count = (*bytes)->size() / format::kBlkptrSize;
  if (level > 1) {
    // Fetch the children side by side before they are walked one by one.
    std::vector<Blkptr> blkptrs;
    std::vector<pool::Bookmark> bookmarks;
    for (std::size_t slot = 0; slot < count; ++slot) {
      Blkptr child = pointer_at(**bytes, slot, blkptr.order);
      const std::uint64_t child_id = (id << shape_.shift) + slot;
      if (!child.is_hole()) {
        blkptrs.push_back(child);
        bookmarks.push_back(bookmark(level - 1, child_id));
      }
      if (blkptrs.size() == kLoadTogether || slot + 1 == count) {
        std::vector<Result<SharedBuffer>> results(blkptrs.size());
        context_.store.read_many(blkptrs, bookmarks, results);
        for (std::size_t i = 0; i < blkptrs.size(); ++i) {
          kill_below(blkptrs[i], level - 1, bookmarks[i].block);
          kill(blkptrs[i]);
        }
        blkptrs.clear();
        bookmarks.clear();
      }
    }
    return;
  }
  for (std::size_t slot = 0; slot < count; ++slot) {
    const Blkptr child = pointer_at(**bytes, slot, blkptr.order);
    if (!child.is_hole()) {
      kill(child);
    }
  }
}

void SyncTree::free_at(unsigned level, std::uint64_t id, std::uint64_t first, std::uint64_t end) {
  const Blkptr blkptr = get(level, id);
  if (level == 0) {
    if (!blkptr.is_hole()) {
      kill(blkptr);
      punch(level, id, blkptr);
    }
    return;
  }
  if (find_node(level, id) != nullptr) {
    const unsigned below = shape_.shift * (level - 1);
    const std::uint64_t low = std::max(id << shape_.shift, shift_right(first, below));
    const std::uint64_t high =
        std::min((id << shape_.shift) + (pow2(shape_.shift) - 1), shift_right(end - 1, below));
    for (std::uint64_t child = low; child <= high; ++child) {
      free_at(level - 1, child, first, end);
    }
    return;
  }
  if (!blkptr.is_hole()) {
    kill_below(blkptr, level, id);
    kill(blkptr);
    punch(level, id, blkptr);
  }
}

void SyncTree::free_blocks(std::uint64_t first, std::uint64_t end) {
  const unsigned top = shape_.levels - 1;
  for (std::uint64_t id = shift_right(first, shape_.shift * top);
       id < after_.blkptr.size() && id <= shift_right(end - 1, shape_.shift * top); ++id) {
    free_at(top, id, first, end);
  }
}

// The pointers of the dnode move to the first block of a new level, as often as needed.
void SyncTree::grow(unsigned levels) {
  while (shape_.levels < levels) {
    std::uint64_t birth = 0;
    bool any = false;
    for (const Blkptr& blkptr : after_.blkptr) {
      birth = std::max(birth, blkptr.logical_birth);
      any = any || blkptr.logical_birth != 0 || !blkptr.is_hole();
    }
    // Holes that move along with their births must not be forgotten should nothing else be there.
    const Blkptr old = format::make_hole(static_cast<std::uint32_t>(pow2(after_.indirect_shift)),
                                         after_.type, static_cast<std::uint8_t>(shape_.levels),
                                         birth, context_.policy.hole_birth);
    nodes_.emplace_back();
    Blkptr none;
    materialise(shape_.levels, 0, none);
    Node& node = *find_node(shape_.levels, 0);
    node.old = old;
    node.changed = any;
    for (std::size_t slot = 0; slot < after_.blkptr.size(); ++slot) {
      const auto phys = format::encode(after_.blkptr[slot], kHostOrder);
      std::memcpy(node.bytes->data() + slot * format::kBlkptrSize, &phys, sizeof phys);
      after_.blkptr[slot] = Blkptr{};
    }
    ++shape_.levels;
    after_.levels = static_cast<std::uint8_t>(shape_.levels);
  }
}

Result<void> SyncTree::prepare() {
  const DnodeHeader& header = changes_->header;
  if (before_->type == format::ObjectType::none) {
    after_ = format::DnodePhys{};
    after_.levels = 1;
    after_.blkptr.assign(header.block_pointers, Blkptr{});
    after_.indirect_shift = header.indirect_shift;
    after_.extra_slots = header.extra_slots;
  }
  after_.used = after_.used_bytes();
  after_.flags |= format::kDnodeUsedBytes;
  shape_ = TreeShape::of(after_);
  nodes_.resize(shape_.levels);
  if (after_.spill && changes_->spill_removed) {
    kill(*after_.spill);
    after_.spill.reset();
  }
  const std::uint64_t capacity = shape_.capacity();
  if (!header.allocated) {
    if (before_->type != format::ObjectType::none) {
      free_blocks(0, capacity);
      if (after_.used != 0) {
        log().warn("freed_with_space_left objset={} object={} bytes={}", context_.objset, object_,
                   after_.used);
      }
    }
    after_ = format::DnodePhys{};
    after_.extra_slots = before_->extra_slots;
    return {};
  }
  after_.type = header.type;
  after_.bonus_type = header.bonus_type;
  after_.bonus = header.bonus;
  after_.checksum = header.checksum;
  after_.compression = header.compression;

  std::vector<std::uint64_t> edges;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> freed;
  for (const auto& [first, after] : changes_->freed.ranges()) {
    // Nothing lies past the highest block: take the whole rest, which needs no edge.
    const std::uint64_t end = after > before_->max_block ? capacity : after;
    if (before_->type == format::ObjectType::none || first >= end) {
      continue;
    }
    freed.emplace_back(first, end);
    if (first != 0) {
      edges.push_back(first);
    }
    if (end != capacity) {
      edges.push_back(end - 1);
    }
  }
  std::sort(edges.begin(), edges.end());
  ZUSE_TRY_VOID(load(edges));
  for (const auto& [first, end] : freed) {
    free_blocks(first, end);
  }
  after_.block_size = header.block_size;
  after_.max_block = header.max_block;
  // The highest block counts even if its record was freed again: the tree must reach it.
  grow(TreeShape::levels_for(header.max_block, shape_.block_pointers, shape_.shift));
  next_ = changes_->records.begin();
  return {};
}

Result<void> SyncTree::write_data(WriteQueue& queue) {
  if (after_.type == format::ObjectType::none) {
    return {};
  }
  const bool metadata = format::is_metadata(after_.type);
  // One wave: the records below as many level-1 blocks as memory allows.
  const auto first = next_;
  std::vector<std::uint64_t> blocks;
  std::uint64_t parents = 0;
  std::uint64_t parent = ~std::uint64_t{0};
  for (; next_ != changes_->records.end(); ++next_) {
    if (next_->first >> shape_.shift != parent) {
      if (shape_.levels > 1 && parents * pow2(after_.indirect_shift) >= kWaveBytes) {
        break;
      }
      parent = next_->first >> shape_.shift;
      ++parents;
    }
    blocks.push_back(next_->first);
  }
  ZUSE_TRY_VOID(load(blocks));
  for (auto it = first; it != next_; ++it) {
    const auto& [block, data] = *it;
    ZUSE_CHECK(data->size() == after_.block_size);
    const std::span<const std::byte> bytes = std::as_const(*data).span();
    const Blkptr old = get(0, block);
    if (after_.type == format::ObjectType::dnode && is_zero(bytes)) {
      // A block without dnodes is a hole, whatever the pass says about compression.
      if (!old.is_hole()) {
        kill(old);
        punch(0, block, old);
      }
      continue;
    }
    pool::BlockWriteJob job;
    job.data = bytes;
    job.properties =
        context_.properties(after_.type, 0, metadata, after_.checksum, after_.compression);
    job.bookmark = bookmark(0, block);
    job.blkptr = old;
    job.cacheable = data;
    ZUSE_TRY_VOID(
        queue.add({.tree = this, .level = 0, .id = block, .spill = false}, std::move(job)));
  }
  if (changes_->spill && !std::exchange(spill_queued_, true)) {
    pool::BlockWriteJob job;
    job.data = std::as_const(*changes_->spill).span();
    job.properties = context_.properties(after_.bonus_type, 0, true, 0, 0);
    job.bookmark = bookmark(0, kSpillBookmark);
    job.blkptr = after_.spill.value_or(Blkptr{});
    job.cacheable = changes_->spill;
    ZUSE_TRY_VOID(queue.add({.tree = this, .level = 0, .id = 0, .spill = true}, std::move(job)));
  }
  return {};
}

Result<void> SyncTree::write_level(unsigned level, WriteQueue& queue) {
  if (after_.type == format::ObjectType::none || level >= shape_.levels) {
    return {};
  }
  for (auto& [id, node] : nodes_[level]) {
    if (!node.changed) {
      continue;
    }
    bool empty = true;
    for (std::size_t slot = 0; empty && slot < pow2(shape_.shift); ++slot) {
      empty = pointer_at(*node.bytes, slot, kHostOrder).is_hole();
    }
    if (empty) {
      if (!node.old.is_hole()) {
        kill(node.old);
      }
      // Its slots' births go with it; its own says that something changed here now.
      put(level, id,
          format::make_hole(static_cast<std::uint32_t>(pow2(after_.indirect_shift)), after_.type,
                            static_cast<std::uint8_t>(level),
                            node.old.logical_birth != 0 ? context_.txg : 0,
                            context_.policy.hole_birth));
      continue;
    }
    pool::BlockWriteJob job;
    job.data = std::as_const(*node.bytes).span();
    job.properties = context_.properties(after_.type, level, true, 0, 0);
    job.bookmark = bookmark(level, id);
    job.blkptr = node.old;
    job.cacheable = node.bytes;
    ZUSE_TRY_VOID(
        queue.add({.tree = this, .level = level, .id = id, .spill = false}, std::move(job)));
  }
  return {};
}

void SyncTree::drop_level(unsigned level) {
  if (level < nodes_.size()) {
    nodes_[level].clear();
  }
}

Result<void> SyncTree::written(const WriteQueue::Place& place, const pool::BlockWriteJob& job) {
  const Blkptr before = place.spill        ? after_.spill.value_or(Blkptr{})
                        : place.level == 0 ? get(0, place.id)
                                           : find_node(place.level, place.id)->old;
  Blkptr after = job.blkptr;
  if (!after.is_hole() && !after.embedded) {
    after.fill = 1;
    if (!place.spill && place.level == 0 && after_.type == format::ObjectType::dnode) {
      ZUSE_TRY(after.fill, format::count_dnodes(job.data));
    } else if (place.level > 0) {
      after.fill = 0;
      const Buffer& bytes = *find_node(place.level, place.id)->bytes;
      for (std::size_t slot = 0; slot < pow2(shape_.shift); ++slot) {
        after.fill += pointer_at(bytes, slot, kHostOrder).fill_count();
      }
    }
  }
  if (context_.replaced(before, after)) {
    account(before, after);
  }
  if (place.spill) {
    if (after.is_hole()) {
      return fail(Errc::invalid, "a spill block of zeros");
    }
    after_.spill = after;
    after_.flags |= format::kDnodeSpill;
  } else {
    put(place.level, place.id, after);
  }
  return {};
}

Result<void> write_trees(const SyncContext& context,
                         std::span<const std::unique_ptr<SyncTree>> trees) {
  WriteQueue queue(context);
  unsigned levels = 0;
  bool more = true;
  while (more) {
    more = false;
    for (const auto& tree : trees) {
      levels = std::max(levels, tree->levels());
      ZUSE_TRY_VOID(tree->write_data(queue));
      more = more || tree->has_more();
    }
    ZUSE_TRY_VOID(queue.flush());
    for (const auto& tree : trees) {
      ZUSE_TRY_VOID(tree->write_level(1, queue));
    }
    ZUSE_TRY_VOID(queue.flush());
    for (const auto& tree : trees) {
      tree->drop_level(1);
    }
  }
  for (unsigned level = 2; level < levels; ++level) {
    for (const auto& tree : trees) {
      ZUSE_TRY_VOID(tree->write_level(level, queue));
    }
    ZUSE_TRY_VOID(queue.flush());
  }
  for (const auto& tree : trees) {
    format::DnodePhys& after = tree->after();
    after.flags =
        static_cast<std::uint8_t>(after.spill ? after.flags | format::kDnodeSpill
                                              : after.flags & ~unsigned{format::kDnodeSpill});
  }
  return {};
}

}  // namespace zuse::object
