#include "fs/format/dnode_phys.h"

#include <algorithm>
#include <string>

namespace zuse::format {
namespace {

// Byte offsets within a dnode.
constexpr std::size_t kType = 0;
constexpr std::size_t kIndirectShift = 1;
constexpr std::size_t kLevels = 2;
constexpr std::size_t kBlkptrCount = 3;
constexpr std::size_t kBonusType = 4;
constexpr std::size_t kChecksum = 5;
constexpr std::size_t kCompression = 6;
constexpr std::size_t kFlags = 7;
constexpr std::size_t kBlockSectors = 8;
constexpr std::size_t kBonusLength = 10;
constexpr std::size_t kExtraSlots = 12;
constexpr std::size_t kMaxBlock = 16;
constexpr std::size_t kUsed = 24;

constexpr unsigned kSectorShift = 9;
constexpr std::uint8_t kLevelsMax = 30;
constexpr std::size_t kBlkptrMax = 3;
constexpr std::uint8_t kIndirectShiftMin = 10;
constexpr std::uint8_t kIndirectShiftMax = 17;

Result<DnodePhys> bad(const char* field, std::uint64_t value) {
  return fail(Errc::corrupt, std::string("dnode: ") + field + " " + std::to_string(value));
}

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::uint8_t>(bytes[at]);
}

Blkptr blkptr_at(std::span<const std::byte> bytes, std::size_t at, ByteOrder order) {
  BlkptrPhys phys;
  std::memcpy(&phys, bytes.data() + at, sizeof phys);
  return decode(phys, order);
}

}  // namespace

Result<DnodePhys> decode_dnode(std::span<const std::byte> slot, ByteOrder order) {
  if (slot.size() < kDnodeSlotSize) {
    return bad("cut short at byte", slot.size());
  }
  DnodePhys out;
  out.type = static_cast<ObjectType>(byte_at(slot, kType));
  if (out.type == ObjectType::none) {
    return out;
  }
  out.indirect_shift = byte_at(slot, kIndirectShift);
  out.levels = byte_at(slot, kLevels);
  const std::size_t blkptrs = byte_at(slot, kBlkptrCount);
  out.bonus_type = static_cast<ObjectType>(byte_at(slot, kBonusType));
  out.checksum = byte_at(slot, kChecksum);
  out.compression = byte_at(slot, kCompression);
  out.flags = byte_at(slot, kFlags);
  const std::uint32_t sectors = load_at<std::uint16_t>(slot, kBlockSectors, order);
  const std::size_t bonus_length = load_at<std::uint16_t>(slot, kBonusLength, order);
  out.extra_slots = byte_at(slot, kExtraSlots);
  out.max_block = load_at<std::uint64_t>(slot, kMaxBlock, order);
  out.used = load_at<std::uint64_t>(slot, kUsed, order);
  out.block_size = sectors << kSectorShift;

  if (!is_valid(out.type)) {
    return bad("type", static_cast<std::uint64_t>(out.type));
  }
  if (!is_valid(out.bonus_type)) {
    return bad("bonus type", static_cast<std::uint64_t>(out.bonus_type));
  }
  if (out.indirect_shift < kIndirectShiftMin || out.indirect_shift > kIndirectShiftMax) {
    return bad("indirect block shift", out.indirect_shift);
  }
  if (out.levels < 1 || out.levels > kLevelsMax) {
    return bad("levels", out.levels);
  }
  if (blkptrs < 1 || blkptrs > kBlkptrMax) {
    return bad("number of block pointers", blkptrs);
  }
  if (sectors == 0) {
    return bad("block size", 0);
  }
  if (out.slots() > kDnodeSlotsMax) {
    return bad("extra slots", out.extra_slots);
  }
  const std::size_t size = out.slots() * kDnodeSlotSize;
  if (slot.size() < size) {
    return bad("runs past its block, slots", out.slots());
  }
  const bool spill = (out.flags & kDnodeSpill) != 0;
  const std::size_t bonus_at = kDnodeCoreSize + blkptrs * kBlkptrSize;
  const std::size_t bonus_end = size - (spill ? kBlkptrSize : 0);
  if (bonus_at > bonus_end || bonus_length > bonus_end - bonus_at) {
    return bad("bonus length", bonus_length);
  }

  out.blkptr.reserve(blkptrs);
  for (std::size_t i = 0; i < blkptrs; ++i) {
    out.blkptr.push_back(blkptr_at(slot, kDnodeCoreSize + i * kBlkptrSize, order));
  }
  const auto bonus = slot.subspan(bonus_at, bonus_length);
  out.bonus.assign(bonus.begin(), bonus.end());
  if (spill) {
    out.spill = blkptr_at(slot, bonus_end, order);
  }
  return out;
}

