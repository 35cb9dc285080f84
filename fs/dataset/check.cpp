#include "fs/dataset/check.h"

#include "fs/dataset/bpobj.h"
#include "fs/dataset/mos.h"
#include "fs/dataset/pool_impl.h"
#include "fs/pool/traverse.h"

namespace zuse::dataset {
namespace {

// Blocks that wait to be freed are allocated, and referenced by these lists alone.
Result<void> collect_waiting(object::Objset& mos, std::vector<pool::CheckExtra>& extras) {
  for (const std::string_view key : {key::kSyncBplist, key::kFreeBpobj}) {
    ZUSE_TRY(const auto object, directory_entry(mos, key));
    if (!object) {
      continue;
    }
    ZUSE_TRY(const Bpobj list, Bpobj::open(mos, *object));
    ZUSE_TRY_VOID(list.for_each([&](const format::Blkptr& blkptr) -> Result<void> {
      extras.push_back({blkptr, {0, *object, 0, extras.size()}});
      return {};
    }));
  }
  return {};
}

// Sum of dn_used over the objects of a set, its accounting objects and metadnode included.
Result<std::uint64_t> used_by_objects(pool::BlockStore& store, std::uint64_t objset,
                                      const format::Blkptr& root) {
  std::uint64_t sum = store.dsize(root);
  pool::TraverseCalls calls;
  calls.visit = [](const format::Blkptr&, const pool::Bookmark&, pool::BlockKind) -> Result<void> {
    return {};
  };
  calls.objset = [&](const format::ObjsetPhys& phys) -> Result<void> {
    sum += phys.meta_dnode.used_bytes();
    return {};
  };
  calls.dnode = [&](std::uint64_t, const format::DnodePhys& dnode) -> Result<void> {
    sum += dnode.used_bytes();
    return {};
  };
  ZUSE_TRY_VOID(pool::traverse(store, objset, root, {}, calls));
  return sum;
}

}  // namespace

Result<CheckedPool> PoolImpl::check(
    const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  CheckedPool checked;
  checked.name = name_;
  {
    const LockGuard lock(mutex_);
    ZUSE_TRY_VOID(space_maps_.load(*mos_, features_, config_, storage_->allocator()));
  }
  const pool::Allocator& allocator = storage_->allocator();
  std::vector<pool::RangeSet> maps(allocator.top_count());
  for (unsigned top = 0; top < allocator.top_count(); ++top) {
    for (std::uint64_t m = 0; m < allocator.metaslab_count(top); ++m) {
      for (const pool::Range& range : allocator.map_contents(top, m)) {
        maps[top].add(range);
      }
    }
  }
  std::vector<pool::CheckExtra> extras;
  ZUSE_TRY_VOID(collect_waiting(*mos_, extras));
  ZUSE_TRY(const auto scan_roots_found, scan_roots());
  std::vector<pool::CheckRoot> roots;
  for (const pool::ScanRoot& root : scan_roots_found) {
    bool snapshot = false;
    if (root.objset != 0) {
      const std::string why = why_unreadable(root.objset);
      if (!why.empty()) {
        checked.unchecked.push_back(dsl_->name_of(root.objset).value_or("<hidden>") + " " + why);
        continue;
      }
      ZUSE_TRY(const auto phys, dsl_->dataset(root.objset));
      snapshot = phys.is_snapshot();
    }
    roots.push_back({root, snapshot});
  }
  const std::uint64_t total = allocated();
  // What lies in datasets that cannot be read looks like leaks.
  pool::CheckOptions options;
  options.space = checked.unchecked.empty();
  ZUSE_TRY(checked.report, pool::check_pool(storage_->pipeline(), roots, extras, maps, options,
                                            [&](std::uint64_t examined) {
                                              return !progress || progress(examined, total);
                                            }));
  ZUSE_TRY(checked.accounting, check_accounting());
  return checked;
}

// source: format page 07 section 13.
Result<std::vector<std::string>> PoolImpl::check_accounting() {
  std::vector<std::string> wrong;
  const auto expect = [&](const std::string& what, std::uint64_t recorded, std::uint64_t counted) {
    if (recorded != counted) {
      wrong.push_back(what + " is recorded as " + std::to_string(recorded) + ", counted " +
                      std::to_string(counted));
    }
  };
  if (mos_directory_ != 0) {
    ZUSE_TRY(const auto mos_dir, dsl_->directory(mos_directory_));
    ZUSE_TRY(const std::uint64_t counted, used_by_objects(storage_->pipeline(), 0, mos_->root()));
    expect("space of $MOS", mos_dir.used, counted);
  }
  ZUSE_TRY(const auto datasets, dsl_->list(true));
  for (const NamedDataset& named : datasets) {
    ZUSE_TRY(const auto phys, dsl_->dataset(named.dataset));
    if (!phys.bp.is_hole() && why_unreadable(named.dataset).empty()) {
      ZUSE_TRY(const std::uint64_t counted,
               used_by_objects(storage_->pipeline(), named.dataset, phys.bp));
      expect("space referenced by " + named.name, phys.referenced, counted);
    }
    if (named.snapshot) {
      continue;
    }
    ZUSE_TRY(const auto dir, dsl_->directory(named.directory));
    if ((dir.flags & format::kDslDirUsedBreakdown) != 0) {
      std::uint64_t parts = 0;
      for (const std::uint64_t part : dir.used_breakdown) {
        parts += part;
      }
      expect("space used by " + named.name, dir.used, parts);
      std::uint64_t children = 0;
      if (dir.child_zap != 0) {
        ZUSE_TRY(const object::Zap names, object::Zap::open(*mos_, dir.child_zap));
        ZUSE_TRY_VOID(names.for_each([&](const object::ZapEntry& entry) -> Result<void> {
          ZUSE_TRY(const auto child, dsl_->directory(entry.value.integers.at(0)));
          children += child.used;
          return {};
        }));
      }
      expect("space of the children of " + named.name, dir.part(format::UsedPart::child), children);
    }
  }
  return wrong;
}

Result<CheckedPool> check_pool(const ImportOptions& options, const DeviceFactory& devices,
                               const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  ImportOptions read_only = options;
  read_only.read_only = true;
  ZUSE_TRY(const std::unique_ptr<Pool> pool, Pool::import(read_only, devices));
  return static_cast<PoolImpl&>(*pool).check(progress);
}

}  // namespace zuse::dataset
