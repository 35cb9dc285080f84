// Dnode: seeking data and holes, and prefetch for sequential readers.
//
// A stream is a run of reads of which each starts near where the last one ended (several kernel
// requests may arrive out of order). Each step doubles the distance that is kept ahead, up to
// kPrefetchBytes; a reader that jumps starts over with nothing. Four streams a dnode are told
// apart.
#include <algorithm>
#include <limits>

#include "fs/object/dnode_internal.h"
#include "fs/object/objset.h"
#include "vdev/base/units.h"

namespace zuse::object {

namespace {

constexpr std::uint64_t kPrefetchBytes = 8 * kMiB;
constexpr std::uint64_t kReorderBytes = 1 * kMiB;   // how far requests may overtake each other
constexpr std::uint64_t kPrefetchPiece = 2 * kMiB;  // one background task
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

}  // namespace

void Dnode::note_read_locked(std::uint64_t first, std::uint64_t last) {
  const DnodeHeader& head = head_locked();
  const std::uint64_t slack = kReorderBytes / head.block_size;
  const std::uint64_t limit = std::max<std::uint64_t>(kPrefetchBytes / head.block_size, 1);
  ++stream_clock_;
  Stream* stream = nullptr;
  for (Stream& candidate : streams_) {
    const bool fresh = candidate.used == 0;
    const bool near =
        fresh ? first == 0 : first <= candidate.next + slack && last + 1 + slack >= candidate.next;
    if (near) {
      stream = &candidate;
      break;
    }
  }
  if (stream == nullptr) {
    stream = &*std::min_element(streams_.begin(), streams_.end(),
                                [](const Stream& a, const Stream& b) { return a.used < b.used; });
    *stream = {.next = last + 1, .ahead = last + 1, .window = 0, .used = stream_clock_};
    return;
  }
  stream->used = stream_clock_;
  if (last < stream->next) {
    return;  // the same block again, or a late request: nothing has moved
  }
  stream->next = last + 1;
  stream->ahead = std::max(stream->ahead, last + 1);
  stream->window = std::min(std::max(stream->window * 2, 2 * (last - first + 1)), limit);
  const std::uint64_t end = std::min(last + 1 + stream->window, head.max_block + 1);
  if (end <= stream->ahead ||
      (end - stream->ahead < stream->window / 4 && end != head.max_block + 1)) {
    return;
  }
  const std::uint64_t step = std::max<std::uint64_t>(kPrefetchPiece / head.block_size, 1);
  for (std::uint64_t at = stream->ahead; at < end; at += step) {
    host_.in_background([weak = weak_from_this(), at, count = std::min(step, end - at)] {
      if (const auto self = weak.lock()) {
        self->prefetch(at, count);
      }
    });
  }
  stream->ahead = end;
}

void Dnode::prefetch(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> blocks;
  blocks.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    blocks.push_back(first + i);
  }
  preload(blocks, true);
}

void Dnode::preload(std::span<const std::uint64_t> blocks, bool low_priority) {
  std::shared_ptr<const format::DnodePhys> tree;
  std::vector<std::uint64_t> on_disk;
  {
    const LockGuard lock(mutex_);
    tree = phys_;
    for (const std::uint64_t block : blocks) {
      if (find_locked(block).kind == Source::Kind::tree) {
        on_disk.push_back(block);
      }
    }
  }
  // Failures are not ours to report: who reads the block will meet them.
  TreeReader reader(objset_.store(), objset_.id(), object_, *tree);
  std::vector<format::Blkptr> blkptrs;
  std::vector<pool::Bookmark> bookmarks;
  for (const std::uint64_t block : on_disk) {
    auto blkptr = reader.find(block);
    if (!blkptr) {
      break;
    }
    if (!blkptr->is_hole() && !blkptr->embedded && !objset_.store().cached(*blkptr)) {
      blkptrs.push_back(*std::move(blkptr));
      bookmarks.push_back(bookmark(block));
    }
  }
  std::vector<Result<SharedBuffer>> results(blkptrs.size());
  if (!blkptrs.empty()) {
    objset_.store().read_many(blkptrs, bookmarks, results,
                              {.cache = true, .prefetch = low_priority});
  }
}

// The first block >= from, up to max_block, that holds data (or is a hole).
Result<std::uint64_t> Dnode::next_block(std::uint64_t from, bool data) {
  std::uint64_t block = from;
  std::shared_ptr<const format::DnodePhys> tree;
  std::optional<TreeReader> reader;
  for (;;) {
    Source source;
    std::uint64_t next_record = kNever;
    std::uint64_t next_freed = kNever;
    std::uint64_t freed_end = kNever;
    {
      const LockGuard lock(mutex_);
      ZUSE_TRY_VOID(check_live_locked());
      if (block > head_locked().max_block) {
        return fail(Errc::not_found, data ? "no data beyond" : "no hole beyond");
      }
      source = find_locked(block);
      for (const auto& group : live_) {
        if (const auto it = group->records.upper_bound(block); it != group->records.end()) {
          next_record = std::min(next_record, it->first);
        }
        next_freed = std::min(next_freed, group->freed.next_start(block));
        if (const auto end = group->freed.end_of(block)) {
          freed_end = std::min(freed_end, *end);
        }
      }
      if (tree != phys_) {
        tree = phys_;
        reader.emplace(objset_.store(), objset_.id(), object_, *tree);
      }
    }
    if (source.kind == Source::Kind::record) {
      if (data) {
        return block;
      }
      ++block;
      continue;
    }
    if (source.kind == Source::Kind::hole) {
      if (!data) {
        return block;
      }
      block = std::min(next_record, freed_end);
      continue;
    }
    auto found = reader->next(block, data);
    if (!found) {
      if (tree == phys()) {
        return std::unexpected(within(std::move(found).error()));
      }
      continue;
    }
    if (*found == block) {
      return block;
    }
    // Before the place that the tree names, newer changes may have put one.
    const std::uint64_t on_disk = found->value_or(tree->max_block + 1);
    block = std::min(on_disk, data ? next_record : next_freed);
  }
}

Result<std::uint64_t> Dnode::next_data(std::uint64_t offset) {
  const std::uint64_t size = block_size();
  ZUSE_TRY(const std::uint64_t block, next_block(offset / size, true));
  return std::max(offset, block * size);
}

Result<std::uint64_t> Dnode::next_hole(std::uint64_t offset) {
  const std::uint64_t size = block_size();
  const std::uint64_t end = (max_block() + 1) * size;
  if (offset >= end) {
    return fail(Errc::not_found, "past the end of the object");
  }
  auto block = next_block(offset / size, false);
  if (!block && block.error().code() == Errc::not_found) {
    return end;
  }
  if (!block) {
    return std::unexpected(std::move(block).error());
  }
  return std::max(offset, *block * size);
}

}  // namespace zuse::object
