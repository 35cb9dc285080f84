// Reading. All cold blocks of a call go out as one batch without a verifier, so that the checksums
// are computed on all cores afterwards; what does not verify then takes the slow way: copy by copy
// with a verifier that lets mirrors and raidz try until it is content, then repair.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fs/codec/compress.h"
#include "fs/format/gang.h"
#include "fs/pool/io_block.h"
#include "fs/pool/io_pipeline.h"
#include "vdev/base/log.h"
#include "vdev/base/random.h"

namespace zuse::pool {
namespace {

spdlog::logger& log() {
  static auto& l = layer_log("pool");
  return l;
}

// Below this many bytes, handing the verification to other threads costs more than it gains.
constexpr std::size_t kParallelBytes = 256 * kKiB;

}  // namespace

struct IoPipeline::Pending {
  CacheKey key;
  std::uint32_t lsize = 0;
  Mutex mutex{LockRank::leaf};
  CondVar changed;
  bool done ZUSE_GUARDED_BY(mutex) = false;
  Result<SharedBuffer> result ZUSE_GUARDED_BY(mutex);

  Result<SharedBuffer> wait() {
    const LockGuard lock(mutex);
    while (!done) {
      changed.wait(mutex);
    }
    return result;
  }
  void finish(const Result<SharedBuffer>& value) {
    const LockGuard lock(mutex);
    result = value;
    done = true;
    changed.notify_all();
  }
};

struct IoPipeline::ColdRead {
  std::size_t index = 0;  // in the caller's arrays
  const format::Blkptr* blkptr = nullptr;
  const Bookmark* bookmark = nullptr;
  std::shared_ptr<Pending> pending;
  Buffer raw;
  Result<SharedBuffer> result;
  bool was_cached = false;
};

// Answers what needs no device: holes, embedded blocks, pointers that make no sense, the cache.
Result<SharedBuffer> IoPipeline::without_io(const format::Blkptr& blkptr, ReadOptions options,
                                            bool& done) {
  done = true;
  if (blkptr.is_hole()) {
    const std::size_t size = options.hole_size != 0 ? options.hole_size : blkptr.lsize;
    return std::make_shared<const Buffer>(Buffer::zeroed(size));
  }
  ZUSE_TRY_VOID(check_pointer(blkptr));
  if (blkptr.embedded) {
    if (blkptr.embedded_type != 0) {
      return fail(Errc::unsupported, "the contents of a redacted block were not sent");
    }
    return unpack(blkptr, Buffer::copy_of(std::span(blkptr.payload).first(blkptr.psize)));
  }
  if (SharedBuffer block = cached(blkptr)) {
    return block;
  }
  if (blkptr.encrypted && blkptr.level == 0 && is_encrypted_type(blkptr.type)) {
    return fail(Errc::unsupported, "the block is encrypted");
  }
  ZUSE_TRY_VOID(check_verifiable(blkptr));
  ZUSE_TRY_VOID(blkptr.compression == format::Compression::off
                    ? Result<void>{}
                    : codec::check_supported(blkptr.compression));
  done = false;
  return SharedBuffer();
}

// Raw bytes to contents.
Result<SharedBuffer> IoPipeline::unpack(const format::Blkptr& blkptr, Buffer raw) const {
  if (blkptr.compression == format::Compression::off) {
    if (raw.size() != blkptr.lsize) {
      return fail(Errc::corrupt, "an uncompressed block with two sizes");
    }
    return std::make_shared<const Buffer>(std::move(raw));
  }
  Buffer contents(blkptr.lsize);
  ZUSE_TRY_VOID(codec::decompress(blkptr.compression, raw.span(), contents.span()));
  return std::make_shared<const Buffer>(std::move(contents));
}

Result<SharedBuffer> IoPipeline::read(const format::Blkptr& blkptr, const Bookmark& bookmark,
                                      ReadOptions options) {
  Result<SharedBuffer> result;
  read_many(std::span(&blkptr, 1), std::span(&bookmark, 1), std::span(&result, 1), options);
  return result;
}

void IoPipeline::read_many(std::span<const format::Blkptr> blkptrs,
                           std::span<const Bookmark> bookmarks,
                           std::span<Result<SharedBuffer>> results, ReadOptions options) {
  ZUSE_CHECK(bookmarks.size() == blkptrs.size() && results.size() == blkptrs.size());
  std::vector<ColdRead> mine;
  std::vector<std::pair<std::size_t, std::shared_ptr<Pending>>> others;
  for (std::size_t i = 0; i < blkptrs.size(); ++i) {
    bool done = false;
    results[i] = without_io(blkptrs[i], options, done);
    if (!results[i]) {
      results[i] = std::unexpected(std::move(results[i]).error().within(to_string(bookmarks[i])));
      if (!options.prefetch && is_loss(results[i].error().code())) {
        error_log_.add({bookmarks[i], blkptrs[i].birth()});
      }
    }
    if (done) {
      continue;
    }
    const CacheKey key = cache_key(blkptrs[i]);
    const LockGuard lock(pending_mutex_);
    auto& bucket = pending_[key.offset];
    const auto same = std::ranges::find_if(bucket, [&](const auto& pending) {
      return pending->key == key && pending->lsize == blkptrs[i].lsize;
    });
    if (same != bucket.end()) {
      others.emplace_back(i, *same);
      continue;
    }
    ColdRead cold;
    cold.index = i;
    cold.blkptr = &blkptrs[i];
    cold.bookmark = &bookmarks[i];
    cold.pending = std::make_shared<Pending>();
    cold.pending->key = key;
    cold.pending->lsize = blkptrs[i].lsize;
    bucket.push_back(cold.pending);
    mine.push_back(std::move(cold));
  }
  // Between the look into the cache and this place in line, the block may have arrived.
  std::vector<ColdRead*> cold_reads;
  for (ColdRead& cold : mine) {
    SharedBuffer arrived = cache_.get(cold.pending->key, true);
    if (arrived != nullptr && arrived->size() == cold.blkptr->lsize) {
      cold.result = std::move(arrived);
      cold.was_cached = true;
    } else {
      cold_reads.push_back(&cold);
    }
  }
  if (!mine.empty()) {
    if (!cold_reads.empty()) {
      // Nothing that is being read may be freed and written anew below the reader.
      const Allocator::Pin pin = allocator_.pin_frees();
      read_cold(cold_reads);
    }
    for (ColdRead& cold : mine) {
      if (cold.result && !cold.was_cached && options.cache) {
        cache_.put(cold.pending->key, *cold.result, options.prefetch);
      }
      {
        const LockGuard lock(pending_mutex_);
        const auto bucket = pending_.find(cold.pending->key.offset);
        std::erase(bucket->second, cold.pending);
        if (bucket->second.empty()) {
          pending_.erase(bucket);
        }
      }
      cold.pending->finish(cold.result);
      if (!cold.result && !options.prefetch && is_loss(cold.result.error().code())) {
        error_log_.add({*cold.bookmark, cold.blkptr->birth()});
        log().error("block_lost at={}/{}/{}/{} why={}", cold.bookmark->objset,
                    cold.bookmark->object, cold.bookmark->level, cold.bookmark->block,
                    cold.result.error().what());
      }
      results[cold.index] = std::move(cold.result);
    }
  }
  // A prefetch needs no answer: whoever reads the block already will put it into the cache.
  for (const auto& [index, pending] : others) {
    results[index] = options.prefetch ? Result<SharedBuffer>(SharedBuffer()) : pending->wait();
    // Whoever read it may have been a prefetch, which reports nothing.
    if (!results[index] && is_loss(results[index].error().code())) {
      error_log_.add({bookmarks[index], blkptrs[index].birth()});
    }
  }
}

void IoPipeline::read_cold(std::span<ColdRead* const> reads) {
  std::vector<vdev::BlockRead> batch;
  std::vector<std::size_t> owner;  // batch index -> reads index
  std::size_t bytes = 0;
  batch.reserve(reads.size());
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const format::Blkptr& blkptr = *reads[i]->blkptr;
    reads[i]->raw = Buffer(blkptr.psize);
    if (blkptr.is_gang()) {
      continue;
    }
    const format::Dva& dva = blkptr.dva[best_copy(blkptr)];
    vdev::BlockRead read;
    read.top = dva.vdev;
    read.offset = dva.offset;
    read.data = reads[i]->raw.span();
    read.birth_txg = blkptr.birth();
    read.tag = tag_of(*reads[i]->bookmark);
    batch.push_back(std::move(read));
    owner.push_back(i);
    bytes += blkptr.psize;
  }
  if (!batch.empty()) {
    tree_.read(batch);
  }
  std::vector<unsigned char> arrived(reads.size(), 0);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    arrived[owner[i]] = batch[i].result.has_value() ? 1 : 0;
  }
  const auto finish = [&](std::size_t i) {
    ColdRead& cold = *reads[i];
    const format::Blkptr& blkptr = *cold.blkptr;
    Result<void> good;
    if (arrived[i] == 0 || !verify_contents(blkptr, cold.raw.span())) {
      good = read_raw(blkptr, cold.raw.span(), *cold.bookmark, 0);
    }
    cold.result = good ? unpack(blkptr, std::move(cold.raw))
                       : Result<SharedBuffer>(std::unexpected(std::move(good).error()));
    if (!cold.result) {
      cold.result =
          std::unexpected(std::move(cold.result).error().within(to_string(*cold.bookmark)));
    }
  };
  if (reads.size() > 1 && bytes >= kParallelBytes) {
    cpu_.for_each_index(reads.size(), finish);
  } else {
    for (std::size_t i = 0; i < reads.size(); ++i) {
      finish(i);
    }
  }
}

