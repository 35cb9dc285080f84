// Scrubbing: every copy of every block is read with all its parity, whether or not anyone needs it.
// The vdev tree compares and repairs within one top-level vdev; across the copies of a pointer that
// is done here.
#include <algorithm>
#include <utility>

#include "fs/format/gang.h"
#include "fs/pool/io_block.h"
#include "fs/pool/io_pipeline.h"

namespace zuse::pool {
namespace {

// Adds what one copy's read found.
void count(const vdev::BlockRead& read, std::uint64_t asize, ScrubResult& result) {
  result.examined += asize;
  result.repaired += read.bytes_repaired;
  result.errors += read.errors_seen;
}

}  // namespace

void IoPipeline::scrub(std::span<const format::Blkptr> blkptrs, std::span<const Bookmark> bookmarks,
                       std::span<ScrubResult> results, bool repair) {
  ZUSE_CHECK(bookmarks.size() == blkptrs.size() && results.size() == blkptrs.size());
  const bool may_repair = repair && !read_only_;
  scrub_flat(blkptrs, bookmarks, results, may_repair);
  for (std::size_t i = 0; i < blkptrs.size(); ++i) {
    if (results[i].result && blkptrs[i].is_gang()) {
      scrub_gang(blkptrs[i], bookmarks[i], results[i], may_repair, 0);
    }
    if (!results[i].result && repair && is_loss(results[i].result.error().code())) {
      error_log_.add_scrub({bookmarks[i], blkptrs[i].birth()});
    }
  }
}

// All copies of all blocks at once; of gang blocks, the headers.
void IoPipeline::scrub_flat(std::span<const format::Blkptr> blkptrs,
                            std::span<const Bookmark> bookmarks, std::span<ScrubResult> results,
                            bool may_repair) {
  struct Copy {
    std::size_t block = 0;
    unsigned dva = 0;
    Buffer bytes;
  };
  std::vector<Copy> copies;
  std::vector<vdev::BlockRead> reads;
  for (std::size_t i = 0; i < blkptrs.size(); ++i) {
    const format::Blkptr& blkptr = blkptrs[i];
    results[i] = {};
    if (blkptr.is_hole() || blkptr.embedded) {
      continue;
    }
    auto checked = check_pointer(blkptr);
    if (checked) {
      checked = check_verifiable(blkptr);
    }
    if (!checked) {
      results[i].result = std::move(checked);
      continue;
    }
    for (unsigned d = 0; d < blkptr.copies(); ++d) {
      Copy copy;
      copy.block = i;
      copy.dva = d;
      copy.bytes = Buffer(blkptr.is_gang() ? format::kGangHeaderSize : blkptr.psize);
      vdev::BlockRead read;
      read.top = blkptr.dva[d].vdev;
      read.offset = blkptr.dva[d].offset;
      read.data = copy.bytes.span();
      if (blkptr.is_gang()) {
        read.verify = [words = format::gang_verifier(blkptr)](std::span<const std::byte> bytes) {
          return codec::verify_sealed(format::Checksum::gang_header, bytes, words).has_value();
        };
      } else {
        read.verify = [&blkptr](std::span<const std::byte> bytes) {
          return verify_contents(blkptr, bytes).has_value();
        };
      }
      read.birth_txg = blkptr.birth();
      read.mode = vdev::ReadMode::scrub;
      read.repair = may_repair;
      read.tag = tag_of(bookmarks[i]);
      reads.push_back(std::move(read));
      copies.push_back(std::move(copy));
    }
  }
  if (reads.empty()) {
    return;
  }
  tree_.read(reads);
  for (std::size_t from = 0; from < copies.size();) {
    const std::size_t block = copies[from].block;
    std::size_t end = from;
    std::size_t good = copies.size();
    unsigned bad = 0;
    for (; end < copies.size() && copies[end].block == block; ++end) {
      const format::Dva& dva = blkptrs[block].dva[copies[end].dva];
      const std::uint64_t asize = tree_.geometry(dva.vdev).psize_to_asize(copies[end].bytes.size());
      count(reads[end], asize, results[block]);
      if (reads[end].result) {
        good = end;
      } else {
        bad |= 1U << copies[end].dva;
        if (reads[end].errors_seen == 0) {
          ++results[block].errors;
        }
      }
    }
    if (good == copies.size()) {
      results[block].result = std::move(reads[from].result);
    } else if (bad != 0) {
      const unsigned repaired = may_repair ? this->repair(blkptrs[block], copies[good].bytes.span(),
                                                          bad, bookmarks[block])
                                           : 0;
      for (unsigned d = 0; d < 3; ++d) {
        if ((bad & (1U << d)) == 0) {
          continue;
        }
        if ((repaired & (1U << d)) != 0) {
          results[block].repaired += copies[good].bytes.size();
        } else {
          ++results[block].copies_lost;
        }
      }
    }
    from = end;
  }
}

// The header was scrubbed as a block of its own; now what it points to.
void IoPipeline::scrub_gang(const format::Blkptr& blkptr, const Bookmark& bookmark,
                            ScrubResult& result, bool may_repair, unsigned depth) {
  if (depth >= format::kGangDepthMax) {
    result.result = fail(Errc::corrupt, "gang blocks nested too deep");
    return;
  }
  auto header = read_gang_header(blkptr, bookmark);
  if (!header) {
    result.result = std::unexpected(std::move(header).error());
    return;
  }
  for (const format::Blkptr& child : header->child) {
    if (child.is_hole()) {
      continue;
    }
    ScrubResult part;
    scrub_flat(std::span(&child, 1), std::span(&bookmark, 1), std::span(&part, 1), may_repair);
    if (part.result && child.is_gang()) {
      scrub_gang(child, bookmark, part, may_repair, depth + 1);
    }
    result.examined += part.examined;
    result.repaired += part.repaired;
    result.errors += part.errors;
    result.copies_lost += part.copies_lost;
    if (!part.result) {
      result.result = std::move(part.result);
    }
  }
}

}  // namespace zuse::pool
