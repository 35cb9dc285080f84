// MemoryStore: a BlockStore over memory that distrusts its user. Every block has its own address,
// never given out twice; a block freed twice, or freed without being there, is a problem to report;
// a block read after its space may have been reused fails its checksum, as it would on disk.
//
// "Compression" cuts trailing zeros, so that psize varies as it does on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fs/pool/block_store.h"

namespace zuse::test {

struct MemoryStoreOptions {
  bool hole_birth = true;
  bool embedded = false;  // tiny blocks go into their pointer
  unsigned cpu_threads = 2;
};

// Thread-safe.
class MemoryStore final : public pool::BlockStore {
 public:
  using Options = MemoryStoreOptions;
  explicit MemoryStore(Options options = {});

  Result<SharedBuffer> read(const format::Blkptr& blkptr, const pool::Bookmark& bookmark,
                            pool::ReadOptions options = {}) override;
  void read_many(std::span<const format::Blkptr> blkptrs, std::span<const pool::Bookmark> bookmarks,
                 std::span<Result<SharedBuffer>> results, pool::ReadOptions options = {}) override;
  SharedBuffer cached(const format::Blkptr& blkptr) override;
  void write(std::uint64_t txg, std::span<pool::BlockWriteJob> jobs) override;
  void free(std::uint64_t txg, const format::Blkptr& blkptr) override;
  std::uint64_t dsize(const format::Blkptr& blkptr) const override;
  CpuPool& cpu() override { return cpu_; }

  // Space freed in groups up to `txg` may be reused from now on: its contents are gone.
  void release(std::uint64_t txg);
  void drop_cache();
  // Addresses (one a copy) of all blocks that are not freed.
  std::set<std::uint64_t> live() const;
  // What its user did wrong.
  std::vector<std::string> problems() const;
  // Blocks of level 0 that came from the "disk": neither cached nor holes.
  std::uint64_t data_reads() const;
  std::uint64_t prefetches() const;
  // Asked before every read from the "disk"; an error that it gives is the answer.
  void set_read_hook(std::function<Result<void>(const pool::Bookmark&)> hook);
  // The same for writes.
  void set_write_hook(std::function<Result<void>(const pool::Bookmark&)> hook);

 private:
  struct Block {
    std::shared_ptr<const std::vector<std::byte>> bytes;  // psize of them
    std::uint64_t asize = 0;
    std::uint64_t freed_txg = 0;  // 0: live
  };

  Result<SharedBuffer> read_block(const format::Blkptr& blkptr, const pool::Bookmark& bookmark,
                                  pool::ReadOptions options);
  void write_block(std::uint64_t txg, pool::BlockWriteJob& job);

  const Options options_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;
  std::map<std::uint64_t, std::pair<std::uint64_t, SharedBuffer>>
      cache_;  // address: checksum, data
  std::vector<std::string> problems_;
  std::uint64_t next_ = std::uint64_t{1} << 20;
  std::uint64_t data_reads_ = 0;
  std::uint64_t prefetches_ = 0;
  std::function<Result<void>(const pool::Bookmark&)> read_hook_;
  std::function<Result<void>(const pool::Bookmark&)> write_hook_;
  CpuPool cpu_;
};

}  // namespace zuse::test