// The copy to ask first: on the least busy vdev; of those equally busy, any one; of two on one
// vdev, the first (it is likelier to follow what was read before).
unsigned IoPipeline::best_copy(const format::Blkptr& blkptr) const {
  unsigned best = 0, equals = 1;
  unsigned best_load = ~0U;
  for (unsigned d = 0; d < blkptr.copies(); ++d) {
    bool same_vdev = false;
    for (unsigned earlier = 0; earlier < d; ++earlier) {
      same_vdev = same_vdev || blkptr.dva[earlier].vdev == blkptr.dva[d].vdev;
    }
    if (same_vdev || !tree_.usable(blkptr.dva[d].vdev)) {
      continue;
    }
    const unsigned load = tree_.load(blkptr.dva[d].vdev);
    if (load < best_load) {
      best = d;
      best_load = load;
      equals = 1;
    } else if (load == best_load && thread_random().bounded(++equals) == 0) {
      best = d;
    }
  }
  return best;
}

// psize bytes of a pointer, whatever it takes. errors: io, gone, checksum, corrupt.
Result<void> IoPipeline::read_raw(const format::Blkptr& blkptr, std::span<std::byte> into,
                                  const Bookmark& bookmark, unsigned depth) {
  if (blkptr.is_gang()) {
    return read_gang(blkptr, into, bookmark, depth);
  }
  return read_copies(
      blkptr, into,
      [&](std::span<const std::byte> bytes) { return verify_contents(blkptr, bytes).has_value(); },
      bookmark);
}

