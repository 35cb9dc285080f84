// Pool: an imported pool - the object that the daemon owns. It composes the storage below (vdev
// tree, allocator, cache, transaction groups) with the MOS and the datasets, and drives the sync of
// each group.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fs/dataset/dataset.h"
#include "vdev/tree.h"

namespace zuse::dataset {

// What `zpool create` is told: a top-level vdev and its leaves.
struct VdevSpec {
  vdev::VdevType type = vdev::VdevType::file;  // file/disk (one leaf), mirror, raidz
  unsigned parity = 0;
  std::vector<std::string> paths;
};

// Opens the device behind a leaf's path: files and disks in the daemon, memory in tests.
using DeviceFactory = std::function<Result<std::unique_ptr<vdev::BlockDevice>>(
    const std::string& path, bool read_only)>;

// Wraps the device of a leaf, whose guid is known by then: the daemon puts the fault injector here.
using LeafDecorator = std::function<std::unique_ptr<vdev::BlockDevice>(
    std::unique_ptr<vdev::BlockDevice> device, std::uint64_t leaf_guid)>;

struct CreateOptions {
  std::string name;
  std::vector<VdevSpec> vdevs;
  unsigned ashift = 12;
  bool force = false;  // use images that belong to an exported or foreign pool
  std::map<std::string, std::string> pool_properties;  // -o
  std::map<std::string, std::string> properties;       // -O, of the root dataset
  std::string command_line;                            // the first record of the pool's history
  // Puts the first contents of a file system into the root dataset's object set; fs/posix hands it
  // down.
  std::function<Result<void>(object::Objset&, object::Tx&)> format_root;
};

struct ImportOptions {
  std::vector<std::string> directories;  // -d: where to look (or device files themselves)
  std::string pool;                      // name or guid in decimal
  std::string new_name;
  bool read_only = false;
  std::string raidz_impl = "fastest";  // the parity implementation, for as long as it is imported
  LeafDecorator decorate;              // may be empty
  bool force = false;                  // a foreign host's, or one last active elsewhere
  std::uint64_t arc_max = std::uint64_t{256} << 20;
  std::uint64_t dirty_max = std::uint64_t{128} << 20;
};

// One pool that could be imported, as `zpool import` lists it.
struct ImportCandidate {
  std::string name;
  std::uint64_t guid = 0;
  vdev::VdevStatus config;              // state of every vdev as found
  std::string status, action, problem;  // the sentences zpool prints; problem empty: importable
};

// What `zpool status` says about the scan.
struct ScanStatus {
  enum class Function : std::uint8_t { none, scrub, resilver };
  enum class State : std::uint8_t { none, scanning, paused, finished, canceled };
  Function function = Function::none;
  State state = State::none;
  std::uint64_t start_time = 0, end_time = 0;  // Unix seconds
  std::uint64_t to_examine = 0, examined = 0, repaired = 0,
                errors = 0;  // bytes, bytes, bytes, blocks
  double bytes_per_second = 0;
};

// A block that could not be read, named as people can use it.
struct DataError {
  std::uint64_t objset = 0,
                object = 0;  // where nobody can name it; objset 0: the pool's own metadata
  std::string dataset;       // "tank", or "<0x36>" once it is gone
  std::string path;          // "/a/b", or "<0x7>" / "<metadata>"
};

struct DatasetEntry {  // one line of `zfs list`
  std::string name;
  std::string type;  // filesystem, snapshot, volume
  Space space;
  PropertySet properties;
  bool mountable = false;  // a file system that we can read; else why_not says
  std::string why_not;
};

// Thread-safe.
class Pool {
 public:
  // Writes a new pool and leaves it exported on disk. errors: invalid, exists (an image in use;
  // named), ...
  static Result<void> create(const CreateOptions& options, const DeviceFactory& devices);
  static Result<std::vector<ImportCandidate>> importable(
      const std::vector<std::string>& directories, const DeviceFactory& devices);
  static Result<std::unique_ptr<Pool>> import(const ImportOptions& options,
                                              const DeviceFactory& devices);
  static Result<void> destroy(std::unique_ptr<Pool> pool);
  virtual ~Pool() = default;  // closes without exporting: labels stay "active"

  // Syncs and stops everything; marks the labels exported. Every Dataset must have been dropped.
  virtual Result<void> close(bool exported) = 0;

  virtual const std::string& name() const = 0;
  virtual std::uint64_t guid() const = 0;
  virtual bool read_only() const = 0;

  virtual Result<std::shared_ptr<Dataset>> open_dataset(const std::string& name) = 0;  // also a@b
  // Every file system, volume and snapshot; sorted by name, parents first.
  virtual Result<std::vector<DatasetEntry>> list() = 0;
  virtual Result<std::vector<std::string>> snapshots(const std::string& filesystem) = 0;
  virtual Result<void> set_property(const std::string& dataset, const std::string& name,
                                    const std::string& value) = 0;

  virtual Result<void> sync() = 0;
  virtual void drop_cache() = 0;  // zinject -a
  virtual vdev::VdevTree& vdevs() = 0;
  virtual vdev::VdevStatus status() const = 0;
  virtual std::uint64_t size() const = 0;  // bytes, as `zpool list` SIZE
  virtual std::uint64_t allocated() const = 0;
  // Pool properties by name: size, capacity, health, guid, version, comment, ashift, failmode,
  // feature@...
  virtual std::map<std::string, PropertyValue> pool_properties() const = 0;
  virtual Result<void> set_pool_property(const std::string& name, const std::string& value) = 0;

  virtual Result<void> scrub_start() = 0;  // errors: busy
  virtual Result<void> scrub_pause() = 0;
  virtual Result<void> scrub_stop() = 0;
  virtual Result<void> scrub_wait() = 0;  // until no scan is running (or it is paused)
  virtual ScanStatus scan_status() const = 0;
  virtual Result<void> clear(std::uint64_t leaf_guid) = 0;  // 0: all; forgets data errors too
  virtual std::vector<DataError> data_errors() = 0;

  struct HistoryRecord {
    std::uint64_t time = 0;
    std::string text;
  };
  virtual Result<std::vector<HistoryRecord>> history() = 0;
  virtual Result<void> log_history(const std::string& command) = 0;
};

}  // namespace zuse::dataset
