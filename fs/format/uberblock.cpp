#include "fs/format/uberblock.h"

#include <tuple>

namespace zuse::format {
namespace {

struct UberblockPhys {
  U64 magic, version, txg, guid_sum, timestamp;
  BlkptrPhys root;
  U64 software_version, mmp_magic, mmp_delay, mmp_config, checkpoint_txg, raidz_reflow;
};
static_assert(OnDisk<UberblockPhys> && sizeof(UberblockPhys) == kUberblockSize);
static_assert(offsetof(UberblockPhys, software_version) == 168);

}  // namespace

Result<Uberblock> decode_uberblock(std::span<const std::byte> slot) {
  ZUSE_TRY(const UberblockPhys phys, read_at<UberblockPhys>(slot, 0));
  ByteOrder order = ByteOrder::little;
  if (phys.magic.load(order) != kUberblockMagic) {
    order = ByteOrder::big;
    if (phys.magic.load(order) != kUberblockMagic) {
      return fail(Errc::corrupt, "uberblock: no magic number");
    }
  }
  return Uberblock{.version = phys.version.load(order),
                   .txg = phys.txg.load(order),
                   .guid_sum = phys.guid_sum.load(order),
                   .timestamp = phys.timestamp.load(order),
                   .root = decode(phys.root, order),
                   .software_version = phys.software_version.load(order),
                   .mmp_magic = phys.mmp_magic.load(order),
                   .mmp_delay = phys.mmp_delay.load(order),
                   .mmp_config = phys.mmp_config.load(order),
                   .checkpoint_txg = phys.checkpoint_txg.load(order),
                   .raidz_reflow = phys.raidz_reflow.load(order),
                   .order = order};
}

void encode_uberblock(const Uberblock& uberblock, std::span<std::byte> slot) {
  const ByteOrder order = uberblock.order;
  UberblockPhys phys{};
  phys.magic.store(kUberblockMagic, order);
  phys.version.store(uberblock.version, order);
  phys.txg.store(uberblock.txg, order);
  phys.guid_sum.store(uberblock.guid_sum, order);
  phys.timestamp.store(uberblock.timestamp, order);
  phys.root = encode(uberblock.root, order);
  phys.software_version.store(uberblock.software_version, order);
  phys.mmp_magic.store(uberblock.mmp_magic, order);
  phys.mmp_delay.store(uberblock.mmp_delay, order);
  phys.mmp_config.store(uberblock.mmp_config, order);
  phys.checkpoint_txg.store(uberblock.checkpoint_txg, order);
  phys.raidz_reflow.store(uberblock.raidz_reflow, order);
  write_at(slot, 0, phys);
}

bool is_newer(const Uberblock& a, const Uberblock& b) noexcept {
  return std::tuple(a.txg, a.timestamp, a.mmp_sequence()) >
         std::tuple(b.txg, b.timestamp, b.mmp_sequence());
}

}  // namespace zuse::format
