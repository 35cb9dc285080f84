// Bpobj: a list of block pointers on disk - frees that wait, the deadlists of datasets. Lists may
// hang below others; totals include them. source: format page 04 section 5.
#pragma once

#include <cstdint>
#include <functional>

#include "fs/format/bpobj_phys.h"
#include "fs/object/objset.h"

namespace zuse::dataset {

// Space of a set of blocks, as all DSL numbers count it.
struct BlockSpace {
  std::uint64_t used = 0;          // deflated size on disk
  std::uint64_t compressed = 0;    // psize
  std::uint64_t uncompressed = 0;  // lsize; psize for metadata

  BlockSpace& operator+=(const BlockSpace& other);
  BlockSpace& operator-=(const BlockSpace& other);
};

// source: format page 07, head (dsize, psize, ucsize).
BlockSpace space_of(const pool::BlockStore& store, const format::Blkptr& blkptr);

// Not thread-safe: the sync thread owns it.
class Bpobj {
 public:
  static Result<Bpobj> open(object::Objset& mos, std::uint64_t object);
  // A new, empty list. source: format page 04 section 5 (bonus length 48).
  static Result<std::uint64_t> create(
      object::Objset& mos, object::Tx& tx, std::uint32_t block_size,
      format::Compression compression = format::Compression::inherit);
  // Frees the object (its entries are not touched) and those below it.
  static Result<void> destroy(object::Objset& mos, object::Tx& tx, std::uint64_t object);

  std::uint64_t object() const noexcept { return dnode_->object(); }
  bool empty() const noexcept { return header_.block_count == 0 && header_.sub_count == 0; }
  BlockSpace space() const;

  Result<void> append(object::Tx& tx, const format::Blkptr& blkptr);
  // Own entries, then those of the lists below. errors: corrupt (nesting too deep, counts that
  // lie).
  Result<void> for_each(const std::function<Result<void>(const format::Blkptr&)>& visit) const;
  // Forgets every entry and frees the lists below.
  Result<void> clear(object::Tx& tx);

 private:
  Bpobj(object::Objset& mos, object::DnodeRef dnode, const format::BpobjHeader& header)
      : mos_(&mos), dnode_(std::move(dnode)), header_(header) {}
  Result<void> store_header(object::Tx& tx);
  Result<void> visit_at(const std::function<Result<void>(const format::Blkptr&)>& visit,
                        unsigned depth) const;

  object::Objset* mos_;
  object::DnodeRef dnode_;
  format::BpobjHeader header_;
};

}  // namespace zuse::dataset
