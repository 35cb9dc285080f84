#include "tests/support/memory_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "vdev/base/units.h"

namespace zuse::test {

using format::Blkptr;

namespace {

std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::uint64_t value = 0xcbf29ce484222325U ^ seed;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    value = (value ^ word) * 0x9e3779b97f4a7c15U;
    value ^= value >> 29U;
  }
  for (std::size_t at = bytes.size() / 8 * 8; at < bytes.size(); ++at) {
    value = (value ^ static_cast<std::uint64_t>(bytes[at])) * 0x100000001b3U;
  }
  return value;
}

std::string describe(const Blkptr& blkptr) {
  return "block at " + std::to_string(blkptr.dva[0].offset) + " level " +
         std::to_string(blkptr.level) + " type " +
         std::to_string(static_cast<unsigned>(blkptr.type)) + " birth " +
         std::to_string(blkptr.logical_birth);
}

}  // namespace

MemoryStore::MemoryStore(Options options) : options_(options), cpu_(options.cpu_threads) {}

Result<SharedBuffer> MemoryStore::read_block(const Blkptr& blkptr, const pool::Bookmark& bookmark,
                                             pool::ReadOptions options) {
  if (blkptr.is_hole()) {
    return std::make_shared<const Buffer>(Buffer::zeroed(std::max(blkptr.lsize, 512U)));
  }
  auto buffer = std::make_shared<Buffer>(Buffer::zeroed(blkptr.lsize));
  if (blkptr.embedded) {
    std::memcpy(buffer->data(), blkptr.payload.data(), blkptr.psize);
    return SharedBuffer(buffer);
  }
  const std::lock_guard lock(mutex_);
  const std::uint64_t address = blkptr.dva[0].offset;
  const auto kept = cache_.find(address);
  if (kept != cache_.end() && kept->second.first == blkptr.checksum[0]) {
    return kept->second.second;
  }
  if (options.prefetch) {
    ++prefetches_;
  }
  if (bookmark.level == 0) {
    ++data_reads_;
  }
  if (read_hook_) {
    ZUSE_TRY_VOID(read_hook_(bookmark));
  }
  const auto it = blocks_.find(address);
  if (it == blocks_.end() || it->second.bytes->size() != blkptr.psize ||
      hash(*it->second.bytes, blkptr.lsize) != blkptr.checksum[0]) {
    return fail(Errc::checksum, describe(blkptr) + " is not what it was");
  }
  std::memcpy(buffer->data(), it->second.bytes->data(), blkptr.psize);
  if (options.cache) {
    cache_[address] = {blkptr.checksum[0], buffer};
  }
  return SharedBuffer(buffer);
}

Result<SharedBuffer> MemoryStore::read(const Blkptr& blkptr, const pool::Bookmark& bookmark,
                                       pool::ReadOptions options) {
  return read_block(blkptr, bookmark, options);
}

void MemoryStore::read_many(std::span<const Blkptr> blkptrs,
                            std::span<const pool::Bookmark> bookmarks,
                            std::span<Result<SharedBuffer>> results, pool::ReadOptions options) {
  ZUSE_CHECK(blkptrs.size() == bookmarks.size() && blkptrs.size() == results.size());
  cpu_.for_each_index(blkptrs.size(), [&](std::size_t i) {
    results[i] = read_block(blkptrs[i], bookmarks[i], options);
  });
}

SharedBuffer MemoryStore::cached(const Blkptr& blkptr) {
  const std::lock_guard lock(mutex_);
  const auto it = cache_.find(blkptr.dva[0].offset);
  return it == cache_.end() || it->second.first != blkptr.checksum[0] ? nullptr : it->second.second;
}