Result<void> IoPipeline::read_copies(const format::Blkptr& blkptr, std::span<std::byte> into,
                                     const vdev::Verifier& verify, const Bookmark& bookmark) {
  const unsigned copies = blkptr.copies();
  const unsigned first = best_copy(blkptr);
  unsigned bad = 0;
  Result<void> why = fail(Errc::io, "no copy is on a vdev that is there");
  for (unsigned step = 0; step < copies; ++step) {
    const unsigned d = step == 0 ? first : step <= first ? step - 1 : step;
    const format::Dva& dva = blkptr.dva[d];
    if (!tree_.usable(dva.vdev)) {
      continue;
    }
    vdev::BlockRead read;
    read.top = dva.vdev;
    read.offset = dva.offset;
    read.data = into;
    read.verify = verify;
    read.birth_txg = blkptr.birth();
    read.repair = !read_only_;
    read.tag = tag_of(bookmark);
    tree_.read(std::span(&read, 1));
    if (read.result) {
      if (bad != 0 && !read_only_) {
        repair(blkptr, into, bad, bookmark);
      }
      return {};
    }
    bad |= 1U << d;
    // A copy that lied says more than one that did not answer.
    if (why.error().code() != Errc::checksum) {
      why = std::move(read.result);
    }
  }
  return why;
}

