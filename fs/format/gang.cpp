#include "fs/format/gang.h"

namespace zuse::format {

Result<GangHeader> decode_gang_header(std::span<const std::byte> block, ByteOrder order) {
  if (block.size() < kGangHeaderSize) {
    return fail(Errc::corrupt, "gang header cut short");
  }
  GangHeader out;
  for (std::size_t i = 0; i < out.child.size(); ++i) {
    ZUSE_TRY(const BlkptrPhys phys, read_at<BlkptrPhys>(block, i * kBlkptrSize));
    out.child[i] = decode(phys, order);
  }
  return out;
}

void encode_gang_header(const GangHeader& header, std::span<std::byte> block, ByteOrder order) {
  ZUSE_CHECK(block.size() >= kGangHeaderSize);
  std::memset(block.data(), 0, kGangHeaderSize);
  for (std::size_t i = 0; i < header.child.size(); ++i) {
    write_at(block, i * kBlkptrSize, encode(header.child[i], order));
  }
}

}  // namespace zuse::format
