#include "fs/dataset/new_pool.h"

#include <ctime>

#include "fs/dataset/bpobj.h"
#include "fs/dataset/deadlist.h"
#include "fs/dataset/history.h"
#include "fs/dataset/mos.h"
#include "fs/format/dsl_phys.h"
#include "fs/format/uberblock.h"
#include "vdev/base/random.h"

namespace zuse::dataset {
namespace {

constexpr std::string_view kFeatures[] = {
    feature::kLz4Compress, feature::kExtensibleDataset, feature::kLargeBlocks,
    feature::kSha512,      feature::kZstdCompress,
};
constexpr std::uint32_t kBpobjBlock = 131072;
constexpr std::uint32_t kSyncBplistBlock = 16384;
constexpr std::uint64_t kNormalizeUpper = 0x2;  // snapshot names may be looked up without case
constexpr std::uint64_t kOriginTxg = 1;
constexpr unsigned kFsidBits = 56;

// Builds objects of one MOS in one transaction.
class Builder {
 public:
  Builder(object::Objset& mos, object::Tx& tx) : mos_(mos), tx_(tx) {}

  Result<object::Zap> zap(format::ObjectType type, std::uint64_t normalization = 0) {
    object::NewObject spec;
    spec.type = type;
    return object::Zap::create(mos_, tx_, spec, normalization);
  }

  // A directory below `parent` (0: the root). Returns its object.
  Result<std::uint64_t> directory(std::uint64_t parent, std::string_view name) {
    object::NewObject spec;
    spec.type = spec.bonus_type = format::ObjectType::dsl_dir;
    spec.bonus_size = format::kDslDirSize;
    ZUSE_TRY(const object::DnodeRef dnode, mos_.allocate(tx_, spec));
    ZUSE_TRY(const object::Zap props, zap(format::ObjectType::dsl_props));
    ZUSE_TRY(const object::Zap children, zap(format::ObjectType::dsl_dir_child_map));
    format::DslDirPhys phys;
    phys.creation_time = now_;
    phys.parent = parent;
    phys.props_zap = props.object();
    phys.child_zap = children.object();
    phys.flags = format::kDslDirUsedBreakdown;
    ZUSE_TRY_VOID(store(dnode, phys));
    if (parent != 0) {
      ZUSE_TRY(const auto above, load_directory(parent));
      ZUSE_TRY(object::Zap siblings, object::Zap::open(mos_, above.child_zap));
      ZUSE_TRY_VOID(siblings.add(tx_, name, dnode->object()));
    }
    return dnode->object();
  }

  // A dataset object with what all have. The caller stores `phys` when it is complete.
  Result<object::DnodeRef> dataset(std::uint64_t dir, format::DslDatasetPhys& phys) {
    object::NewObject spec;
    spec.type = spec.bonus_type = format::ObjectType::dsl_dataset;
    spec.bonus_size = format::kDslDatasetSize;
    ZUSE_TRY(object::DnodeRef dnode, mos_.allocate(tx_, spec));
    phys.dir = dir;
    phys.creation_time = now_;
    phys.creation_txg = kOriginTxg;
    phys.fsid_guid = secure_random_u64() >> (64 - kFsidBits);
    phys.guid = secure_random_u64();
    phys.flags = format::kDatasetUniqueAccurate;
    ZUSE_TRY(phys.deadlist, Deadlist::create(mos_, tx_));
    return dnode;
  }

  Result<format::DslDirPhys> load_directory(std::uint64_t object) {
    ZUSE_TRY(const object::DnodeRef dnode, mos_.hold(object));
    return format::decode_dsl_dir(dnode->bonus(), kHostOrder);
  }
  Result<void> store(const object::DnodeRef& dnode, const format::DslDirPhys& phys) {
    std::vector<std::byte> bonus(format::kDslDirSize);
    format::encode_dsl_dir(phys, bonus, kHostOrder);
    return dnode->set_bonus(tx_, bonus);
  }
  Result<void> store(const object::DnodeRef& dnode, const format::DslDatasetPhys& phys) {
    std::vector<std::byte> bonus(format::kDslDatasetSize);
    format::encode_dsl_dataset(phys, bonus, kHostOrder);
    return dnode->set_bonus(tx_, bonus);
  }