void encode_dnode(const DnodePhys& dnode, std::span<std::byte> slot, ByteOrder order) {
  const std::size_t size = dnode.slots() * kDnodeSlotSize;
  ZUSE_CHECK(dnode.slots() <= kDnodeSlotsMax && slot.size() >= size);
  std::ranges::fill(slot.first(size), std::byte{0});
  if (dnode.type == ObjectType::none) {
    return;
  }
  const bool spill = dnode.spill.has_value();
  ZUSE_CHECK(spill == ((dnode.flags & kDnodeSpill) != 0));
  ZUSE_CHECK(!dnode.blkptr.empty() && dnode.blkptr.size() <= kBlkptrMax);
  ZUSE_CHECK(dnode.block_size != 0 && dnode.block_size % (1U << kSectorShift) == 0 &&
             (dnode.block_size >> kSectorShift) <= 0xffff);
  const std::size_t bonus_at = kDnodeCoreSize + dnode.blkptr.size() * kBlkptrSize;
  const std::size_t bonus_end = size - (spill ? kBlkptrSize : 0);
  ZUSE_CHECK(bonus_at <= bonus_end && dnode.bonus.size() <= bonus_end - bonus_at);

  const auto put = [&](std::size_t at, std::uint8_t value) { slot[at] = std::byte{value}; };
  put(kType, static_cast<std::uint8_t>(dnode.type));
  put(kIndirectShift, dnode.indirect_shift);
  put(kLevels, dnode.levels);
  put(kBlkptrCount, static_cast<std::uint8_t>(dnode.blkptr.size()));
  put(kBonusType, static_cast<std::uint8_t>(dnode.bonus_type));
  put(kChecksum, dnode.checksum);
  put(kCompression, dnode.compression);
  put(kFlags, dnode.flags);
  store_at<std::uint16_t>(slot, kBlockSectors,
                          static_cast<std::uint16_t>(dnode.block_size >> kSectorShift), order);
  store_at<std::uint16_t>(slot, kBonusLength, static_cast<std::uint16_t>(dnode.bonus.size()),
                          order);
  put(kExtraSlots, dnode.extra_slots);
  store_at<std::uint64_t>(slot, kMaxBlock, dnode.max_block, order);
  store_at<std::uint64_t>(slot, kUsed, dnode.used, order);
  for (std::size_t i = 0; i < dnode.blkptr.size(); ++i) {
    write_at(slot, kDnodeCoreSize + i * kBlkptrSize, encode(dnode.blkptr[i], order));
  }
  std::ranges::copy(dnode.bonus, slot.begin() + static_cast<std::ptrdiff_t>(bonus_at));
  if (spill) {
    write_at(slot, bonus_end, encode(*dnode.spill, order));
  }
}

Result<void> for_each_dnode(
    std::span<const std::byte> block,
    const std::function<Result<void>(std::size_t slot, std::span<const std::byte> dnode)>& visit) {
  const std::size_t slots = block.size() / kDnodeSlotSize;
  for (std::size_t slot = 0; slot < slots;) {
    const auto rest = block.subspan(slot * kDnodeSlotSize);
    if (byte_at(rest, kType) == 0) {
      ++slot;
      continue;
    }
    const std::size_t taken = std::size_t{1} + byte_at(rest, kExtraSlots);
    if (taken > slots - slot) {
      return fail(Errc::corrupt, "dnode in slot " + std::to_string(slot) + " runs past its block");
    }
    ZUSE_TRY_VOID(visit(slot, rest.first(taken * kDnodeSlotSize)));
    slot += taken;
  }
  return {};
}

Result<std::uint64_t> count_dnodes(std::span<const std::byte> block) {
  std::uint64_t count = 0;
  ZUSE_TRY_VOID(for_each_dnode(block, [&](std::size_t, std::span<const std::byte>) -> Result<void> {
    ++count;
    return {};
  }));
  return count;
}

}  // namespace zuse::format
