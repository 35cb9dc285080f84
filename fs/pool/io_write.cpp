// Writing. Jobs are dealt out to all cores in groups of about 2 MiB. A group is compressed,
// checksummed and allocated (one after the other, hence side by side on disk), and written as one
// batch; while it waits for the devices, other cores work on other groups.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "fs/codec/compress.h"
#include "fs/pool/io_block.h"
#include "fs/pool/io_pipeline.h"

namespace zuse::pool {
namespace {

constexpr std::size_t kGroupBytes = 2 * kMiB;
constexpr std::size_t kGroupJobs = 256;
constexpr std::size_t kEmbeddedMax = sizeof(format::Blkptr::payload);

// Blocks that may live in their pointer. source: format page 02 section 1.3.
bool may_embed(const WriteProperties& properties) noexcept {
  return properties.level == 0 && properties.type != format::ObjectType::dnode &&
         properties.type != format::ObjectType::objset &&
         properties.type != format::ObjectType::intent_log;
}

}  // namespace

// A block on its way to the devices. `bytes` is the job's own data, or `compressed`.
struct IoPipeline::Prepared {
  std::span<const std::byte> bytes;
  Buffer compressed;
  format::Blkptr blkptr;
  bool in_place = false;
  bool stored = false;  // needs the devices: neither hole nor embedded nor failed
};

void IoPipeline::write(std::uint64_t txg, std::span<BlockWriteJob> jobs) {
  std::vector<std::span<BlockWriteJob>> groups;
  for (std::size_t from = 0; from < jobs.size();) {
    std::size_t bytes = 0, end = from;
    while (end < jobs.size() && end - from < kGroupJobs &&
           (end == from || bytes + jobs[end].data.size() <= kGroupBytes)) {
      bytes += jobs[end].data.size();
      ++end;
    }
    groups.push_back(jobs.subspan(from, end - from));
    from = end;
  }
  if (groups.size() == 1) {
    write_group(txg, groups[0]);
  } else {
    cpu_.for_each_index(groups.size(), [&](std::size_t i) { write_group(txg, groups[i]); });
  }
}

void IoPipeline::write_group(std::uint64_t txg, std::span<BlockWriteJob> jobs) {
  std::vector<Prepared> prepared(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].result = prepare(txg, jobs[i], prepared[i]);
  }
  std::vector<vdev::BlockWrite> writes;
  std::vector<std::size_t> owner;  // writes index -> jobs index
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Prepared& block = prepared[i];
    if (!jobs[i].result || !block.stored) {
      continue;
    }
    if (!block.in_place) {
      auto dvas = allocator_.allocate(
          {block.blkptr.psize, jobs[i].properties.copies, txg, jobs[i].properties.data});
      if (!dvas) {
        jobs[i].result = std::unexpected(std::move(dvas).error());
        continue;
      }
      block.blkptr.dva = *dvas;
    }
    // What the cache may hold of this place is an older version of this group, or prefetched.
    cache_.forget(cache_key(block.blkptr));
    for (unsigned d = 0; d < block.blkptr.copies(); ++d) {
      vdev::BlockWrite write;
      write.top = block.blkptr.dva[d].vdev;
      write.offset = block.blkptr.dva[d].offset;
      write.data = block.bytes;
      write.txg = txg;
      write.tag = tag_of(jobs[i].bookmark);
      writes.push_back(std::move(write));
      owner.push_back(i);
    }
  }
  if (!writes.empty()) {
    tree_.write(writes);
  }
  for (std::size_t w = 0; w < writes.size(); ++w) {
    if (!writes[w].result && jobs[owner[w]].result) {
      jobs[owner[w]].result = std::unexpected(std::move(writes[w].result).error());
    }
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    BlockWriteJob& job = jobs[i];
    if (!job.result) {
      job.result = std::unexpected(
          std::move(job.result).error().within("writing " + to_string(job.bookmark)));
      continue;
    }
    job.blkptr = prepared[i].blkptr;
    if (prepared[i].stored && job.cacheable != nullptr &&
        job.cacheable->size() == job.blkptr.lsize) {
      cache_.put(cache_key(job.blkptr), job.cacheable);
    }
  }
}

