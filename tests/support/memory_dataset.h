// MemoryDataset: a dataset over a MemoryStore, with real transaction groups and no pool around it.
// What fs/posix is tested on.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "fs/dataset/dataset.h"
#include "fs/pool/txg.h"
#include "tests/support/memory_store.h"

namespace zuse::test {

// What survives a crash: the blocks, and the root of the last group that was synced.
struct MemoryDisk {
  MemoryStore store;
  format::Blkptr root;
  std::uint64_t txg = 0;
  bool keep_freed = false;  // old roots stay readable: "snapshots"
};

struct MemoryDatasetOptions {
  bool read_only = false;
  bool snapshot = false;
  std::string name = "tank/home";
  object::ObjsetPolicy policy;
  std::map<std::string, std::uint64_t> properties;  // index and number properties
  std::uint64_t available = std::uint64_t{1} << 40;
  std::chrono::milliseconds interval{3'600'000};  // groups move on when asked
};

class MemoryDataset final : public dataset::Dataset {
 public:
  // Formats an empty file system and syncs it.
  static Result<std::shared_ptr<MemoryDataset>> create(MemoryDisk& disk,
                                                       MemoryDatasetOptions options = {});
  // The file system as of `root`, or of the disk's last root.
  static Result<std::shared_ptr<MemoryDataset>> open(MemoryDisk& disk,
                                                     MemoryDatasetOptions options = {});
  static Result<std::shared_ptr<MemoryDataset>> open(MemoryDisk& disk, const format::Blkptr& root,
                                                     MemoryDatasetOptions options);
  ~MemoryDataset() override;

  const std::string& name() const override { return options_.name; }
  std::uint64_t id() const override { return 54; }
  std::uint64_t fsid() const override { return 0x1234; }
  bool is_snapshot() const override { return options_.snapshot; }
  bool read_only() const override { return options_.read_only; }
  dataset::Pool& pool() const override;  // there is none: stops the program
  object::Objset& objset() override { return *objset_; }
  const dataset::PropertySet& properties() const override { return properties_; }
  Result<object::Tx> begin(std::uint64_t bytes, bool frees) override;
  Result<void> sync() override;
  dataset::Space space() const override;

  // From here on nothing reaches the disk.
  void cut_power() { cut_ = true; }
  // Changes that make no room fail with no_space.
  void set_full(bool full) { full_ = full; }
  // What the store and the owner of blocks found wrong.
  std::vector<std::string> problems() const;

 private:
  class Owner;
  MemoryDataset(MemoryDisk& disk, MemoryDatasetOptions options);
  object::ObjsetContext context();
  void start();

  MemoryDisk& disk_;
  const MemoryDatasetOptions options_;
  dataset::PropertySet properties_;
  std::unique_ptr<Owner> owner_;
  std::unique_ptr<object::Objset> objset_;
  std::unique_ptr<pool::TxgManager> txgs_;
  std::atomic<bool> cut_{false}, full_{false};
};

}  // namespace zuse::test