 private:
  object::Objset& mos_;
  object::Tx& tx_;
  const std::uint64_t now_ = static_cast<std::uint64_t>(std::time(nullptr));
};

// $ORIGIN: a head and a snapshot without blocks, from which every file system descends.
struct Origin {
  std::uint64_t directory = 0, snapshot = 0;
};

Result<Origin> make_origin(object::Objset& mos, object::Tx& tx, Builder& build,
                           std::uint64_t root) {
  Origin origin;
  ZUSE_TRY(origin.directory, build.directory(root, "$ORIGIN"));
  format::DslDatasetPhys snapshot, head;
  ZUSE_TRY(const object::DnodeRef head_dnode, build.dataset(origin.directory, head));
  ZUSE_TRY(const object::DnodeRef snapshot_dnode, build.dataset(origin.directory, snapshot));
  origin.snapshot = snapshot_dnode->object();
  ZUSE_TRY(object::Zap names, build.zap(format::ObjectType::dsl_dataset_snap_map, kNormalizeUpper));
  ZUSE_TRY_VOID(names.add(tx, "$ORIGIN", origin.snapshot));
  head.snapnames_zap = names.object();
  head.prev_snap = origin.snapshot;
  head.prev_snap_txg = kOriginTxg;
  snapshot.next_snap = head_dnode->object();
  snapshot.num_children = 1;
  ZUSE_TRY_VOID(build.store(head_dnode, head));
  ZUSE_TRY_VOID(build.store(snapshot_dnode, snapshot));
  ZUSE_TRY(auto dir, build.load_directory(origin.directory));
  dir.head_dataset = head_dnode->object();
  ZUSE_TRY(const object::DnodeRef dir_dnode, mos.hold(origin.directory));
  ZUSE_TRY_VOID(build.store(dir_dnode, dir));
  return origin;
}

// The root dataset, as a child of $ORIGIN's snapshot.
Result<std::uint64_t> make_root_dataset(object::Objset& mos, object::Tx& tx, Builder& build,
                                        std::uint64_t root, const Origin& origin) {
  format::DslDatasetPhys phys;
  ZUSE_TRY(const object::DnodeRef dnode, build.dataset(root, phys));
  ZUSE_TRY(const object::Zap names,
           build.zap(format::ObjectType::dsl_dataset_snap_map, kNormalizeUpper));
  phys.snapnames_zap = names.object();
  phys.prev_snap = origin.snapshot;
  phys.prev_snap_txg = kOriginTxg;
  ZUSE_TRY_VOID(build.store(dnode, phys));

  const std::string hex = object::Zap::hex_key(dnode->object());
  ZUSE_TRY(object::Zap next, build.zap(format::ObjectType::next_clones));
  ZUSE_TRY_VOID(next.add(tx, hex, dnode->object()));
  ZUSE_TRY(object::Zap clones, build.zap(format::ObjectType::dsl_clones));
  ZUSE_TRY_VOID(clones.add(tx, hex, dnode->object()));

  ZUSE_TRY(const object::DnodeRef snapshot_dnode, mos.hold(origin.snapshot));
  ZUSE_TRY(auto snapshot, format::decode_dsl_dataset(snapshot_dnode->bonus(), kHostOrder));
  snapshot.num_children = 2;
  snapshot.next_clones_zap = next.object();
  ZUSE_TRY_VOID(build.store(snapshot_dnode, snapshot));

  ZUSE_TRY(const object::DnodeRef origin_dnode, mos.hold(origin.directory));
  ZUSE_TRY(auto origin_dir, build.load_directory(origin.directory));
  origin_dir.clones_zap = clones.object();
  ZUSE_TRY_VOID(build.store(origin_dnode, origin_dir));

  ZUSE_TRY(const object::DnodeRef root_dnode, mos.hold(root));
  ZUSE_TRY(auto dir, build.load_directory(root));
  dir.head_dataset = dnode->object();
  dir.origin = origin.snapshot;
  ZUSE_TRY_VOID(build.store(root_dnode, dir));
  return dnode->object();
}

}  // namespace

std::span<const std::string_view> new_pool_features() {
  return kFeatures;
}

Result<NewPool> fill_new_mos(object::Objset& mos, object::Tx& tx, std::uint64_t pool_size) {
  NewPool made;
  object::NewObject spec;
  spec.type = format::ObjectType::object_directory;
  spec.object = kObjectDirectory;
  ZUSE_TRY(object::Zap directory, object::Zap::create(mos, tx, spec));
  Builder build(mos, tx);

  ZUSE_TRY(made.root_directory, build.directory(0, {}));
  ZUSE_TRY_VOID(directory.add(tx, key::kRootDataset, made.root_directory));
  ZUSE_TRY_VOID(build.directory(made.root_directory, "$MOS"));
  ZUSE_TRY_VOID(build.directory(made.root_directory, "$FREE"));
  ZUSE_TRY(const std::uint64_t free_list, Bpobj::create(mos, tx, kBpobjBlock));
  ZUSE_TRY_VOID(directory.add(tx, key::kFreeBpobj, free_list));
  ZUSE_TRY(const Origin origin, make_origin(mos, tx, build, made.root_directory));
  ZUSE_TRY(made.root_dataset, make_root_dataset(mos, tx, build, made.root_directory, origin));

  ZUSE_TRY(made.config, create_packed_list(mos, tx));
  ZUSE_TRY_VOID(directory.add(tx, key::kConfig, made.config));
  ZUSE_TRY(const object::Zap for_read, build.zap(format::ObjectType::zap_metadata));
  ZUSE_TRY(const object::Zap for_write, build.zap(format::ObjectType::zap_metadata));
  ZUSE_TRY(const object::Zap texts, build.zap(format::ObjectType::zap_metadata));
  ZUSE_TRY_VOID(directory.add(tx, key::kFeaturesForRead, for_read.object()));
  ZUSE_TRY_VOID(directory.add(tx, key::kFeaturesForWrite, for_write.object()));
  ZUSE_TRY_VOID(directory.add(tx, key::kFeatureDescriptions, texts.object()));
  ZUSE_TRY_VOID(directory.add(tx, key::kCreationVersion, format::kPoolVersionFeatures));
  ZUSE_TRY_VOID(directory.add(tx, key::kDeflate, 1));
  ZUSE_TRY(const std::uint64_t deferred,
           Bpobj::create(mos, tx, kSyncBplistBlock, format::Compression::off));
  ZUSE_TRY_VOID(directory.add(tx, key::kSyncBplist, deferred));
  ZUSE_TRY(made.history, create_history(mos, tx, pool_size));
  ZUSE_TRY_VOID(directory.add(tx, key::kHistory, made.history));

  ZUSE_TRY(made.features,
           Features::load(mos, for_read.object(), for_write.object(), texts.object()));
  for (const std::string_view guid : kFeatures) {
    ZUSE_TRY_VOID(made.features.enable(mos, tx, guid));
  }
  return made;
}

}  // namespace zuse::dataset
