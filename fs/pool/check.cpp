// The checker's books: one set of claimed ranges a top-level vdev. At the end, allocated minus
// claimed is what leaked.
#include "fs/pool/check.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "fs/format/gang.h"
#include "fs/pool/io_block.h"
#include "fs/pool/traverse.h"

namespace zuse::pool {
namespace {

constexpr std::size_t kBatchBlocks = 256;
constexpr std::uint64_t kBatchBytes = 8 * kMiB;
constexpr std::uint64_t kLogBlocksMax = std::uint64_t{1} << 20;  // a chain may not go in circles

class Check {
 public:
  Check(IoPipeline& pipeline, const std::vector<RangeSet>& maps, const CheckOptions& options,
        const std::function<bool(std::uint64_t)>& progress)
      : pipeline_(pipeline),
        maps_(maps),
        options_(options),
        progress_(progress),
        claimed_(pipeline.tree().top_count()) {
    for (const RangeSet& map : maps) {
      report_.allocated += map.total();
    }
  }

  Result<CheckReport> run(const std::vector<CheckRoot>& roots,
                          const std::vector<CheckExtra>& extras) {
    for (const CheckRoot& root : roots) {
      ZUSE_TRY_VOID(walk(root));
    }
    // Lists of waiting blocks keep no checksums: their space is claimed, their contents are
    // nobody's.
    for (const CheckExtra& extra : extras) {
      ZUSE_TRY_VOID(claim(extra.blkptr, extra.bookmark));
      count_block(extra.blkptr);
    }
    ZUSE_TRY_VOID(look());
    if (options_.space) {
      find_leaks();
    }
    for (const RangeSet& ranges : claimed_) {
      report_.claimed += ranges.total();
    }
    return std::move(report_);
  }

 private:
  void find(CheckProblem problem, const Bookmark& at, const format::Dva& range, std::string what) {
    ++report_.counts[problem];
    if (report_.findings.size() < kCheckFindingsMax) {
      report_.findings.push_back({problem, at, range, std::move(what)});
    }
  }

  Result<void> walk(const CheckRoot& root) {
    TraverseOptions options;
    options.min_birth = root.root.min_birth;
    std::optional<format::ZilHeader> log;
    TraverseCalls calls;
    calls.visit = [&](const format::Blkptr& blkptr, const Bookmark& at, BlockKind) {
      return block(blkptr, at);
    };
    calls.dnode = [&](std::uint64_t, const format::DnodePhys&) -> Result<void> {
      ++report_.objects;
      return {};
    };
    calls.objset = [&](const format::ObjsetPhys& objset) -> Result<void> {
      log = objset.zil;
      return {};
    };
    calls.error = [&](const Bookmark& at, const Error& error) {
      // A block that cannot be read is found once more when all its copies are looked at.
      if (error.code() == Errc::corrupt || !options_.contents) {
        find(error.code() == Errc::corrupt ? CheckProblem::bad_pointer : CheckProblem::unreadable,
             at, {}, to_string(at) + ": " + error.what());
      }
    };
    ZUSE_TRY_VOID(traverse(pipeline_, root.root.objset, root.root.root, options, calls));
    if (log && !root.snapshot && options_.intent_logs) {
      ZUSE_TRY_VOID(walk_log(root.root.objset, *log));
    }
    return {};
  }

