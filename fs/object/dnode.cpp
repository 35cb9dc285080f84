// Dnode: what a reader sees, and how changes are handed to the sync. Writing is in
// dnode_write.cpp, seeking and prefetch in dnode_scan.cpp.
#include "fs/object/dnode.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fs/object/dnode_internal.h"
#include "fs/object/objset.h"

namespace zuse::object {

using format::Blkptr;

DnodeHeader header_of(const format::DnodePhys& phys) {
  DnodeHeader header;
  header.allocated = phys.type != format::ObjectType::none;
  header.type = phys.type;
  header.bonus_type = phys.bonus_type;
  header.indirect_shift = phys.indirect_shift;
  header.block_pointers = static_cast<std::uint8_t>(std::max<std::size_t>(phys.blkptr.size(), 1));
  header.extra_slots = phys.extra_slots;
  header.checksum = phys.checksum;
  header.compression = phys.compression;
  header.has_spill = phys.spill.has_value();
  header.block_size = phys.block_size;
  header.max_block = phys.max_block;
  header.bonus = phys.bonus;
  return header;
}

Dnode::Dnode(Objset& objset, DnodeHost& host, std::uint64_t object,
             std::shared_ptr<const format::DnodePhys> phys)
    : objset_(objset),
      host_(host),
      object_(object),
      phys_(std::move(phys)),
      base_(std::make_shared<const DnodeHeader>(header_of(*phys_))) {}

std::uint64_t Dnode::object() const noexcept {
  return object_;
}

Objset& Dnode::objset() const noexcept {
  return objset_;
}

const DnodeHeader& Dnode::head_locked() const {
  return live_.empty() ? *base_ : live_.back()->header;
}

format::ObjectType Dnode::type() const {
  const LockGuard lock(mutex_);
  return head_locked().type;
}

std::uint32_t Dnode::block_size() const {
  const LockGuard lock(mutex_);
  return head_locked().block_size;
}

std::uint64_t Dnode::max_block() const {
  const LockGuard lock(mutex_);
  return head_locked().max_block;
}

format::ObjectType Dnode::bonus_type() const {
  const LockGuard lock(mutex_);
  return head_locked().bonus_type;
}

std::vector<std::byte> Dnode::bonus() const {
  const LockGuard lock(mutex_);
  return head_locked().bonus;
}

std::size_t Dnode::bonus_capacity() const {
  const LockGuard lock(mutex_);
  return head_locked().bonus_capacity();
}

std::uint64_t Dnode::used_bytes() const {
  const LockGuard lock(mutex_);
  return phys_->used_bytes();
}

unsigned Dnode::slots() const {
  const LockGuard lock(mutex_);
  return 1U + head_locked().extra_slots;
}

bool Dnode::allocated() const {
  const LockGuard lock(mutex_);
  return head_locked().allocated;
}

bool Dnode::dirty() const {
  const LockGuard lock(mutex_);
  return !live_.empty();
}

SharedMutex& Dnode::zap_mutex() noexcept {
  return zap_mutex_;
}

std::shared_ptr<void>& Dnode::zap_memory() noexcept {
  return zap_memory_;
}

std::shared_ptr<const format::DnodePhys> Dnode::phys() const {
  const LockGuard lock(mutex_);
  return phys_;
}

pool::Bookmark Dnode::bookmark(std::uint64_t block) const {
  return {.objset = objset_.id(), .object = object_, .level = 0, .block = block};
}

Error Dnode::within(Error error) const {
  return std::move(error).within("object " + std::to_string(object_) + " of " + objset_.name());
}

Result<void> Dnode::check_live_locked() const {
  if (!head_locked().allocated) {
    return fail(Errc::stale,
                "object " + std::to_string(object_) + " of " + objset_.name() + " was freed");
  }
  return {};
}

Dnode::Source Dnode::find_locked(std::uint64_t block) const {
  for (std::size_t i = live_.size(); i-- > 0;) {
    const DirtyGroup& group = *live_[i];
    if (const auto it = group.records.find(block); it != group.records.end()) {
      return {.kind = Source::Kind::record, .data = it->second, .group = i};
    }
    if (group.freed.contains(block)) {
      return {};
    }
  }
  if (phys_->type == format::ObjectType::none || block > phys_->max_block) {
    return {};
  }
  return {.kind = Source::Kind::tree, .data = nullptr, .group = 0};
}

namespace {

// Blocks of another byte order would need swapping by type; only plain bytes need none.
Result<void> check_order(const Blkptr& blkptr, format::ObjectType type) {
  const bool plain = type == format::ObjectType::plain_file ||
                     type == format::ObjectType::plain_other || type == format::ObjectType::zvol ||
                     type == format::ObjectType::uint8_data;
  if (blkptr.order != kHostOrder && !blkptr.embedded && !plain) {
    return fail(Errc::unsupported, "metadata written in the other byte order");
  }
  return {};
}

// What holes read as.
const SharedBuffer& shared_zeros() {
  static const SharedBuffer zeros = std::make_shared<const Buffer>(Buffer::zeroed(128 * kKiB));
  return zeros;
}

}  // namespace

std::size_t copy_pieces(std::span<const Piece> pieces, std::span<std::byte> into) {
  std::size_t copied = 0;
  for (const Piece& piece : pieces) {
    std::memcpy(into.data() + copied, piece.bytes.data(), piece.bytes.size());
    copied += piece.bytes.size();
  }
  return copied;
}

Result<SharedBuffer> Dnode::read_tree(const format::DnodePhys& tree, std::uint64_t block,
                                      ByteOrder* order) {
  TreeReader reader(objset_.store(), objset_.id(), object_, tree);
  ZUSE_TRY(const Blkptr blkptr, reader.find(block));
  if (blkptr.is_hole()) {
    return SharedBuffer{};
  }
  if (order != nullptr) {
    *order = blkptr.order;
  } else {
    ZUSE_TRY_VOID(check_order(blkptr, tree.type));
  }
  ZUSE_TRY(SharedBuffer bytes, objset_.store().read(blkptr, bookmark(block)));
  if (bytes->size() != tree.block_size) {
    return fail(Errc::corrupt, "block of the wrong size");
  }
  return bytes;
}

Result<std::vector<Piece>> Dnode::gather_from(const format::DnodePhys& tree,
                                              std::uint32_t block_size, std::uint64_t offset,
                                              std::uint64_t length,
                                              std::span<const Source> sources) {
  const std::uint64_t first = offset / block_size;
  std::vector<SharedBuffer> blocks(sources.size());  // null: zeros
  std::vector<Blkptr> blkptrs;
  std::vector<pool::Bookmark> bookmarks;
  std::vector<std::size_t> indices;
  TreeReader reader(objset_.store(), objset_.id(), object_, tree);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].kind != Source::Kind::tree) {
      blocks[i] = sources[i].data;
      continue;
    }
    ZUSE_TRY(Blkptr blkptr, reader.find(first + i));
    if (blkptr.is_hole()) {
      continue;
    }
    ZUSE_TRY_VOID(check_order(blkptr, tree.type));
    blkptrs.push_back(std::move(blkptr));
    bookmarks.push_back(bookmark(first + i));
    indices.push_back(i);
  }
  if (blkptrs.size() == 1) {
    ZUSE_TRY(blocks[indices[0]], objset_.store().read(blkptrs[0], bookmarks[0]));
  } else if (!blkptrs.empty()) {
    std::vector<Result<SharedBuffer>> results(blkptrs.size());
    objset_.store().read_many(blkptrs, bookmarks, results);
    for (std::size_t i = 0; i < results.size(); ++i) {
      ZUSE_TRY(blocks[indices[i]], std::move(results[i]));
    }
  }

  std::vector<Piece> pieces;
  pieces.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::uint64_t start = (first + i) * block_size;
    const std::uint64_t from = std::max(start, offset) - start;
    std::uint64_t wanted = std::min(start + block_size, offset + length) - start - from;
    if (blocks[i] != nullptr && blocks[i]->size() > from) {
      const auto bytes =
          blocks[i]->span().subspan(from, std::min(wanted, blocks[i]->size() - from));
      wanted -= bytes.size();
      pieces.push_back({blocks[i], bytes, sources[i].kind == Source::Kind::record});
    }
    while (wanted != 0) {
      const SharedBuffer& zeros = shared_zeros();
      const auto bytes = zeros->span().first(std::min<std::uint64_t>(wanted, zeros->size()));
      wanted -= bytes.size();
      pieces.push_back({zeros, bytes});
    }
  }
  return pieces;
}

