// Deadlist: the blocks that a dataset's newest snapshot still references but the dataset no longer
// does, sorted into lists by birth. source: format page 07 section 6.
#pragma once

#include <map>

#include "fs/dataset/bpobj.h"
#include "fs/dataset/features.h"
#include "fs/format/dsl_phys.h"

namespace zuse::dataset {

// Not thread-safe: the sync thread owns it.
class Deadlist {
 public:
  // Either format: a ZAP of lists, or one old list.
  static Result<Deadlist> open(object::Objset& mos, std::uint64_t object);
  // An empty one whose only key is 0.
  static Result<std::uint64_t> create(object::Objset& mos, object::Tx& tx);

  Result<BlockSpace> space() const;
  Result<void> insert(object::Tx& tx, Features& features, const format::Blkptr& blkptr);

 private:
  explicit Deadlist(object::Objset& mos, object::DnodeRef dnode)
      : mos_(&mos), dnode_(std::move(dnode)) {}
  bool old_format() const { return dnode_->bonus_type() == format::ObjectType::bpobj_header; }

  object::Objset* mos_;
  object::DnodeRef dnode_;
  std::map<std::uint64_t, std::uint64_t> lists_;  // lowest birth (exclusive) -> bpobj
  std::map<std::uint64_t, Bpobj> open_;
};

}  // namespace zuse::dataset
