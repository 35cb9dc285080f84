// The vdev tree of one pool: leaves under mirrors and raidz groups under top-level vdevs. It turns
// (top-level vdev, offset, size) into I/O on several devices, repairs what comes back wrong and
// counts who lied. It knows neither block pointers nor checksums: the reader hands down a verifier.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vdev/base/result.h"
#include "vdev/block_device.h"
#include "vdev/dtl.h"

namespace zuse::vdev {

// States, with the values and meaning of format page 03 section 9.
enum class VdevState : std::uint8_t {
  unknown = 0,
  closed = 1,
  offline = 2,
  removed = 3,
  cant_open = 4,
  faulted = 5,
  degraded = 6,
  healthy = 7
};
// Why a vdev is not healthy (numbers of format page 03 section 9).
enum class VdevAux : std::uint8_t {
  none = 0,
  open_failed = 1,
  corrupt_data = 2,
  no_replicas = 3,
  bad_guid_sum = 4,
  too_small = 5,
  bad_label = 6,
  err_exceeded = 11,
  external = 14
};
// "ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED": the words of zpool status.
const char* to_string(VdevState state) noexcept;

enum class VdevType : std::uint8_t {
  root,
  file,
  disk,
  mirror,
  raidz,
  replacing,
  spare,
  hole,
  missing
};

// The shape of a vdev and of what is below it, decoded from a label or MOS configuration.
struct VdevConfig {
  VdevType type = VdevType::missing;
  std::uint64_t id = 0;
  std::uint64_t guid = 0;
  std::uint64_t create_txg = 0;
  std::vector<VdevConfig> children;
  unsigned parity = 0;  // raidz: 1..3
  // Top-level only.
  std::uint64_t metaslab_array = 0;
  unsigned metaslab_shift = 0;
  unsigned ashift = 0;
  std::uint64_t asize = 0;
  bool is_log = false;
  // Leaf only.
  std::string path;
  std::uint64_t dtl_object = 0;
  bool offline = false, faulted = false, degraded = false, removed = false, not_present = false;
  std::uint64_t resilver_txg = 0;
};

struct VdevStats {
  std::uint64_t read_errors = 0, write_errors = 0, checksum_errors = 0;
  std::uint64_t reads = 0, writes = 0, bytes_read = 0, bytes_written = 0, bytes_repaired = 0;
};

// A view of the tree for `status`: what it is, how it fares.
struct VdevStatus {
  VdevType type = VdevType::missing;
  std::uint64_t guid = 0;
  std::string name;  // "raidz2-0", "mirror-1", the leaf's path
  VdevState state = VdevState::unknown;
  VdevAux aux = VdevAux::none;
  VdevStats stats;
  unsigned ashift = 0;
  std::uint64_t asize = 0;
  std::vector<VdevStatus> children;
};

// Decides whether the bytes read are the right ones. Called on the reading thread, perhaps many
// times (once a candidate during reconstruction). Must be pure.
using Verifier = std::function<bool(std::span<const std::byte>)>;

enum class ReadMode : std::uint8_t {
  normal,  // stop at the first bytes that verify
  scrub,   // read every copy and every parity column, compare all, repair all
};

// One block to read from one top-level vdev.
struct BlockRead {
  std::uint32_t top = 0;        // index of the top-level vdev
  std::uint64_t offset = 0;     // bytes in its allocatable area, a multiple of 1 << ashift
  std::span<std::byte> data;    // psize bytes to fill; the sector padding is the tree's affair
  Verifier verify;              // empty: anything that could be read is right
  std::uint64_t birth_txg = 0;  // physical birth, for dirty time logs
  ReadMode mode = ReadMode::normal;
  bool repair = true;  // write back what was wrong (never on a read-only tree)
  IoTag tag;
  // Results.
  Result<void> result;  // errors: io, gone, checksum
  std::uint64_t bytes_repaired = 0;
  std::uint64_t errors_seen = 0;  // columns or copies that were wrong or missing unexpectedly
};

// One block to write to one top-level vdev.
struct BlockWrite {
  std::uint32_t top = 0;
  std::uint64_t offset = 0;
  std::span<const std::byte> data;  // psize bytes; zero-padded to a sector by the tree
  std::uint64_t txg = 0;            // leaves that miss the write get it in their dirty time log
  IoTag tag;
  Result<void> result;  // io/gone when more children failed than redundancy covers
};

// The size on disk of `psize` bytes on a vdev: what an allocation must cover.
// source: format page 03 section 2 (psize_to_asize).
struct TopGeometry {
  unsigned ashift = 9;
  unsigned children = 1;
  unsigned parity = 0;  // 0: mirror or single leaf
  std::uint64_t asize = 0;
  std::uint64_t psize_to_asize(std::uint64_t psize) const noexcept;
  // asize >> 9 times this >> ... : 512 for mirrors (format page 04 section 4.2).
  std::uint64_t deflate_ratio() const noexcept;
};

// Thread-safe. Shape changes (attach, detach) are not part of this class yet.
class VdevTree {
 public:
  // Opens nothing: `open_leaf` is asked for each leaf's device and may answer with an error, which
  // makes that leaf UNAVAIL. Ownership of devices passes to the tree.
  // errors: invalid (a shape that cannot be), gone (a top-level vdev without enough children;
  // named).
  using LeafOpener = std::function<Result<std::unique_ptr<BlockDevice>>(const VdevConfig& leaf)>;
  static Result<std::unique_ptr<VdevTree>> open(VdevConfig root, const LeafOpener& open_leaf,
                                                bool read_only);
  virtual ~VdevTree() = default;