Result<std::vector<Piece>> Dnode::gather(std::uint64_t offset, std::uint64_t length) {
  if (length == 0) {
    return std::vector<Piece>{};
  }
  if (offset >= kMaxOffset || length > kMaxOffset - offset) {
    return fail(Errc::invalid, "reading past the largest offset");
  }
  for (;;) {
    std::shared_ptr<const format::DnodePhys> tree;
    std::vector<Source> sources;
    std::uint32_t size = 0;
    {
      const LockGuard lock(mutex_);
      ZUSE_TRY_VOID(check_live_locked());
      tree = phys_;
      size = head_locked().block_size;
      const std::uint64_t first = offset / size;
      const std::uint64_t last = (offset + length - 1) / size;
      sources.reserve(last - first + 1);
      bool any_on_disk = false;
      for (std::uint64_t block = first; block <= last; ++block) {
        sources.push_back(find_locked(block));
        any_on_disk = any_on_disk || sources.back().kind == Source::Kind::tree;
      }
      if (any_on_disk) {
        note_read_locked(first, last);
      }
    }
    auto pieces = gather_from(*tree, size, offset, length, sources);
    if (pieces) {
      return pieces;
    }
    // The tree that we followed may have been replaced, and its blocks used for something else.
    if (tree == phys()) {
      return std::unexpected(within(std::move(pieces).error()));
    }
  }
}

