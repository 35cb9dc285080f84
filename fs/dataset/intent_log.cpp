#include "fs/dataset/intent_log.h"

#include "vdev/base/on_disk.h"

namespace zuse::dataset {
namespace {

constexpr std::size_t kChainSize = 184, kNextOffset = 8, kUsedOffset = 136;
constexpr std::size_t kRecordHead = 32, kRecordSizeOffset = 8, kRecordTxgOffset = 16;
constexpr unsigned kBlocksMax = 1U << 20U;

}  // namespace

Result<bool> log_has_records_after(pool::BlockStore& store, std::uint64_t objset,
                                   const format::ZilHeader& header, std::uint64_t synced_txg) {
  format::Blkptr at = header.log;
  for (unsigned count = 0; !at.is_hole(); ++count) {
    if (count == kBlocksMax) {
      return fail(Errc::corrupt, "the intent log has no end");
    }
    // A block that does not verify was allocated ahead and never written: the log ends before it.
    const auto contents =
        store.read(at, {objset, 0, -2, at.checksum[3]}, {.cache = false, .prefetch = true});
    if (!contents || *contents == nullptr || (*contents)->size() < kChainSize) {
      return false;
    }
    const std::span<const std::byte> bytes = (*contents)->span();
    const bool slim = at.checksum_type == format::Checksum::zilog2;
    const std::size_t chain = slim ? 0 : bytes.size() - kChainSize;
    const auto used = load_at<std::uint64_t>(bytes, chain + kUsedOffset, at.order);
    if (used > (slim ? bytes.size() : chain)) {
      return false;
    }
    for (std::uint64_t record = slim ? kChainSize : 0; record + kRecordHead <= used;) {
      const auto size = load_at<std::uint64_t>(bytes, record + kRecordSizeOffset, at.order);
      if (size < kRecordHead || size > used - record) {
        return false;
      }
      if (load_at<std::uint64_t>(bytes, record + kRecordTxgOffset, at.order) > synced_txg) {
        return true;
      }
      record += size;
    }
    ZUSE_TRY(const auto phys, read_at<format::BlkptrPhys>(bytes, chain + kNextOffset));
    const format::Blkptr next = format::decode(phys, at.order);
    auto expected = at.checksum;
    ++expected[3];
    if (next.checksum != expected) {
      return false;
    }
    at = next;
  }
  return false;
}

}  // namespace zuse::dataset
