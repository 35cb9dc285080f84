// What the object layer needs of a pool: blocks in, block pointers out. The pool implements it
// (fs/pool/io_pipeline.h); tests implement it over memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "fs/format/blkptr.h"
#include "fs/format/types.h"
#include "vdev/base/buffer.h"
#include "vdev/base/cpu_pool.h"
#include "vdev/base/result.h"

namespace zuse::pool {

// Where a block stands in the pool: for messages, fault rules, error logs, scan positions.
struct Bookmark {
  std::uint64_t objset = 0;  // dataset object number; 0 is the MOS
  std::uint64_t object = 0;
  std::int64_t level = 0;  // -1: the objset block
  std::uint64_t block = 0;
  auto operator<=>(const Bookmark&) const = default;
};

// How a block is to be stored. The caller has resolved inherited properties.
struct WriteProperties {
  format::ObjectType type = format::ObjectType::none;
  std::uint8_t level = 0;
  format::Checksum checksum = format::Checksum::fletcher4;
  format::CompressionChoice compression;
  unsigned copies = 1;  // DVAs, 1..3
  bool data = false;    // user data: counts against the full pool; metadata may use the slop
};

struct BlockWriteJob {
  std::span<const std::byte> data;  // lsize bytes: a multiple of 512, <= 16 MiB
  WriteProperties properties;
  Bookmark bookmark;
  // In: what the pointer was before (a block of this very txg with the same psize is rewritten in
  // place; a hole's birth decides the form of a new hole). Out: the new pointer, fill left to the
  // caller (0) - all-zero data under any compression but off gives a hole.
  format::Blkptr blkptr;
  // The buffer that `data` lies in, if the cache may keep it as this block's contents.
  SharedBuffer cacheable;
  Result<void> result;  // errors: no_space, io
};

struct ReadOptions {
  bool cache = true;            // keep the block in the cache
  bool prefetch = false;        // nobody waits: errors are dropped, results may be null
  std::uint32_t hole_size = 0;  // bytes of zeros that a hole gives; 0: what its pointer says
};

// Thread-safe.
class BlockStore {
 public:
  virtual ~BlockStore() = default;

  // The block's lsize bytes, from the cache or the devices: verified, decompressed, in the byte
  // order of blkptr.order. A hole gives zeros of `hole_size` bytes.
  // errors: io, gone, checksum (every copy and reconstruction failed), corrupt (a pointer that
  // makes no sense, or contents that do not decompress), unsupported (an algorithm we lack; named).
  virtual Result<SharedBuffer> read(const format::Blkptr& blkptr, const Bookmark& bookmark,
                                    ReadOptions options = {}) = 0;
  // The same for several blocks, read side by side. shape: results.size() == blkptrs.size().
  virtual void read_many(std::span<const format::Blkptr> blkptrs,
                         std::span<const Bookmark> bookmarks,
                         std::span<Result<SharedBuffer>> results, ReadOptions options = {}) = 0;
  // The block if it is in the cache; never does I/O.
  virtual SharedBuffer cached(const format::Blkptr& blkptr) = 0;

  // Compresses, checksums, allocates and writes, on all cores. Returns when all are on the devices
  // (not flushed). Syncing context of `txg` only.
  virtual void write(std::uint64_t txg, std::span<BlockWriteJob> jobs) = 0;
  // Gives the space of a block back once `txg` is on disk (and two more have passed). Gang blocks
  // free their children. Holes and embedded pointers are ignored. Thread-safe, syncing context.
  virtual void free(std::uint64_t txg, const format::Blkptr& blkptr) = 0;

  // A place for one block of the intent log, in the open `txg`: a pointer with one DVA and `size`
  // bytes, uncompressed; the checksum fields are the log's to fill. Its free() waits for the group.
  // Such a block is read like any other, once it is sealed. errors: no_space, unsupported (a store
  // that has no log).
  virtual Result<format::Blkptr> allocate_log_block(std::uint64_t /*txg*/, std::uint32_t /*size*/) {
    return fail(Errc::unsupported, "this store keeps no intent log");
  }
  // Takes the space of a log block that was written before a crash, so that nothing else lies
  // there. Fine if it is taken already. errors: invalid.
  virtual Result<void> claim(std::uint64_t /*txg*/, const format::Blkptr& /*blkptr*/) {
    return fail(Errc::unsupported, "this store keeps no intent log");
  }
  // Writes the sealed bytes of a log block. Not flushed. errors: io.
  virtual Result<void> write_log_block(const format::Blkptr& /*blkptr*/,
                                       std::span<const std::byte> /*data*/,
                                       const Bookmark& /*bookmark*/) {
    return fail(Errc::unsupported, "this store keeps no intent log");
  }
  // All that was written is on stable storage. errors: io.
  virtual Result<void> flush() { return {}; }

  // Sum over the DVAs of asize, deflated: the unit of all "used" numbers (format page 04
  // section 4.2).
  virtual std::uint64_t dsize(const format::Blkptr& blkptr) const = 0;
  virtual CpuPool& cpu() = 0;
};

}  // namespace zuse::pool