Result<void> Dnode::read(std::uint64_t offset, std::span<std::byte> into) {
  ZUSE_TRY(const std::vector<Piece> pieces, gather(offset, into.size()));
  copy_pieces(pieces, into);
  return {};
}

Result<std::vector<Piece>> Dnode::read_pieces(std::uint64_t offset, std::uint64_t length) {
  ZUSE_TRY(std::vector<Piece> pieces, gather(offset, length));
  for (Piece& piece : pieces) {
    if (piece.changing) {
      piece.block = std::make_shared<const Buffer>(Buffer::copy_of(piece.bytes));
      piece.bytes = piece.block->span();
      piece.changing = false;
    }
  }
  return pieces;
}

Result<SharedBuffer> Dnode::read_ordered(std::uint64_t block, ByteOrder& order) {
  for (;;) {
    std::shared_ptr<const format::DnodePhys> tree;
    Source source;
    std::uint32_t size = 0;
    {
      const LockGuard lock(mutex_);
      ZUSE_TRY_VOID(check_live_locked());
      tree = phys_;
      size = head_locked().block_size;
      source = find_locked(block);
    }
    order = kHostOrder;
    if (source.kind == Source::Kind::record) {
      return SharedBuffer(source.data);
    }
    if (source.kind == Source::Kind::hole) {
      return std::make_shared<const Buffer>(Buffer::zeroed(size));
    }
    auto bytes = read_tree(*tree, block, &order);
    if (bytes) {
      return *bytes ? *bytes : SharedBuffer(std::make_shared<const Buffer>(Buffer::zeroed(size)));
    }
    if (tree == phys()) {
      return std::unexpected(within(std::move(bytes).error()));
    }
  }
}

Result<SharedBuffer> Dnode::read_block(std::uint64_t block) {
  for (;;) {
    std::shared_ptr<const format::DnodePhys> tree;
    Source source;
    std::uint32_t size = 0;
    {
      const LockGuard lock(mutex_);
      ZUSE_TRY_VOID(check_live_locked());
      tree = phys_;
      size = head_locked().block_size;
      source = find_locked(block);
      if (source.kind == Source::Kind::tree) {
        note_read_locked(block, block);
      }
    }
    if (source.kind == Source::Kind::record) {
      return SharedBuffer(source.data);
    }
    if (source.kind == Source::Kind::hole) {
      return std::make_shared<const Buffer>(Buffer::zeroed(size));
    }
    auto bytes = read_tree(*tree, block);
    if (bytes) {
      return *bytes ? *bytes : SharedBuffer(std::make_shared<const Buffer>(Buffer::zeroed(size)));
    }
    if (tree == phys()) {
      return std::unexpected(within(std::move(bytes).error()));
    }
  }
}

Result<SharedBuffer> Dnode::spill() {
  for (;;) {
    std::shared_ptr<const format::DnodePhys> tree;
    {
      const LockGuard lock(mutex_);
      ZUSE_TRY_VOID(check_live_locked());
      for (std::size_t i = live_.size(); i-- > 0;) {
        if (live_[i]->spill) {
          return SharedBuffer(live_[i]->spill);
        }
        if (live_[i]->spill_removed) {
          return SharedBuffer{};
        }
      }
      if (!phys_->spill) {
        return SharedBuffer{};
      }
      tree = phys_;
    }
    auto bytes = objset_.store().read(*tree->spill, bookmark(kSpillBookmark));
    if (bytes || tree == phys()) {
      return bytes ? std::move(bytes)
                   : Result<SharedBuffer>(std::unexpected(within(std::move(bytes).error())));
    }
  }
}

bool Dnode::dirty_in(std::uint64_t txg) const {
  const LockGuard lock(mutex_);
  return std::any_of(live_.begin(), live_.end(),
                     [&](const auto& group) { return group->txg == txg && !group->syncing; });
}

std::shared_ptr<const DirtyGroup> Dnode::begin_sync(std::uint64_t txg) {
  const LockGuard lock(mutex_);
  if (live_.empty() || live_.front()->txg != txg || live_.front()->syncing) {
    return nullptr;
  }
  live_.front()->syncing = true;
  return live_.front();
}

void Dnode::finish_sync(std::shared_ptr<const format::DnodePhys> phys) {
  auto base = std::make_shared<const DnodeHeader>(header_of(*phys));
  std::shared_ptr<DirtyGroup> done;  // freed after the lock is
  const LockGuard lock(mutex_);
  ZUSE_CHECK(!live_.empty() && live_.front()->syncing);
  done = std::move(live_.front());
  live_.erase(live_.begin());
  phys_ = std::move(phys);
  base_ = std::move(base);
}

}  // namespace zuse::object