void MemoryStore::write_block(std::uint64_t txg, pool::BlockWriteJob& job) {
  const Blkptr before = job.blkptr;
  const auto& properties = job.properties;
  Blkptr after;
  after.lsize = static_cast<std::uint32_t>(job.data.size());
  after.type = properties.type;
  after.level = properties.level;
  after.logical_birth = txg;
  std::size_t length = job.data.size();
  while (length > 0 && job.data[length - 1] == std::byte{0}) {
    --length;
  }
  const bool compress = properties.compression.algorithm != format::Compression::off;
  if (compress && length == 0) {
    job.blkptr = format::make_hole(after.lsize, after.type, after.level,
                                   before.logical_birth != 0 ? txg : 0, options_.hole_birth);
    return;
  }
  if (options_.embedded && compress && length <= 112 && properties.level == 0 &&
      properties.type != format::ObjectType::dnode &&
      properties.type != format::ObjectType::objset) {
    after.embedded = true;
    after.compression = format::Compression::lz4;
    after.psize = static_cast<std::uint32_t>(length);
    std::memcpy(after.payload.data(), job.data.data(), length);
    job.blkptr = after;
    return;
  }
  const std::uint64_t stored = std::max<std::uint64_t>(round_up<std::uint64_t>(length, 512), 512);
  const bool smaller = compress && stored < job.data.size();
  after.psize = static_cast<std::uint32_t>(smaller ? stored : job.data.size());
  after.compression = smaller ? format::Compression::lz4 : format::Compression::off;
  after.checksum_type = properties.checksum;
  auto bytes = std::make_shared<const std::vector<std::byte>>(
      job.data.begin(), job.data.begin() + static_cast<std::ptrdiff_t>(after.psize));
  after.checksum[0] = hash(*bytes, after.lsize);

  const std::lock_guard lock(mutex_);
  if (write_hook_) {
    if (auto answer = write_hook_(job.bookmark); !answer) {
      job.result = std::move(answer);
      return;
    }
  }
  const bool in_place = before.logical_birth == txg && !before.is_hole() && !before.embedded &&
                        before.psize == after.psize && before.copies() == properties.copies;
  after.dva = before.dva;
  if (!in_place) {
    after.dva = {};
    for (unsigned copy = 0; copy < properties.copies; ++copy) {
      after.dva[copy] = {.vdev = 0,
                         .asize = round_up<std::uint64_t>(after.psize, 512),
                         .offset = next_,
                         .gang = false};
      next_ += after.dva[copy].asize;
    }
  }
  for (unsigned copy = 0; copy < properties.copies; ++copy) {
    Block& block = blocks_[after.dva[copy].offset];
    if (in_place && block.freed_txg != 0) {
      problems_.push_back("rewritten after it was freed: " + describe(before));
    }
    block = {.bytes = bytes, .asize = after.dva[copy].asize, .freed_txg = 0};
  }
  if (job.cacheable) {
    cache_[after.dva[0].offset] = {after.checksum[0], job.cacheable};
  } else {
    cache_.erase(after.dva[0].offset);
  }
  job.blkptr = after;
}

void MemoryStore::write(std::uint64_t txg, std::span<pool::BlockWriteJob> jobs) {
  cpu_.for_each_index(jobs.size(), [&](std::size_t i) { write_block(txg, jobs[i]); });
}

void MemoryStore::free(std::uint64_t txg, const Blkptr& blkptr) {
  if (blkptr.is_hole() || blkptr.embedded) {
    return;
  }
  const std::lock_guard lock(mutex_);
  for (const format::Dva& dva : blkptr.dva) {
    if (dva.asize == 0) {
      continue;
    }
    const auto it = blocks_.find(dva.offset);
    if (it == blocks_.end() || it->second.freed_txg != 0) {
      problems_.push_back("freed, but not there: " + describe(blkptr));
      continue;
    }
    it->second.freed_txg = txg;
  }
}

std::uint64_t MemoryStore::dsize(const Blkptr& blkptr) const {
  if (blkptr.embedded) {
    return 0;
  }
  std::uint64_t size = 0;
  for (const format::Dva& dva : blkptr.dva) {
    size += dva.asize;
  }
  return size;
}

void MemoryStore::release(std::uint64_t txg) {
  const std::lock_guard lock(mutex_);
  std::erase_if(blocks_, [&](const auto& entry) {
    return entry.second.freed_txg != 0 && entry.second.freed_txg <= txg;
  });
  std::erase_if(cache_, [&](const auto& entry) { return !blocks_.contains(entry.first); });
}

void MemoryStore::drop_cache() {
  const std::lock_guard lock(mutex_);
  cache_.clear();
}

std::set<std::uint64_t> MemoryStore::live() const {
  const std::lock_guard lock(mutex_);
  std::set<std::uint64_t> addresses;
  for (const auto& [address, block] : blocks_) {
    if (block.freed_txg == 0) {
      addresses.insert(address);
    }
  }
  return addresses;
}

std::vector<std::string> MemoryStore::problems() const {
  const std::lock_guard lock(mutex_);
  return problems_;
}

std::uint64_t MemoryStore::data_reads() const {
  const std::lock_guard lock(mutex_);
  return data_reads_;
}

std::uint64_t MemoryStore::prefetches() const {
  const std::lock_guard lock(mutex_);
  return prefetches_;
}

void MemoryStore::set_read_hook(std::function<Result<void>(const pool::Bookmark&)> hook) {
  const std::lock_guard lock(mutex_);
  read_hook_ = std::move(hook);
}

void MemoryStore::set_write_hook(std::function<Result<void>(const pool::Bookmark&)> hook) {
  const std::lock_guard lock(mutex_);
  write_hook_ = std::move(hook);
}

}  // namespace zuse::test
