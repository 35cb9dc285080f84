#include "fs/dataset/bpobj.h"

#include <cstring>

namespace zuse::dataset {
namespace {

constexpr unsigned kDepthMax = 32;  // nesting of lists below lists

}  // namespace

BlockSpace& BlockSpace::operator+=(const BlockSpace& other) {
  used += other.used;
  compressed += other.compressed;
  uncompressed += other.uncompressed;
  return *this;
}

BlockSpace& BlockSpace::operator-=(const BlockSpace& other) {
  used -= other.used;
  compressed -= other.compressed;
  uncompressed -= other.uncompressed;
  return *this;
}

BlockSpace space_of(const pool::BlockStore& store, const format::Blkptr& blkptr) {
  if (blkptr.is_hole()) {
    return {};
  }
  const bool metadata = blkptr.level > 0 || format::is_metadata(blkptr.type);
  const std::uint64_t psize = blkptr.embedded ? 0 : blkptr.psize;
  return {store.dsize(blkptr), psize, metadata ? psize : std::uint64_t{blkptr.lsize}};
}

Result<Bpobj> Bpobj::open(object::Objset& mos, std::uint64_t object) {
  ZUSE_TRY(object::DnodeRef dnode, mos.hold(object));
  if (dnode->bonus_type() != format::ObjectType::bpobj_header) {
    return fail(Errc::corrupt,
                "MOS object " + std::to_string(object) + " is not a block pointer list");
  }
  ZUSE_TRY(const auto header, format::decode_bpobj_header(dnode->bonus(), kHostOrder));
  return Bpobj(mos, std::move(dnode), header);
}

Result<std::uint64_t> Bpobj::create(object::Objset& mos, object::Tx& tx, std::uint32_t block_size,
                                    format::Compression compression) {
  object::NewObject spec;
  spec.type = format::ObjectType::bpobj;
  spec.block_size = block_size;
  spec.bonus_type = format::ObjectType::bpobj_header;
  spec.bonus_size = format::kBpobjHeaderSizeV2;
  spec.compression = static_cast<std::uint8_t>(compression);
  ZUSE_TRY(const object::DnodeRef dnode, mos.allocate(tx, spec));
  return dnode->object();
}

Result<void> Bpobj::destroy(object::Objset& mos, object::Tx& tx, std::uint64_t object) {
  ZUSE_TRY(Bpobj list, open(mos, object));
  ZUSE_TRY_VOID(list.clear(tx));
  return mos.free_object(tx, object);
}

BlockSpace Bpobj::space() const {
  return {header_.bytes, header_.compressed, header_.uncompressed};
}

Result<void> Bpobj::store_header(object::Tx& tx) {
  std::vector<std::byte> bonus = dnode_->bonus();
  format::encode_bpobj_header(header_, bonus, kHostOrder);
  return dnode_->set_bonus(tx, bonus);
}

Result<void> Bpobj::append(object::Tx& tx, const format::Blkptr& blkptr) {
  const format::BlkptrPhys phys = format::encode(format::canonical_entry(blkptr), kHostOrder);
  ZUSE_TRY_VOID(dnode_->write(tx, header_.block_count * format::kBlkptrSize,
                              std::as_bytes(std::span(&phys, 1))));
  const BlockSpace space = space_of(mos_->store(), blkptr);
  ++header_.block_count;
  header_.bytes += space.used;
  header_.compressed += space.compressed;
  header_.uncompressed += space.uncompressed;
  return store_header(tx);
}

Result<void> Bpobj::for_each(
    const std::function<Result<void>(const format::Blkptr&)>& visit) const {
  return visit_at(visit, 0);
}

Result<void> Bpobj::visit_at(const std::function<Result<void>(const format::Blkptr&)>& visit,
                             unsigned depth) const {
  const std::string what = "block pointer list " + std::to_string(object());
  if (depth > kDepthMax) {
    return fail(Errc::corrupt, what + " is nested too deep");
  }
  const std::uint64_t limit =
      dnode_->block_size() / format::kBlkptrSize * (dnode_->max_block() + 1);
  if (header_.block_count > limit) {
    return fail(Errc::corrupt, what + " claims more entries than it has blocks for");
  }
  for (std::uint64_t i = 0; i < header_.block_count; ++i) {
    format::BlkptrPhys phys;
    ZUSE_TRY_VOID(
        dnode_->read(i * format::kBlkptrSize, std::as_writable_bytes(std::span(&phys, 1))));
    ZUSE_TRY_VOID(visit(format::decode(phys, kHostOrder)));
  }
  if (header_.sub_list == 0) {
    return {};
  }
  ZUSE_TRY(const object::DnodeRef subs, mos_->hold(header_.sub_list));
  if (header_.sub_count > subs->block_size() / 8 * (subs->max_block() + 1)) {
    return fail(Errc::corrupt, what + " claims more lists below it than there are");
  }
  for (std::uint64_t i = 0; i < header_.sub_count; ++i) {
    U64 raw;
    ZUSE_TRY_VOID(subs->read(i * 8, std::as_writable_bytes(std::span(&raw, 1))));
    ZUSE_TRY(const Bpobj below, open(*mos_, raw.load(kHostOrder)));
    ZUSE_TRY_VOID(below.visit_at(visit, depth + 1));
  }
  return {};
}

Result<void> Bpobj::clear(object::Tx& tx) {
  if (header_.sub_list != 0) {
    ZUSE_TRY(const object::DnodeRef subs, mos_->hold(header_.sub_list));
    for (std::uint64_t i = 0; i < header_.sub_count; ++i) {
      U64 raw;
      ZUSE_TRY_VOID(subs->read(i * 8, std::as_writable_bytes(std::span(&raw, 1))));
      ZUSE_TRY_VOID(destroy(*mos_, tx, raw.load(kHostOrder)));
    }
    ZUSE_TRY_VOID(mos_->free_object(tx, header_.sub_list));
  }
  header_ = {};
  ZUSE_TRY_VOID(dnode_->free_range(tx, 0, object::kToEnd));
  return store_header(tx);
}

}  // namespace zuse::dataset
