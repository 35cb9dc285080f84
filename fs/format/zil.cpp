#include "fs/format/zil.h"

namespace zuse::format {
namespace {

struct ZilHeaderPhys {
  U64 claim_txg, replay_seq;
  BlkptrPhys log;
  U64 claim_block_seq, flags, claim_record_seq;
  std::array<U64, 3> pad;
};
static_assert(OnDisk<ZilHeaderPhys> && sizeof(ZilHeaderPhys) == kZilHeaderSize);

}  // namespace

Result<ZilHeader> decode_zil_header(std::span<const std::byte> bytes, ByteOrder order) {
  ZUSE_TRY(const ZilHeaderPhys phys, read_at<ZilHeaderPhys>(bytes, 0));
  return ZilHeader{.claim_txg = phys.claim_txg.load(order),
                   .replay_seq = phys.replay_seq.load(order),
                   .log = decode(phys.log, order),
                   .claim_block_seq = phys.claim_block_seq.load(order),
                   .flags = phys.flags.load(order),
                   .claim_record_seq = phys.claim_record_seq.load(order)};
}

void encode_zil_header(const ZilHeader& header, std::span<std::byte> bytes, ByteOrder order) {
  ZilHeaderPhys phys{};
  phys.claim_txg.store(header.claim_txg, order);
  phys.replay_seq.store(header.replay_seq, order);
  phys.log = encode(header.log, order);
  phys.claim_block_seq.store(header.claim_block_seq, order);
  phys.flags.store(header.flags, order);
  phys.claim_record_seq.store(header.claim_record_seq, order);
  write_at(bytes, 0, phys);
}

}  // namespace zuse::format
