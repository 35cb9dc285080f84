// A dataset whose disk is a map.
#include "tests/support/memory_dataset.h"

#include <utility>

#include "fs/dataset/owner.h"
#include "fs/posix/format.h"

namespace zuse::test {

class MemoryDataset::Owner final : public object::BlockOwner {
 public:
  explicit Owner(MemoryDisk& disk) : disk_(disk) {}

  void born(std::uint64_t txg, const format::Blkptr& blkptr) override {
    if (blkptr.logical_birth != txg) {
      const std::lock_guard lock(mutex_);
      problems_.emplace_back("a block born in another group");
    }
  }
  void killed(std::uint64_t txg, const format::Blkptr& blkptr) override {
    if (!disk_.keep_freed) {
      const std::lock_guard lock(mutex_);
      killed_.emplace_back(txg, blkptr);
    }
  }
  // The group is on disk: what it let go is free. Without that, a cut undoes the letting go.
  void commit() {
    const std::lock_guard lock(mutex_);
    for (const auto& [txg, blkptr] : killed_) {
      disk_.store.free(txg, blkptr);
    }
    killed_.clear();
  }
  std::vector<std::string> problems() const {
    const std::lock_guard lock(mutex_);
    return problems_;
  }

 private:
  MemoryDisk& disk_;
  mutable std::mutex mutex_;
  std::vector<std::string> problems_;
  std::vector<std::pair<std::uint64_t, format::Blkptr>> killed_;
};

MemoryDataset::MemoryDataset(MemoryDisk& disk, MemoryDatasetOptions options)
    : disk_(disk), options_(std::move(options)), owner_(std::make_unique<Owner>(disk)) {
  for (const auto& [name, number] : options_.properties) {
    properties_.all()[name] = {.text = std::to_string(number),
                               .number = number,
                               .source = dataset::PropertySource::local,
                               .inherited_from = {}};
  }
}

MemoryDataset::~MemoryDataset() {
  if (txgs_) {
    (void)txgs_->stop();
  }
}

object::ObjsetContext MemoryDataset::context() {
  return {.store = disk_.store,
          .owner = *owner_,
          .id = id(),
          .name = options_.name,
          .policy = options_.policy,
          .read_only = options_.read_only,
          .on_dirty =
              [this](std::uint64_t txg, std::uint64_t bytes) {
                if (txgs_) {
                  txgs_->add_dirty(txg, bytes);
                }
              },
          .owner_of = dataset::file_owner};
}

void MemoryDataset::start() {
  pool::TxgOptions txg_options;
  txg_options.interval = options_.interval;
  txgs_ = std::make_unique<pool::TxgManager>(
      disk_.txg, txg_options, [this](std::uint64_t txg) -> Result<void> {
        if (cut_) {
          return {};
        }
        if (objset_->dirty(txg)) {
          ZUSE_TRY(const format::Blkptr root, objset_->sync(txg, 1));
          if (cut_) {
            return {};
          }
          disk_.root = root;
          owner_->commit();
        }
        disk_.txg = txg;
        disk_.store.release(txg);
        return {};
      });
}

Result<std::shared_ptr<MemoryDataset>> MemoryDataset::create(MemoryDisk& disk,
                                                             MemoryDatasetOptions options) {
  std::shared_ptr<MemoryDataset> made(new MemoryDataset(disk, std::move(options)));
  made->objset_ = object::Objset::create(made->context(), format::ObjsetType::zfs, pool::kFirstTxg);
  made->start();
  {
    ZUSE_TRY(object::Tx tx, made->begin(0, false));
    ZUSE_TRY_VOID(posix::format_file_system(*made->objset_, tx));
  }
  ZUSE_TRY_VOID(made->sync());
  return made;
}

Result<std::shared_ptr<MemoryDataset>> MemoryDataset::open(MemoryDisk& disk,
                                                           MemoryDatasetOptions options) {
  return open(disk, disk.root, std::move(options));
}

Result<std::shared_ptr<MemoryDataset>> MemoryDataset::open(MemoryDisk& disk,
                                                           const format::Blkptr& root,
                                                           MemoryDatasetOptions options) {
  std::shared_ptr<MemoryDataset> opened(new MemoryDataset(disk, std::move(options)));
  ZUSE_TRY(opened->objset_, object::Objset::open(opened->context(), root));
  if (!opened->options_.read_only) {
    opened->start();
  }
  return opened;
}

dataset::Pool& MemoryDataset::pool() const {
  check_failed("a dataset in memory has no pool", __FILE__, __LINE__);
}

Result<object::Tx> MemoryDataset::begin(std::uint64_t /*bytes*/, bool frees) {
  if (options_.read_only) {
    return fail(Errc::read_only);
  }
  if (full_ && !frees) {
    return fail(Errc::no_space);
  }
  ZUSE_TRY(pool::TxHold hold, txgs_->hold());
  return object::Tx(std::move(hold));
}

Result<void> MemoryDataset::sync() {
  return txgs_ ? txgs_->wait_synced() : Result<void>{};
}

dataset::Space MemoryDataset::space() const {
  return {.used = 0, .available = options_.available, .referenced = 1 << 20, .unique = 0};
}

std::vector<std::string> MemoryDataset::problems() const {
  std::vector<std::string> problems = owner_->problems();
  for (std::string& problem : disk_.store.problems()) {
    problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace zuse::test