  // The chain of an intent log: every block that verifies, and the one after the last, which is
  // allocated but not written. source: format page 09 section 4.
  Result<void> walk_log(std::uint64_t objset, const format::ZilHeader& header) {
    constexpr std::size_t kNextOffset = 8, kChainSize = 184, kWriteSize = 192, kBpOffset = 64;
    constexpr std::uint64_t kWriteRecord = 9;
    format::Blkptr at = header.log;
    for (std::uint64_t count = 0; !at.is_hole() && count < kLogBlocksMax; ++count) {
      const std::uint64_t sequence = at.checksum[3];
      if (header.claim_txg != 0 && sequence > header.claim_block_seq) {
        return {};
      }
      const Bookmark bookmark{objset, 0, -2, sequence};
      ZUSE_TRY_VOID(claim(at, bookmark));
      count_block(at);
      const auto contents = pipeline_.read(at, bookmark, {.cache = false, .prefetch = true});
      if (!contents || *contents == nullptr || (*contents)->size() < kChainSize) {
        return {};
      }
      const std::span<const std::byte> bytes = (*contents)->span();
      const bool slim = at.checksum_type == format::Checksum::zilog2;
      const std::size_t chain = slim ? 0 : bytes.size() - kChainSize;
      const std::uint64_t used = load_at<std::uint64_t>(bytes, chain + 136, at.order);
      const std::size_t first = slim ? kChainSize : 0;
      const std::size_t limit = slim ? bytes.size() : chain;
      if (used < first || used > limit) {
        return {};
      }
      for (std::size_t record = first; record < used;) {
        if (used - record < 32) {
          return {};
        }
        const std::uint64_t type = load_at<std::uint64_t>(bytes, record, at.order) << 1U >> 1U;
        const std::uint64_t size = load_at<std::uint64_t>(bytes, record + 8, at.order);
        if (size < 32 || size > used - record || size % 8 != 0) {
          return {};
        }
        if (type == kWriteRecord && size == kWriteSize) {
          ZUSE_TRY(const auto phys, read_at<format::BlkptrPhys>(bytes, record + kBpOffset));
          const format::Blkptr data = format::decode(phys, at.order);
          // Older blocks are part of the tree; those of later groups hang from the log only.
          if (!data.is_hole() && data.logical_birth >= header.claim_txg && header.claim_txg != 0) {
            ZUSE_TRY_VOID(claim(data, bookmark));
            count_block(data);
          }
        }
        record += size;
      }
      ZUSE_TRY(const auto phys, read_at<format::BlkptrPhys>(bytes, chain + kNextOffset));
      const format::Blkptr next = format::decode(phys, at.order);
      auto expected = at.checksum;
      ++expected[3];
      if (next.is_hole() || next.checksum != expected) {
        return {};
      }
      at = next;
    }
    return {};
  }

  void count_block(const format::Blkptr& blkptr) {
    std::uint64_t asize = 0;
    for (const format::Dva& dva : std::span(blkptr.dva).first(blkptr.copies())) {
      asize += dva.asize;
    }
    for (CheckTotals* const totals :
         {&report_.all, blkptr.level > 0 ? &report_.indirect : &report_.by_type[blkptr.type]}) {
      ++totals->blocks;
      totals->lsize += blkptr.lsize;
      totals->psize += blkptr.embedded ? 0 : blkptr.psize;
      totals->asize += blkptr.embedded ? 0 : asize;
    }
  }

  Result<void> block(const format::Blkptr& blkptr, const Bookmark& at) {
    if (blkptr.is_hole()) {
      return {};
    }
    if (auto checked = pipeline_.check_pointer(blkptr); !checked) {
      find(CheckProblem::bad_pointer, at, {}, to_string(at) + ": " + checked.error().what());
      return {};
    }
    count_block(blkptr);
    if (blkptr.embedded) {
      return {};
    }
    ZUSE_TRY_VOID(claim(blkptr, at));
    if (options_.contents) {
      blkptrs_.push_back(blkptr);
      bookmarks_.push_back(at);
      bytes_ += blkptr.psize * blkptr.copies();
      if (blkptrs_.size() >= kBatchBlocks || bytes_ >= kBatchBytes) {
        return look();
      }
    }
    return {};
  }

