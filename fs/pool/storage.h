// Storage: everything below the MOS in one piece - vdev tree, allocator, cache, cores, pipeline -
// and the one moment in which a transaction group becomes the pool: the commit.
#pragma once

#include <cstdint>
#include <memory>

#include "fs/format/uberblock.h"
#include "fs/pool/allocator.h"
#include "fs/pool/cache.h"
#include "fs/pool/config.h"
#include "fs/pool/error_log.h"
#include "fs/pool/io_pipeline.h"
#include "vdev/base/cpu_pool.h"
#include "vdev/tree.h"

namespace zuse::pool {

struct StorageOptions {
  bool read_only = true;
  std::uint64_t arc_max = std::uint64_t{256} << 20;  // bytes of the cache
  unsigned cpu_threads = 0;                          // 0: one a core
  bool deflate = true;                               // pools of version >= 3
};

// Thread-safe, as its parts are. commit() belongs to the sync thread.
class Storage {
 public:
  // Opens the tree and what stands on it. `root` says each top-level vdev's metaslab shift, ashift
  // and asize. No metaslab is loaded yet. errors: those of VdevTree::open and Allocator::create.
  static Result<std::unique_ptr<Storage>> open(const vdev::VdevConfig& root,
                                               const vdev::VdevTree::LeafOpener& open_leaf,
                                               const StorageOptions& options);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  vdev::VdevTree& tree() noexcept { return *tree_; }
  const vdev::VdevTree& tree() const noexcept { return *tree_; }
  Allocator& allocator() noexcept { return *allocator_; }
  const Allocator& allocator() const noexcept { return *allocator_; }
  Cache& cache() noexcept { return *cache_; }
  CpuPool& cpu() noexcept { return *cpu_; }
  IoPipeline& pipeline() noexcept { return *pipeline_; }
  ErrorLog& errors() noexcept { return pipeline_->error_log(); }
  bool read_only() const noexcept { return options_.read_only; }

  // Makes `uberblock` the pool, all blocks of its group being written: flush; with `labels`, the
  // labels 0 and 2 of every leaf, flush; the uberblock, flush; the labels 1 and 3, flush. A power
  // cut anywhere leaves the pool at this group or at the one before.
  // errors: io (a top-level vdev on which no label could be written, or no uberblock anywhere).
  // source: format page 01 section 8.
  Result<void> commit(const format::Uberblock& uberblock, const PoolConfig& config, bool labels);

 private:
  struct LeafWrites;

  Storage(std::unique_ptr<vdev::VdevTree> tree, std::unique_ptr<Allocator> allocator,
          const StorageOptions& options);
  Result<void> write_labels(const PoolConfig& config, unsigned first);
  Result<void> write_uberblocks(const format::Uberblock& uberblock, bool everywhere);

  const StorageOptions options_;
  std::unique_ptr<vdev::VdevTree> tree_;
  std::unique_ptr<Allocator> allocator_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<CpuPool> cpu_;
  std::unique_ptr<IoPipeline> pipeline_;
};

}  // namespace zuse::pool