unsigned IoPipeline::repair(const format::Blkptr& blkptr, std::span<const std::byte> good,
                            unsigned bad, const Bookmark& bookmark) {
  std::vector<vdev::BlockWrite> writes;
  std::vector<unsigned> which;
  for (unsigned d = 0; d < blkptr.copies(); ++d) {
    if ((bad & (1U << d)) != 0 && tree_.usable(blkptr.dva[d].vdev)) {
      vdev::BlockWrite write;
      write.top = blkptr.dva[d].vdev;
      write.offset = blkptr.dva[d].offset;
      write.data = good;
      write.txg = blkptr.birth();
      write.tag = tag_of(bookmark);
      writes.push_back(std::move(write));
      which.push_back(d);
    }
  }
  if (writes.empty()) {
    return 0;
  }
  tree_.write(writes);
  unsigned repaired = 0;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (writes[i].result) {
      repaired |= 1U << which[i];
    }
  }
  log().debug("copies_repaired at={}/{}/{}/{} bad={:#x} repaired={:#x}", bookmark.objset,
              bookmark.object, bookmark.level, bookmark.block, bad, repaired);
  return repaired;
}

Result<format::GangHeader> IoPipeline::read_gang_header(const format::Blkptr& blkptr,
                                                        const Bookmark& bookmark) {
  Buffer header(format::kGangHeaderSize);
  const auto words = format::gang_verifier(blkptr);
  const auto verify = [&](std::span<const std::byte> bytes) {
    return codec::verify_sealed(format::Checksum::gang_header, bytes, words).has_value();
  };
  if (auto read = read_copies(blkptr, header.span(), verify, bookmark); !read) {
    return std::unexpected(std::move(read).error().within("gang header"));
  }
  return format::decode_gang_header(header.span(), blkptr.order);
}

// The children's bytes one after the other. The header's seal and each child's own checksum vouch
// for them. source: format page 02 section 2.
Result<void> IoPipeline::read_gang(const format::Blkptr& blkptr, std::span<std::byte> into,
                                   const Bookmark& bookmark, unsigned depth) {
  if (depth >= format::kGangDepthMax) {
    return fail(Errc::corrupt, "gang blocks nested too deep");
  }
  ZUSE_TRY(const format::GangHeader header, read_gang_header(blkptr, bookmark));
  std::size_t at = 0;
  for (const format::Blkptr& child : header.child) {
    if (child.is_hole()) {
      continue;
    }
    ZUSE_TRY_VOID(check_pointer(child));
    ZUSE_TRY_VOID(check_verifiable(child));
    if (child.embedded || child.psize > into.size() - at) {
      return fail(Errc::corrupt, "the parts of a gang block exceed it");
    }
    ZUSE_TRY_VOID(read_raw(child, into.subspan(at, child.psize), bookmark, depth + 1));
    at += child.psize;
  }
  if (at != into.size()) {
    return fail(Errc::corrupt, "the parts of a gang block do not fill it");
  }
  return {};
}

}  // namespace zuse::pool