  // Reads every copy of the blocks gathered.
  Result<void> look() {
    std::vector<ScrubResult> results(blkptrs_.size());
    pipeline_.scrub(blkptrs_, bookmarks_, results, false);
    for (std::size_t i = 0; i < results.size(); ++i) {
      report_.examined += results[i].examined;
      const format::Dva& dva = blkptrs_[i].dva[0];
      if (!results[i].result && results[i].result.error().code() == Errc::unsupported) {
        ++report_.unverified;
      } else if (!results[i].result) {
        find(CheckProblem::unreadable, bookmarks_[i], dva,
             to_string(bookmarks_[i]) + ": " + results[i].result.error().what());
      } else if (results[i].errors != 0 || results[i].copies_lost != 0) {
        find(CheckProblem::damaged_copy, bookmarks_[i], dva,
             fmt::format("{}: {} copies or columns are wrong", to_string(bookmarks_[i]),
                         std::max(results[i].errors, results[i].copies_lost)));
      }
    }
    blkptrs_.clear();
    bookmarks_.clear();
    bytes_ = 0;
    if (progress_ && !progress_(report_.examined)) {
      return fail(Errc::stopped, "the check was ended");
    }
    return {};
  }

  Result<void> claim(const format::Blkptr& blkptr, const Bookmark& at) {
    if (!options_.space) {
      return {};
    }
    const auto take = [&](const format::Dva& dva) { claim_range(dva, at, blkptr.dedup); };
    if (auto seen = pipeline_.for_each_extent(blkptr, at, take); !seen) {
      find(CheckProblem::bad_pointer, at, {}, to_string(at) + ": " + seen.error().what());
    }
    return {};
  }

  // `shared`: a deduplicated block, which many pointers may name - whole, never in part.
  void claim_range(const format::Dva& dva, const Bookmark& at, bool shared) {
    const Range range{dva.offset, dva.asize};
    const auto name = [&] {
      return fmt::format("{}: vdev {} offset {:#x} size {:#x}", to_string(at), dva.vdev, dva.offset,
                         dva.asize);
    };
    if (dva.vdev >= maps_.size() || !maps_[dva.vdev].contains(range)) {
      find(CheckProblem::not_allocated, at, dva, name() + " is free in the space maps");
    }
    const bool again = shared && claimed_[dva.vdev].contains(range);
    if (!again && claimed_[dva.vdev].add_missing(range) != range.size) {
      find(CheckProblem::claimed_twice, at, dva, name() + " belongs to another block, too");
    }
  }

  void find_leaks() {
    for (std::uint32_t top = 0; top < maps_.size() && top < claimed_.size(); ++top) {
      for (const auto& [start, end] : maps_[top].ranges()) {
        claimed_[top].for_each_gap({start, end - start}, [&](const Range& gap) {
          find(CheckProblem::leaked, {}, {top, gap.size, gap.offset, false},
               fmt::format("vdev {} offset {:#x} size {:#x} is allocated, but nothing refers to it",
                           top, gap.offset, gap.size));
        });
      }
    }
  }

  IoPipeline& pipeline_;
  const std::vector<RangeSet>& maps_;
  const CheckOptions& options_;
  const std::function<bool(std::uint64_t)>& progress_;
  std::vector<RangeSet> claimed_;
  CheckReport report_;
  std::vector<format::Blkptr> blkptrs_;
  std::vector<Bookmark> bookmarks_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

const char* to_string(CheckProblem problem) noexcept {
  switch (problem) {
    case CheckProblem::unreadable: return "unreadable";
    case CheckProblem::damaged_copy: return "damaged_copy";
    case CheckProblem::bad_pointer: return "bad_pointer";
    case CheckProblem::not_allocated: return "not_allocated";
    case CheckProblem::claimed_twice: return "claimed_twice";
    case CheckProblem::leaked: return "leaked";
  }
  return "unknown";
}

Result<CheckReport> check_pool(IoPipeline& pipeline, const std::vector<CheckRoot>& roots,
                               const std::vector<CheckExtra>& extras,
                               const std::vector<RangeSet>& maps, const CheckOptions& options,
                               const std::function<bool(std::uint64_t)>& progress) {
  return Check(pipeline, maps, options, progress).run(roots, extras);
}

}  // namespace zuse::pool
