// Objset: a flat array of objects. The MOS is one, every dataset and snapshot is one. Objects are
// held by number; changes gather in their dnodes and go to disk when the pool syncs the group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fs/format/objset_phys.h"
#include "fs/object/dnode.h"
#include "fs/object/tx.h"
#include "fs/pool/block_store.h"

namespace zuse::object {

// Hears of every block that the sync writes or lets go. Decides whether a block that is let go can
// be freed or must go on a deadlist. Thread-safe; called on the CPU pool's threads.
class BlockOwner {
 public:
  virtual ~BlockOwner() = default;
  virtual void born(std::uint64_t txg, const format::Blkptr& blkptr) = 0;
  virtual void killed(std::uint64_t txg, const format::Blkptr& blkptr) = 0;
};

// How new blocks are written: properties of the dataset and features of the pool, resolved.
struct ObjsetPolicy {
  format::Checksum checksum = format::Checksum::fletcher4;  // user data
  format::CompressionChoice compression{format::Compression::lz4, 0};
  format::Checksum metadata_checksum = format::Checksum::fletcher4;
  format::CompressionChoice metadata_compression{format::Compression::lz4, 0};
  unsigned data_copies = 1;
  unsigned metadata_copies = 2;         // MOS: 3
  std::uint32_t record_size = 131072;   // block size that files grow to
  bool hole_birth = false;              // holes keep their birth (feature hole_birth active)
  bool user_accounting = false;         // keep user/group used ZAPs (format page 08 section 11)
  bool user_object_accounting = false;  // also "obj-" counts
  bool project_accounting = false;      // also the project ZAP
  bool large_dnode = false;
};

// Who an object is charged to; nullopt: it is charged to nobody.
struct ObjectOwner {
  std::uint64_t user = 0, group = 0, project = 0;
};
using OwnerOf = std::function<std::optional<ObjectOwner>(format::ObjectType bonus_type,
                                                         std::span<const std::byte> bonus)>;

struct ObjsetContext {
  pool::BlockStore& store;
  BlockOwner& owner;
  std::uint64_t id = 0;  // dataset object number; 0: the MOS
  std::string name;      // for messages: "tank/home"
  ObjsetPolicy policy;
  bool read_only = true;
  std::function<void(std::uint64_t txg, std::uint64_t bytes)> on_dirty;  // may be empty
  OwnerOf owner_of;  // may be empty: no accounting
};

struct NewObject {
  format::ObjectType type = format::ObjectType::none;
  std::uint32_t block_size = 0;  // bytes; 0: 512
  format::ObjectType bonus_type = format::ObjectType::none;
  std::uint16_t bonus_size = 0;
  unsigned slots = 1;
  std::uint64_t object = 0;  // 0: any free number
  std::uint8_t indirect_shift = 17;
  std::uint8_t compression = 0;  // dn_compress; 0: inherit
};

// Thread-safe.
class Objset {
 public:
  // errors: corrupt, unsupported, and those of BlockStore::read.
  static Result<std::unique_ptr<Objset>> open(ObjsetContext context, const format::Blkptr& root);
  // An empty object set, all in memory until its first sync. `txg` is its first one.
  static std::unique_ptr<Objset> create(ObjsetContext context, format::ObjsetType type,
                                        std::uint64_t txg);
  virtual ~Objset() = default;

  virtual std::uint64_t id() const = 0;
  virtual const std::string& name() const = 0;
  virtual format::ObjsetType type() const = 0;
  virtual bool read_only() const = 0;
  virtual ObjsetPolicy policy() const = 0;
  virtual void set_policy(const ObjsetPolicy& policy) = 0;  // for blocks written from now on
  virtual pool::BlockStore& store() = 0;
  // The intent log header of the objset block (format page 09); decoded only as far as needed.
  virtual format::ZilHeader zil_header() const = 0;
  virtual void set_zil_header(Tx& tx, const format::ZilHeader& header) = 0;
  virtual std::uint64_t flags() const = 0;  // os_flags
  virtual void set_flags(Tx& tx, std::uint64_t flags) = 0;

  // errors: not_found (free slot or beyond the end), exists (interior of a large dnode), corrupt.
  virtual Result<DnodeRef> hold(std::uint64_t object) = 0;
  // errors: no_space never here; exists if the number asked for is taken; busy if it was freed in a
  // group that is not on disk yet; invalid, for a shape that no dnode can have.
  virtual Result<DnodeRef> allocate(Tx& tx, const NewObject& spec) = 0;
  // Frees its blocks, spill and slots. errors: not_found.
  virtual Result<void> free_object(Tx& tx, std::uint64_t object) = 0;
  // The lowest allocated object number > after. errors: not_found at the end.
  virtual Result<std::uint64_t> next_object(std::uint64_t after) = 0;
  // Number of allocated objects as of the last sync (the root pointer's fill).
  virtual std::uint64_t object_count() const = 0;
  // The accounting ZAPs, null while they do not exist: user -1, group -2, project -3.
  virtual DnodeRef special(std::int64_t id) = 0;

  virtual bool dirty(std::uint64_t txg) const = 0;
  // Writes all that `txg` changed, children before parents, and returns the new root pointer.
  // `pass` counts the passes over the MOS within one group: from kNoCompressPass on, nothing is
  // compressed, so that sizes stop changing. Only the sync thread calls it. errors: no_space, io:
  // the group is lost.
  virtual Result<format::Blkptr> sync(std::uint64_t txg, unsigned pass) = 0;
  virtual format::Blkptr root() const = 0;  // as of the last sync
};

inline constexpr unsigned kNoCompressPass = 4;

}  // namespace zuse::object
