// Top: a top-level vdev - a mirror (a single leaf is a mirror of one) or a raidz group. Reads and
// writes are two-step jobs, so that the tree can put the I/O of many blocks into one batch: begin()
// says what to read or write, the tree does it, finish() verifies, rebuilds and repairs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "raid/kernels.h"
#include "vdev/base/buffer.h"
#include "vdev/leaf.h"
#include "vdev/raidz_map.h"
#include "vdev/tree.h"

namespace zuse::vdev {

// A place in a mirror or raidz group: one leaf, or several while one replaces another.
struct Child {
  VdevType type = VdevType::file;
  std::uint64_t guid = 0;
  std::vector<Leaf*> leaves;
  bool usable() const noexcept;
};

// One column or copy of a block, on its way.
struct ColumnIo {
  enum class State : std::uint8_t {
    unread,
    good,    // read; whether the bytes are right is another matter
    failed,  // the device answered with an error
    absent,  // no leaf can be used
    stale,   // the leaf missed this transaction group
  };
  State state = State::unread;
  bool wrong = false;        // bytes turned out to differ from what they must be
  bool known_stale = false;  // the leaf missed the group, though its bytes may have been looked at
  Leaf* leaf = nullptr;
  unsigned child = 0;        // of the top-level vdev
  std::uint64_t offset = 0;  // bytes in the leaf's allocatable area
  std::span<std::byte> data;
  IoRequest request;
};

struct ReadJob {
  BlockRead* block = nullptr;
  std::span<std::byte> data;  // whole sectors: the caller's buffer, or `padded`
  Buffer padded, parity;
  RaidzMap map;
  std::vector<ColumnIo> columns;
  std::vector<ColumnIo*> started;  // what the tree has to read
  std::vector<Buffer> copies;      // scrub of a mirror: each leaf's

  // As new, but that the vectors keep their memory.
  void reset();
};

struct WriteJob {
  BlockWrite* block = nullptr;
  Buffer padded, parity;
  RaidzMap map;
  std::vector<ColumnIo> columns;  // one for each leaf that is written
  std::vector<ColumnIo*> started;

  void reset();
};

// What a vdev needs of its tree.
struct TreeContext {
  std::atomic<const raid::Kernels*> kernels = nullptr;
  bool read_only = false;
  // A leaf has failed too often: (leaf, true: I/O errors, false: checksum errors).
  std::function<void(Leaf&, bool)> distrust;
  // A leaf's device says that it is gone.
  std::function<void(Leaf&)> lost;
};

// Thread-safe: jobs belong to their callers, all else is atomic or constant.
class Top {
 public:
  Top(const TreeContext& context, TopGeometry geometry, std::vector<Child> children)
      : context_(context), geometry_(geometry), children_(std::move(children)) {}
  virtual ~Top() = default;
  Top(const Top&) = delete;
  Top& operator=(const Top&) = delete;

  const TopGeometry& geometry() const noexcept { return geometry_; }
  const std::vector<Child>& children() const noexcept { return children_; }
  // Failures that data survives.
  virtual unsigned redundancy() const noexcept = 0;
  // Children that cannot be used now; `without`: counted as such.
  unsigned unusable(const Leaf* without = nullptr) const noexcept;

  virtual void begin(ReadJob& job) = 0;
  virtual void finish(ReadJob& job) = 0;
  virtual void begin(WriteJob& job) = 0;
  void finish(WriteJob& job);

  // Starts, waits for and settles columns by themselves.
  void run(std::span<ColumnIo*> columns, const IoTag& tag, IoPurpose purpose, IoOp op,
           std::uint64_t txg);
  // Makes a column's request and counts it; the caller adds it to a batch.
  void prepare(ColumnIo& column, const IoTag& tag, IoPurpose purpose, IoOp op) const;
  // Reads the outcome of a column's request into its state and the leaf's counters. `txg`: what a
  // write belongs to.
  void settle(ColumnIo& column, std::uint64_t txg) const;

  std::atomic<unsigned> in_flight{0};

 protected:
  // The leaf of a child to read from, and whether it has missed `txg`; null: none can be used.
  static Leaf* pick(const Child& child, std::uint64_t txg, bool& stale);
  bool verified(const ReadJob& job) const;
  // Whole sectors to read into: the caller's, where they are whole.
  void give_sectors(ReadJob& job) const;
  std::span<const std::byte> whole_sectors(WriteJob& job) const;
  void add_writes(WriteJob& job, unsigned child, std::uint64_t offset,
                  std::span<const std::byte> data) const;
  void count_wrong(ColumnIo& column, BlockRead& block) const;
  // Scrub: leaves that cannot be asked learn that the scan has passed them by.
  void note_absent(const BlockRead& block) const;
  // Writes good bytes over columns. Counts what was repaired.
  void repair(std::span<ColumnIo*> columns, BlockRead& block);

  const TreeContext& context_;
  const TopGeometry geometry_;
  const std::vector<Child> children_;
};

std::unique_ptr<Top> make_mirror(const TreeContext& context, TopGeometry geometry,
                                 std::vector<Child> children);
std::unique_ptr<Top> make_raidz(const TreeContext& context, TopGeometry geometry,
                                std::vector<Child> children);

}  // namespace zuse::vdev