  virtual unsigned top_count() const = 0;
  virtual TopGeometry geometry(unsigned top) const = 0;
  // Data that the whole block pointer's vdev id may name: false for holes and missing vdevs.
  virtual bool usable(unsigned top) const = 0;

  // Reads and writes run side by side; each element gets its own result. The fast path issues all
  // columns of all blocks as one batch; what fails verification is then worked on by itself.
  virtual void read(std::span<BlockRead> blocks) = 0;
  virtual void write(std::span<BlockWrite> blocks) = 0;
  // Flushes the write cache of every leaf written since its last flush. errors: io, if some
  // top-level vdev has fewer flushed leaves than its redundancy allows.
  virtual Result<void> flush() = 0;
  // Requests in flight on a top-level vdev: what copies of a block are chosen by.
  virtual unsigned load(unsigned top) const = 0;

  // Leaves by guid, in tree order: labels are written through these. Absent leaves have no device.
  struct Leaf {
    std::uint64_t guid = 0;
    std::uint32_t top = 0;
    std::string path;
    BlockDevice* device = nullptr;  // null: not open. Includes its fault decorator
    VdevState state = VdevState::unknown;
  };
  virtual std::vector<Leaf> leaves() const = 0;

  // Administration. errors: not_found (no such leaf), busy (would lose the last good copy).
  virtual Result<void> set_leaf_state(std::uint64_t guid, VdevState state, VdevAux aux) = 0;
  // Replaces the device of a leaf that was missing (`online`, `clear` after it came back).
  virtual Result<void> reopen_leaf(std::uint64_t guid, const LeafOpener& open_leaf) = 0;
  // Errors to zero; FAULTED and DEGRADED leaves whose device answers become ONLINE. 0: all leaves.
  virtual Result<void> clear(std::uint64_t guid) = 0;

  // Which parity implementation works: a name that raid::choose() takes, "fastest" at first. It is
  // a matter of this process, and stored nowhere. errors: invalid, with the names there are.
  virtual Result<void> set_raidz_impl(const std::string& name) = 0;
  virtual std::string raidz_impl() const = 0;

  virtual VdevStatus status() const = 0;
  // The current shape with per-leaf flags, to be written to labels and the MOS.
  virtual VdevConfig config() const = 0;
  // Changes whenever config() or a leaf's state did: the pool then writes its labels.
  virtual std::uint64_t config_generation() const = 0;

  // What each leaf has missed. Only leaves with a non-empty log or a changed one since the last
  // call with `only_changed` are listed.
  struct LeafDtl {
    std::uint64_t guid = 0;
    Dtl missing;
  };
  virtual std::vector<LeafDtl> dtls(bool only_changed) = 0;
  virtual void load_dtl(std::uint64_t guid, Dtl missing) = 0;
  // A scrub or resilver that saw every block born before `max_txg` without error on open leaves
  // ended.
  virtual void scan_finished(std::uint64_t max_txg, bool without_errors) = 0;
  // A scan begins. A leaf that is away during any of it keeps its log when the scan ends.
  virtual void scan_started() = 0;
};

}  // namespace zuse::vdev
