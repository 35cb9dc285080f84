// The pipeline: block pointers to bytes and back. It gives checksums, compression and allocation
// their meaning over the vdev tree, which knows none of them.
//
//     read:  cache -> one batch for all cold blocks -> verify, decompress on all cores
//                       `-> what failed: other copies, reconstruction, repair
//     write: zero? compress, checksum, allocate on all cores -> one batch for each 2 MiB or so
//
// source: format page 02.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "fs/format/gang.h"
#include "fs/pool/allocator.h"
#include "fs/pool/block_store.h"
#include "fs/pool/cache.h"
#include "fs/pool/error_log.h"
#include "vdev/base/sync.h"
#include "vdev/tree.h"

namespace zuse::pool {

// Features of the pool that decide how blocks are written.
struct PipelineFeatures {
  bool hole_birth = false;     // holes remember when they were punched
  bool embedded_data = false;  // tiny blocks may live in their pointer
};

// What looking at every copy of a block found.
struct ScrubResult {
  Result<void> result;            // no copy was good: io, gone, checksum; corrupt, unsupported
  std::uint64_t examined = 0;     // bytes on disk, all copies and parity
  std::uint64_t repaired = 0;     // bytes
  std::uint64_t errors = 0;       // copies or columns that were wrong
  std::uint64_t copies_lost = 0;  // DVAs that stay unreadable although another copy is good
};

// Thread-safe; see BlockStore for who may write and free.
class IoPipeline final : public BlockStore {
 public:
  // All of them outlive the pipeline. `read_only`: damage is not repaired, nothing is written.
  IoPipeline(vdev::VdevTree& tree, Allocator& allocator, Cache& cache, CpuPool& cpu,
             bool read_only);
  ~IoPipeline() override;

  Result<SharedBuffer> read(const format::Blkptr& blkptr, const Bookmark& bookmark,
                            ReadOptions options = {}) override;
  void read_many(std::span<const format::Blkptr> blkptrs, std::span<const Bookmark> bookmarks,
                 std::span<Result<SharedBuffer>> results, ReadOptions options = {}) override;
  SharedBuffer cached(const format::Blkptr& blkptr) override;
  void write(std::uint64_t txg, std::span<BlockWriteJob> jobs) override;
  void free(std::uint64_t txg, const format::Blkptr& blkptr) override;
  Result<format::Blkptr> allocate_log_block(std::uint64_t txg, std::uint32_t size) override;
  Result<void> claim(std::uint64_t txg, const format::Blkptr& blkptr) override;
  Result<void> write_log_block(const format::Blkptr& blkptr, std::span<const std::byte> data,
                               const Bookmark& bookmark) override;
  Result<void> flush() override;
  std::uint64_t dsize(const format::Blkptr& blkptr) const override;
  CpuPool& cpu() override { return cpu_; }

  void set_features(PipelineFeatures features);
  PipelineFeatures features() const;

  // Reads and compares every copy and every parity column of each block and repairs what is wrong;
  // what is lost goes on the error log's scrub list. Without `repair` it only looks.
  // The cache is neither asked nor filled. shape: results.size() == blkptrs.size().
  void scrub(std::span<const format::Blkptr> blkptrs, std::span<const Bookmark> bookmarks,
             std::span<ScrubResult> results, bool repair = true);
  // Calls visit(dva) for every range that a pointer occupies, asize being what is allocated there:
  // for gang blocks their headers and all below. errors: those of reading a gang header.
  Result<void> for_each_extent(const format::Blkptr& blkptr, const Bookmark& bookmark,
                               const std::function<void(const format::Dva&)>& visit);

  // The checks of format page 02 section 1.7 against the vdevs of this pool.
  Result<void> check_pointer(const format::Blkptr& blkptr) const;
  ErrorLog& error_log() noexcept { return error_log_; }
  vdev::VdevTree& tree() noexcept { return tree_; }
  Allocator& allocator() noexcept { return allocator_; }
  Cache& cache() noexcept { return cache_; }
  bool read_only() const noexcept { return read_only_; }

 private:
  struct Pending;   // a read in flight that others may wait for
  struct ColdRead;  // one block of read_many that needs I/O
  struct Prepared;  // one block of write, ready for the devices

  // Reading (io_read.cpp).
  Result<SharedBuffer> without_io(const format::Blkptr& blkptr, ReadOptions options, bool& done);
  void read_cold(std::span<ColdRead* const> reads);
  Result<void> read_raw(const format::Blkptr& blkptr, std::span<std::byte> into,
                        const Bookmark& bookmark, unsigned depth);
  Result<void> read_copies(const format::Blkptr& blkptr, std::span<std::byte> into,
                           const vdev::Verifier& verify, const Bookmark& bookmark);
  Result<format::GangHeader> read_gang_header(const format::Blkptr& blkptr,
                                              const Bookmark& bookmark);
  Result<void> read_gang(const format::Blkptr& blkptr, std::span<std::byte> into,
                         const Bookmark& bookmark, unsigned depth);
  Result<void> visit_extents(const format::Blkptr& blkptr, const Bookmark& bookmark,
                             const std::function<void(const format::Dva&)>& visit, unsigned depth);
  Result<SharedBuffer> unpack(const format::Blkptr& blkptr, Buffer raw) const;
  unsigned best_copy(const format::Blkptr& blkptr) const;
  // Writes good bytes over the copies in `bad` (bit d: DVA d). Those that took them.
  unsigned repair(const format::Blkptr& blkptr, std::span<const std::byte> good, unsigned bad,
                  const Bookmark& bookmark);

  // Scrubbing (io_scrub.cpp).
  void scrub_gang(const format::Blkptr& blkptr, const Bookmark& bookmark, ScrubResult& result,
                  bool repair, unsigned depth);
  void scrub_flat(std::span<const format::Blkptr> blkptrs, std::span<const Bookmark> bookmarks,
                  std::span<ScrubResult> results, bool repair);

  // Writing (io_write.cpp).
  void write_group(std::uint64_t txg, std::span<BlockWriteJob> jobs);
  Result<void> prepare(std::uint64_t txg, BlockWriteJob& job, Prepared& prepared) const;
  Result<void> compress(const BlockWriteJob& job, Prepared& prepared) const;

  vdev::VdevTree& tree_;
  Allocator& allocator_;
  Cache& cache_;
  CpuPool& cpu_;
  const bool read_only_;
  std::vector<std::uint64_t> vdev_sizes_;  // asize by id; 0: not usable
  std::uint64_t smallest_sector_ = 512;    // bytes, over the vdevs that blocks are allocated from
  std::uint64_t sector_gcd_ = 512;
  std::atomic<bool> hole_birth_{false}, embedded_data_{false};
  ErrorLog error_log_;

  Mutex pending_mutex_{LockRank::leaf};
  std::unordered_map<std::uint64_t, std::vector<std::shared_ptr<Pending>>> pending_
      ZUSE_GUARDED_BY(pending_mutex_);
};

}  // namespace zuse::pool
