#include "fs/dataset/mos.h"

#include "vdev/base/units.h"

namespace zuse::dataset {
namespace {

constexpr std::uint64_t kPackedListMax = 64 * kMiB;

}  // namespace

Result<object::Zap> object_directory(object::Objset& mos) {
  return object::Zap::open(mos, kObjectDirectory);
}

Result<std::optional<std::uint64_t>> directory_entry(object::Objset& mos, std::string_view name) {
  ZUSE_TRY(const object::Zap directory, object_directory(mos));
  const auto value = directory.lookup(name);
  if (value) {
    return *value;
  }
  if (value.error().code() == Errc::not_found) {
    return std::nullopt;
  }
  return std::unexpected(value.error());
}

Result<std::uint64_t> create_packed_list(object::Objset& mos, object::Tx& tx) {
  object::NewObject spec;
  spec.type = format::ObjectType::packed_nvlist;
  spec.block_size = kPackedListBlock;
  spec.bonus_type = format::ObjectType::packed_nvlist_size;
  spec.bonus_size = sizeof(std::uint64_t);
  ZUSE_TRY(const object::DnodeRef dnode, mos.allocate(tx, spec));
  return dnode->object();
}

Result<void> write_packed_list(object::Objset& mos, object::Tx& tx, std::uint64_t object,
                               const codec::NvList& list) {
  ZUSE_TRY(const object::DnodeRef dnode, mos.hold(object));
  std::vector<std::byte> bytes = list.encode_xdr();
  const std::uint64_t size = bytes.size();
  bytes.resize(round_up(size, kPackedListBlock));
  ZUSE_TRY_VOID(dnode->free_range(tx, bytes.size(), object::kToEnd));
  ZUSE_TRY_VOID(dnode->write(tx, 0, bytes));
  std::vector<std::byte> bonus(sizeof(std::uint64_t));
  store_at<std::uint64_t>(bonus, 0, size, kHostOrder);
  return dnode->set_bonus(tx, bonus);
}

Result<codec::NvList> read_packed_list(object::Objset& mos, std::uint64_t object) {
  ZUSE_TRY(const object::DnodeRef dnode, mos.hold(object));
  const std::vector<std::byte> bonus = dnode->bonus();
  if (dnode->type() != format::ObjectType::packed_nvlist || bonus.size() < sizeof(std::uint64_t)) {
    return fail(Errc::corrupt, "MOS object " + std::to_string(object) + " is not a packed list");
  }
  const auto size = load_at<std::uint64_t>(bonus, 0, kHostOrder);
  if (size > kPackedListMax) {
    return fail(Errc::corrupt, "packed list " + std::to_string(object) + " claims " +
                                   std::to_string(size) + " bytes");
  }
  std::vector<std::byte> bytes(size);
  ZUSE_TRY_VOID(dnode->read(0, bytes));
  return codec::NvList::decode(bytes);
}

}  // namespace zuse::dataset
