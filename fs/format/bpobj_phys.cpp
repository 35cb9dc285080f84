#include "fs/format/bpobj_phys.h"

namespace zuse::format {
namespace {

constexpr std::size_t kWords = 7;

}  // namespace

Result<BpobjHeader> decode_bpobj_header(std::span<const std::byte> bonus, ByteOrder order) {
  if (bonus.size() < kBpobjHeaderSizeV0) {
    return fail(Errc::corrupt, "list of block pointers: header cut short");
  }
  std::array<std::uint64_t, kWords> word{};
  for (std::size_t i = 0; i < kWords && (i + 1) * sizeof(U64) <= bonus.size(); ++i) {
    word[i] = load_at<std::uint64_t>(bonus, i * sizeof(U64), order);
  }
  return BpobjHeader{.block_count = word[0],
                     .bytes = word[1],
                     .compressed = word[2],
                     .uncompressed = word[3],
                     .sub_list = word[4],
                     .sub_count = word[5],
                     .freed_count = word[6]};
}

void encode_bpobj_header(const BpobjHeader& header, std::span<std::byte> bonus, ByteOrder order) {
  ZUSE_CHECK(bonus.size() == kBpobjHeaderSizeV0 || bonus.size() == kBpobjHeaderSizeV1 ||
             bonus.size() == kBpobjHeaderSizeV2 || bonus.size() == kBpobjHeaderSizeV3);
  const std::array<std::uint64_t, kWords> word = {
      header.block_count, header.bytes,     header.compressed, header.uncompressed,
      header.sub_list,    header.sub_count, header.freed_count};
  const std::size_t kept = bonus.size() / sizeof(U64);
  for (std::size_t i = 0; i < kWords; ++i) {
    if (i < kept) {
      store_at<std::uint64_t>(bonus, i * sizeof(U64), word[i], order);
    } else if (i >= kBpobjHeaderSizeV1 / sizeof(U64)) {
      ZUSE_CHECK(word[i] == 0);  // lists below would be forgotten; totals of old forms may be
    }
  }
}

Blkptr canonical_entry(const Blkptr& blkptr, bool freed) noexcept {
  Blkptr out = blkptr;
  if (out.embedded) {
    out.payload = {};
  } else {
    out.fill = freed ? 1 : 0;
    if (!out.dedup) {
      out.checksum = {};
    }
  }
  return out;
}

}  // namespace zuse::format
