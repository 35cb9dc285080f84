#include "fs/pool/label.h"

#include <algorithm>
#include <map>

#include "fs/codec/checksum.h"

namespace zuse::pool {
namespace {

constexpr std::size_t kConfigCapacity = kLabelConfigSize - codec::kSealSize;

codec::ChecksumWords verifier_at(std::uint64_t device_offset) {
  return {device_offset, 0, 0, 0};
}

Result<void> check_size(const vdev::BlockDevice& device) {
  return device.size() < kLeafSizeMin
             ? fail(Errc::invalid, device.name() + " is smaller than 64 MiB: no device of a pool")
             : Result<void>();
}

// Seals a buffer that will lie at a device offset.
Buffer sealed(Buffer bytes, std::uint64_t device_offset) {
  codec::seal(format::Checksum::label, bytes.span(), verifier_at(device_offset), kHostOrder);
  return bytes;
}

Result<void> write_all(vdev::BlockDevice& device, std::span<const LabelWrite> writes) {
  for (const LabelWrite& write : writes) {
    ZUSE_TRY_VOID(device.write(write.offset, write.bytes.span(), vdev::IoPurpose::label));
  }
  return {};
}

}  // namespace

unsigned choose_metaslab_shift(std::uint64_t asize) noexcept {
  constexpr unsigned kUsual = 29, kMin = 24, kMax = 34;
  constexpr std::uint64_t kFew = 16, kMany = 200, kMost = 131072;
  // One-based position of the highest bit.
  const auto high_bit = [](std::uint64_t value) {
    return static_cast<unsigned>(std::bit_width(value));
  };
  const std::uint64_t count = asize >> kUsual;
  unsigned shift = count < kFew    ? high_bit(asize / kFew)
                   : count > kMany ? high_bit(asize / kMany)
                                   : kUsual;
  shift = std::max(shift, kMin);
  if (shift > kMax) {
    shift = asize >> kMax > kMost ? high_bit(asize / kMost) : kMax;
  }
  return shift;
}

Result<LabelWrite> label_write(std::uint64_t device_size, unsigned index,
                               const codec::NvList& config) {
  const std::vector<std::byte> packed = config.encode_xdr();
  if (packed.size() > kConfigCapacity) {
    return fail(Errc::too_large, "the configuration has " + std::to_string(packed.size()) +
                                     " bytes and does not fit into a label");
  }
  LabelWrite write{label_offset(index, device_size) + kLabelConfigOffset,
                   Buffer::zeroed(kLabelConfigSize)};
  std::ranges::copy(packed, write.bytes.data());
  write.bytes = sealed(std::move(write.bytes), write.offset);
  return write;
}

std::array<LabelWrite, kLabels> uberblock_writes(std::uint64_t device_size,
                                                 const format::Uberblock& uberblock,
                                                 unsigned ashift, bool multihost) {
  std::array<LabelWrite, kLabels> writes;
  const std::uint64_t slot = uberblock_slot(uberblock.txg, ashift, multihost);
  const std::uint64_t size = pow2(uberblock_shift(ashift));
  for (unsigned i = 0; i < kLabels; ++i) {
    writes[i].offset = label_offset(i, device_size) + kUberblockRingOffset + slot * size;
    Buffer bytes = Buffer::zeroed(size);
    format::encode_uberblock(uberblock, bytes.span());
    writes[i].bytes = sealed(std::move(bytes), writes[i].offset);
  }
  return writes;
}

Result<void> write_label(vdev::BlockDevice& device, unsigned index, const codec::NvList& config) {
  ZUSE_TRY_VOID(check_size(device));
  ZUSE_TRY(const LabelWrite write, label_write(device.size(), index, config));
  return device.write(write.offset, write.bytes.span(), vdev::IoPurpose::label);
}

Result<void> write_uberblock(vdev::BlockDevice& device, const format::Uberblock& uberblock,
                             unsigned ashift, bool multihost) {
  ZUSE_TRY_VOID(check_size(device));
  Result<void> outcome = fail(Errc::io, "no label took the uberblock");
  bool any = false;
  for (const LabelWrite& write : uberblock_writes(device.size(), uberblock, ashift, multihost)) {
    auto written = device.write(write.offset, write.bytes.span(), vdev::IoPurpose::label);
    any |= written.has_value();
    if (!written) {
      outcome = std::move(written);
    }
  }
  return any ? Result<void>() : outcome;
}

Result<void> wipe_labels(vdev::BlockDevice& device) {
  ZUSE_TRY_VOID(check_size(device));
  for (unsigned i = 0; i < kLabels; ++i) {
    const std::uint64_t start = label_offset(i, device.size());
    std::vector<LabelWrite> writes;
    writes.push_back(
        {start + kBootEnvOffset, sealed(Buffer::zeroed(kBootEnvSize), start + kBootEnvOffset)});
    writes.push_back({start + kLabelConfigOffset, Buffer::zeroed(kLabelConfigSize)});
    writes.push_back({start + kUberblockRingOffset, Buffer::zeroed(kUberblockRingSize)});
    ZUSE_TRY_VOID(write_all(device, writes));
  }
  return device.flush();
}

Result<void> clear_labels(vdev::BlockDevice& device) {
  ZUSE_TRY_VOID(check_size(device));
  for (unsigned i = 0; i < kLabels; ++i) {
    const std::uint64_t start = label_offset(i, device.size());
    std::vector<LabelWrite> writes;
    writes.push_back({start + kLabelConfigOffset, Buffer::zeroed(kLabelConfigSize)});
    writes.push_back({start + kUberblockRingOffset, Buffer::zeroed(kUberblockRingSize)});
    ZUSE_TRY_VOID(write_all(device, writes));
  }
  return device.flush();
}

const codec::NvList* LabelSet::config_at(std::uint64_t txg) const noexcept {
  const codec::NvList* best = nullptr;
  std::uint64_t best_txg = 0;
  for (const auto& list : copy) {
    if (!list) {
      continue;
    }
    const std::uint64_t label_txg = list->u64_or("txg", 0);
    if (label_txg <= txg && (best == nullptr || label_txg > best_txg)) {
      best = &*list;
      best_txg = label_txg;
    }
  }
  return best;
}

Result<LabelSet> read_labels(vdev::BlockDevice& device) {
  ZUSE_TRY_VOID(check_size(device));
  LabelSet set;
  bool any = false, gone = true;
  std::uint64_t newest_txg = 0;
  std::string why;
  for (unsigned i = 0; i < kLabels; ++i) {
    const std::uint64_t at = label_offset(i, device.size()) + kLabelConfigOffset;
    Buffer bytes(kLabelConfigSize);
    const auto parse = [&]() -> Result<codec::NvList> {
      ZUSE_TRY_VOID(device.read(at, bytes.span(), vdev::IoPurpose::label));
      gone = false;
      ZUSE_TRY_VOID(codec::verify_sealed(format::Checksum::label, bytes.span(), verifier_at(at)));
      return codec::NvList::decode(bytes.span().first(kConfigCapacity));
    };
    auto list = parse();
    if (!list) {
      gone &= list.error().code() == Errc::gone;
      why += (why.empty() ? "label " : "; label ") + std::to_string(i) + ": " + list.error().what();
      set.bad[i] = std::move(list).error();
      continue;
    }
    const std::uint64_t txg = list->u64_or("txg", 0);
    if (!any || txg > newest_txg) {
      set.newest = i;
      newest_txg = txg;
    }
    any = true;
    set.copy[i] = *std::move(list);
  }
  if (!any) {
    return fail(gone ? Errc::gone : Errc::corrupt,
                device.name() + " has no label that verifies (" + why + ")");
  }
  return set;
}

Result<std::vector<format::Uberblock>> read_uberblocks(vdev::BlockDevice& device, unsigned ashift) {
  ZUSE_TRY_VOID(check_size(device));
  std::vector<format::Uberblock> found;
  bool read = false;
  Error why(Errc::corrupt, device.name() + " has no uberblock that verifies");
  for (unsigned i = 0; i < kLabels; ++i) {
    const std::uint64_t ring = label_offset(i, device.size()) + kUberblockRingOffset;
    Buffer bytes(kUberblockRingSize);
    auto got = device.read(ring, bytes.span(), vdev::IoPurpose::label);
    if (!got) {
      why = std::move(got).error();
      continue;
    }
    read = true;
    const std::uint64_t size = pow2(uberblock_shift(ashift));
    for (std::uint64_t at = 0; at < kUberblockRingSize; at += size) {
      const auto slot = std::as_const(bytes).span().subspan(at, size);
      if (!codec::verify_sealed(format::Checksum::label, slot, verifier_at(ring + at))) {
        continue;
      }
      const auto uberblock = format::decode_uberblock(slot);
      if (uberblock && std::ranges::find(found, *uberblock) == found.end()) {
        found.push_back(*uberblock);
      }
    }
  }
  if (found.empty()) {
    return read ? fail(Errc::corrupt, device.name() + " has no uberblock that verifies")
                : Result<std::vector<format::Uberblock>>(std::unexpected(std::move(why)));
  }
  std::ranges::sort(found, format::is_newer);
  return found;
}

Result<format::Uberblock> best_uberblock(std::span<const RingSource> sources,
                                         std::uint64_t max_txg) {
  std::optional<format::Uberblock> best;
  for (const RingSource& source : sources) {
    const auto found = read_uberblocks(*source.device, source.ashift);
    if (!found) {
      continue;
    }
    for (const format::Uberblock& uberblock : *found) {
      if (uberblock.txg <= max_txg && (!best || format::is_newer(uberblock, *best))) {
        best = uberblock;
      }
    }
  }
  if (!best) {
    return fail(Errc::not_found, "no uberblock verifies");
  }
  return *best;
}

}  // namespace zuse::pool
