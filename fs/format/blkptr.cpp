#include "fs/format/blkptr.h"

#include <string>

namespace zuse::format {
namespace {

constexpr unsigned kSectorShift = 9;
constexpr std::size_t kProperties = 6;  // indices of words
constexpr std::size_t kFlags = 7;
constexpr std::size_t kPhysicalBirth = 9;
constexpr std::size_t kLogicalBirth = 10;
constexpr std::size_t kFill = 11;
constexpr std::size_t kChecksum = 12;
constexpr std::size_t kPayloadWords[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15};
constexpr std::uint8_t kChecksums = 15;
constexpr std::uint8_t kCompressions = 17;
constexpr std::uint8_t kEmbeddedTypes = 3;
constexpr std::uint32_t kPayloadSize = 112;

Dva decode_dva(std::uint64_t word0, std::uint64_t word1) noexcept {
  return {.vdev = static_cast<std::uint32_t>(bits(word0, 32, 24)),
          .asize = bits(word0, 0, 24) << kSectorShift,
          .offset = bits(word1, 0, 63) << kSectorShift,
          .gang = bits(word1, 63, 1) != 0};
}

Result<void> bad(const std::string& what) {
  return fail(Errc::corrupt, "block pointer: " + what);
}

}  // namespace

unsigned Blkptr::copies() const noexcept {
  if (embedded) {
    return 0;
  }
  // An encrypted pointer keeps its salt where the third copy would be named.
  const std::size_t places = encrypted ? 2 : dva.size();
  unsigned count = 0;
  for (std::size_t i = 0; i < places; ++i) {
    count += dva[i].asize != 0 ? 1U : 0U;
  }
  return count;
}

Blkptr decode(const BlkptrPhys& phys, ByteOrder order) noexcept {
  std::array<std::uint64_t, 16> word{};
  for (std::size_t i = 0; i < word.size(); ++i) {
    word[i] = phys.word[i].load(order);
  }
  const std::uint64_t properties = word[kProperties];
  Blkptr out;
  out.compression = static_cast<Compression>(bits(properties, 32, 7));
  out.embedded = bits(properties, 39, 1) != 0;
  out.type = static_cast<ObjectType>(bits(properties, 48, 8));
  out.level = static_cast<std::uint8_t>(bits(properties, 56, 5));
  out.encrypted = bits(properties, 61, 1) != 0;
  out.dedup = bits(properties, 62, 1) != 0;
  out.order = bits(properties, 63, 1) != 0 ? ByteOrder::little : ByteOrder::big;
  out.logical_birth = word[kLogicalBirth];
  if (out.embedded) {
    out.lsize = static_cast<std::uint32_t>(bits(properties, 0, 25)) + 1;
    out.psize = static_cast<std::uint32_t>(bits(properties, 25, 7)) + 1;
    out.embedded_type = static_cast<std::uint8_t>(bits(properties, 40, 8));
    std::size_t at = 0;
    for (const std::size_t from : kPayloadWords) {
      store_at<std::uint64_t>(out.payload, at, word[from], ByteOrder::little);
      at += sizeof(std::uint64_t);
    }
    return out;
  }
  for (std::size_t i = 0; i < out.dva.size(); ++i) {
    out.dva[i] = decode_dva(word[2 * i], word[2 * i + 1]);
  }
  const bool hole = out.is_hole();
  // A hole that remembers nothing has no sizes, and no hole has one on disk.
  if (properties != 0 || !hole) {
    out.lsize = (static_cast<std::uint32_t>(bits(properties, 0, 16)) + 1) << kSectorShift;
  }
  if (hole) {
    out.order = kHostOrder;  // there are no bytes to have an order
  } else {
    out.psize = (static_cast<std::uint32_t>(bits(properties, 16, 16)) + 1) << kSectorShift;
  }
  out.checksum_type = static_cast<Checksum>(bits(properties, 40, 8));
  out.rewritten = bits(word[kFlags], 63, 1) != 0;
  out.physical_birth = word[kPhysicalBirth];
  out.fill = word[kFill];
  for (std::size_t i = 0; i < out.checksum.size(); ++i) {
    out.checksum[i] = word[kChecksum + i];
  }
  return out;
}

BlkptrPhys encode(const Blkptr& blkptr, ByteOrder order) noexcept {
  std::array<std::uint64_t, 16> word{};
  std::uint64_t properties = 0;
  properties = with_bits(properties, 32, 7, static_cast<std::uint64_t>(blkptr.compression));
  properties = with_bits(properties, 39, 1, blkptr.embedded ? 1 : 0);
  properties = with_bits(properties, 48, 8, static_cast<std::uint64_t>(blkptr.type));
  properties = with_bits(properties, 56, 5, blkptr.level);
  properties = with_bits(properties, 61, 1, blkptr.encrypted ? 1 : 0);
  properties = with_bits(properties, 62, 1, blkptr.dedup ? 1 : 0);
  properties = with_bits(properties, 63, 1, blkptr.order == ByteOrder::little ? 1 : 0);
  word[kLogicalBirth] = blkptr.logical_birth;
  if (blkptr.embedded) {
    properties = with_bits(properties, 0, 25, blkptr.lsize - 1U);
    properties = with_bits(properties, 25, 7, blkptr.psize - 1U);
    properties = with_bits(properties, 40, 8, blkptr.embedded_type);
    std::size_t at = 0;
    for (const std::size_t to : kPayloadWords) {
      word[to] = load_at<std::uint64_t>(blkptr.payload, at, ByteOrder::little);
      at += sizeof(std::uint64_t);
    }
  } else {
    for (std::size_t i = 0; i < blkptr.dva.size(); ++i) {
      const Dva& dva = blkptr.dva[i];
      word[2 * i] = with_bits(with_bits(0, 0, 24, dva.asize >> kSectorShift), 32, 24, dva.vdev);
      word[2 * i + 1] =
          with_bits(with_bits(0, 0, 63, dva.offset >> kSectorShift), 63, 1, dva.gang ? 1 : 0);
    }
    if (blkptr.lsize != 0) {
      properties = with_bits(properties, 0, 16, (blkptr.lsize >> kSectorShift) - 1U);
    }
    if (blkptr.psize != 0) {
      properties = with_bits(properties, 16, 16, (blkptr.psize >> kSectorShift) - 1U);
    }
    properties = with_bits(properties, 40, 8, static_cast<std::uint64_t>(blkptr.checksum_type));
    word[kFlags] = with_bits(0, 63, 1, blkptr.rewritten ? 1 : 0);
    word[kPhysicalBirth] = blkptr.physical_birth;
    word[kFill] = blkptr.fill;
    for (std::size_t i = 0; i < blkptr.checksum.size(); ++i) {
      word[kChecksum + i] = blkptr.checksum[i];
    }
    // Holes leave the mark of the byte order clear, so that one without memory is all zeros.
    if (blkptr.is_hole()) {
      properties = with_bits(properties, 63, 1, 0);
    }
  }
  word[kProperties] = properties;
  BlkptrPhys phys;
  for (std::size_t i = 0; i < word.size(); ++i) {
    phys.word[i].store(word[i], order);
  }
  return phys;
}

Result<void> check(const Blkptr& blkptr, const VdevSizes& vdevs) {
  if (!is_valid(blkptr.type)) {
    return bad("object type " + std::to_string(static_cast<unsigned>(blkptr.type)));
  }
  if (static_cast<std::uint8_t>(blkptr.compression) >= kCompressions) {
    return bad("compression " + std::to_string(static_cast<unsigned>(blkptr.compression)));
  }
  if (blkptr.lsize > kMaxBlockSize) {
    return bad("logical size " + std::to_string(blkptr.lsize));
  }
  if (blkptr.embedded) {
    if (blkptr.embedded_type >= kEmbeddedTypes) {
      return bad("embedded type " + std::to_string(blkptr.embedded_type));
    }
    if (blkptr.psize > kPayloadSize) {
      return bad("embedded size " + std::to_string(blkptr.psize));
    }
    return {};
  }
  if (blkptr.is_hole()) {
    return {};
  }
  if (static_cast<std::uint8_t>(blkptr.checksum_type) >= kChecksums) {
    return bad("checksum " + std::to_string(static_cast<unsigned>(blkptr.checksum_type)));
  }
  if (blkptr.psize > kMaxBlockSize) {
    return bad("physical size " + std::to_string(blkptr.psize));
  }
  if (blkptr.dva[0].asize == 0) {
    return bad("first copy without a size");
  }
  const std::size_t places = blkptr.encrypted ? 2 : blkptr.dva.size();
  for (std::size_t i = 0; i < places; ++i) {
    const Dva& dva = blkptr.dva[i];
    if (dva.asize == 0) {
      continue;
    }
    if (dva.gang != blkptr.dva[0].gang) {
      return bad("gang and plain copies mixed");
    }
    if (dva.vdev >= vdevs.asize.size() || vdevs.asize[dva.vdev] == 0) {
      return bad("copy " + std::to_string(i) + " on vdev " + std::to_string(dva.vdev));
    }
    // What lies at a gang's place is its header; the size field counts its parts as well.
    const std::uint64_t length = dva.gang ? std::uint64_t{1} << kSectorShift : dva.asize;
    const std::uint64_t limit = vdevs.asize[dva.vdev];
    if (dva.offset > limit || limit - dva.offset < length) {
      return bad("copy " + std::to_string(i) + " past the end of vdev " + std::to_string(dva.vdev));
    }
  }
  return {};
}

Blkptr make_hole(std::uint32_t lsize, ObjectType type, std::uint8_t level, std::uint64_t birth_txg,
                 bool hole_birth) noexcept {
  Blkptr hole;
  if (hole_birth && birth_txg != 0) {
    hole.lsize = lsize;
    hole.type = type;
    hole.level = level;
    hole.logical_birth = birth_txg;
  }
  return hole;
}

}  // namespace zuse::format