// Everything up to allocation.
Result<void> IoPipeline::prepare(std::uint64_t txg, BlockWriteJob& job, Prepared& prepared) const {
  const WriteProperties& properties = job.properties;
  if (read_only_) {
    return fail(Errc::read_only, "the pool is open read-only");
  }
  if (job.data.empty() || job.data.size() % 512 != 0 || job.data.size() > format::kMaxBlockSize ||
      properties.copies == 0 || properties.copies > 3) {
    return fail(Errc::invalid, "a block of a size that cannot be");
  }
  const format::Checksum checksum = properties.checksum == format::Checksum::on
                                        ? format::Checksum::fletcher4
                                        : properties.checksum;
  ZUSE_TRY_VOID(codec::check_supported(checksum));
  if (checksum == format::Checksum::label || checksum == format::Checksum::gang_header ||
      is_sealed(checksum)) {
    return fail(Errc::invalid, "a checksum that only lives inside its block");
  }
  const bool off = properties.compression.algorithm == format::Compression::off;
  const format::Blkptr& before = job.blkptr;
  const auto lsize = static_cast<std::uint32_t>(job.data.size());
  if (!off && codec::all_zero(job.data)) {
    const bool keeps_birth = hole_birth_ && (before.logical_birth != 0);
    prepared.blkptr = format::make_hole(lsize, properties.type, properties.level,
                                        keeps_birth ? txg : 0, keeps_birth);
    return {};
  }
  format::Blkptr& blkptr = prepared.blkptr;
  blkptr.lsize = blkptr.psize = lsize;
  blkptr.compression = format::Compression::off;
  blkptr.checksum_type = checksum;
  blkptr.type = properties.type;
  blkptr.level = properties.level;
  blkptr.logical_birth = txg;
  prepared.bytes = job.data;
  if (!off && properties.compression.algorithm != format::Compression::empty) {
    ZUSE_TRY_VOID(compress(job, prepared));
    if (blkptr.embedded) {
      return {};
    }
  }
  blkptr.checksum = codec::compute(checksum, prepared.bytes, kHostOrder);
  prepared.stored = true;
  // A block of this very group is not part of any committed tree: its place can be written again.
  if (before.logical_birth == txg && before.birth() == txg && !before.is_hole() &&
      !before.embedded && !before.is_gang() && before.psize == blkptr.psize &&
      before.copies() == properties.copies) {
    blkptr.dva = before.dva;
    prepared.in_place = true;
  }
  return {};
}

// source: format page 02 section 4.0, rules 2 to 5.
Result<void> IoPipeline::compress(const BlockWriteJob& job, Prepared& prepared) const {
  const format::CompressionChoice choice = job.properties.compression;
  const std::size_t lsize = job.data.size();
  const bool embed = embedded_data_ && may_embed(job.properties);
  std::size_t limit = lsize - lsize / 8;
  if (choice.algorithm != format::Compression::zle) {
    limit -= limit % sector_gcd_;
    if (limit < smallest_sector_) {
      if (!embed) {
        return {};
      }
      limit = kEmbeddedMax;
    }
  }
  Buffer out(round_up(limit, sector_gcd_));
  ZUSE_TRY(const std::size_t size, codec::compress(choice, job.data, out.span().first(limit)));
  if (size == 0) {
    return {};
  }
  format::Blkptr& blkptr = prepared.blkptr;
  const auto algorithm =
      choice.algorithm == format::Compression::on ? format::Compression::lz4 : choice.algorithm;
  if (embed && size <= kEmbeddedMax) {
    blkptr.embedded = true;
    blkptr.embedded_type = 0;
    blkptr.compression = algorithm;
    blkptr.checksum_type = format::Checksum::inherit;
    blkptr.psize = static_cast<std::uint32_t>(size);
    std::copy_n(out.data(), size, blkptr.payload.begin());
    return {};
  }
  const std::size_t stored =
      size <= smallest_sector_ ? smallest_sector_ : round_up(size, sector_gcd_);
  if (stored >= lsize || stored > out.size()) {
    return {};
  }
  std::memset(out.data() + size, 0, stored - size);
  out.shrink(stored);
  blkptr.psize = static_cast<std::uint32_t>(stored);
  blkptr.compression = algorithm;
  prepared.compressed = std::move(out);
  prepared.bytes = prepared.compressed.span();
  return {};
}

}  // namespace zuse::pool
