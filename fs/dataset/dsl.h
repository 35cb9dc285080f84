// Dsl, dataset and snapshot layer: the tree of directories (names, properties, space) and the
// datasets in it, as the MOS keeps them. Directories and datasets that were looked at stay in
// memory; the sync thread changes them there and writes back what changed. source: format page 07.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fs/dataset/bpobj.h"
#include "fs/dataset/property.h"
#include "fs/format/dsl_phys.h"
#include "fs/object/objset.h"
#include "fs/object/zap.h"

namespace zuse::dataset {

// A change of space: signed, since blocks come and go.
struct SpaceDelta {
  std::int64_t used = 0, compressed = 0, uncompressed = 0;

  SpaceDelta& operator+=(const BlockSpace& space);
  SpaceDelta& operator-=(const BlockSpace& space);
  bool operator==(const SpaceDelta&) const = default;
};

// A dataset by name, with where it hangs.
struct NamedDataset {
  std::string name;             // "tank/home", "tank/home@monday"
  std::uint64_t dataset = 0;    // object
  std::uint64_t directory = 0;  // object
  bool snapshot = false;
};

// Reads are thread-safe; changes belong to the sync thread.
class Dsl {
 public:
  Dsl(object::Objset& mos, std::uint64_t root_directory, std::string pool_name)
      : mos_(mos), root_(root_directory), pool_name_(std::move(pool_name)) {}

  object::Objset& mos() const noexcept { return mos_; }
  std::uint64_t root_directory() const noexcept { return root_; }

  // As of the newest change. errors: not_found, corrupt (not such an object).
  Result<format::DslDirPhys> directory(std::uint64_t object);
  Result<format::DslDatasetPhys> dataset(std::uint64_t object);

  // "tank/home" or "tank/home@monday". errors: not_found, invalid (a name that cannot be).
  Result<NamedDataset> find(std::string_view name);
  // The name of a dataset object. errors: not_found.
  Result<std::string> name_of(std::uint64_t dataset);
  // Every head and, if asked for, snapshot that people see, parents before children, by name.
  Result<std::vector<NamedDataset>> list(bool snapshots);
  // Every dataset with blocks, hidden ones too: what a scan or a check must walk. shape: objects.
  Result<std::vector<std::uint64_t>> all_datasets();
  // Snapshot names of a head, in order of creation.
  Result<std::vector<NamedDataset>> snapshots(const NamedDataset& head);

  // All native and user properties, resolved: local, inherited, default; computed ones too.
  Result<PropertySet> properties(const NamedDataset& dataset);
  // Local value in the directory's property ZAP. errors: invalid.
  Result<void> set_property(object::Tx& tx, const NamedDataset& dataset, std::string_view name,
                            std::string_view value);
  // Bytes that `directory` may still use, given what its parent has. source: format page 07
  // section 7.4.
  Result<std::uint64_t> available(std::uint64_t directory, std::uint64_t pool_available);

  // Syncing context: change a copy and store it. Written to the MOS by flush().
  void put_directory(std::uint64_t object, const format::DslDirPhys& phys);
  void put_dataset(std::uint64_t object, const format::DslDatasetPhys& phys);
  Result<void> flush(object::Tx& tx);

  // Space changes of a directory, handed up to its parents. source: format page 07 section 7.3.
  Result<void> did_use(std::uint64_t directory, format::UsedPart kind, const SpaceDelta& delta);
  Result<void> did_use_transfer(std::uint64_t directory, const SpaceDelta& delta,
                                std::int64_t to_new, format::UsedPart from, format::UsedPart to);
  Result<void> transfer(std::uint64_t directory, std::int64_t bytes, format::UsedPart from,
                        format::UsedPart to);

 private:
  template <class Phys>
  struct Cached {
    Phys phys;
    bool dirty = false;
  };

  Result<void> list_below(std::uint64_t directory, const std::string& name, bool snapshots,
                          bool hidden, unsigned depth, std::vector<NamedDataset>& found);
  Result<void> resolve(const NamedDataset& dataset, const PropertyInfo& property,
                       PropertySet& into);
  Result<std::vector<std::pair<std::uint64_t, std::string>>> lineage(std::uint64_t directory,
                                                                     const std::string& name);

  object::Objset& mos_;
  const std::uint64_t root_;
  const std::string pool_name_;
  Mutex mutex_{LockRank::dataset};
  std::map<std::uint64_t, Cached<format::DslDirPhys>> directories_ ZUSE_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Cached<format::DslDatasetPhys>> datasets_ ZUSE_GUARDED_BY(mutex_);
};

// errors: invalid, said why, for names that no pool or dataset may have.
Result<void> check_pool_name(std::string_view name);

}  // namespace zuse::dataset
