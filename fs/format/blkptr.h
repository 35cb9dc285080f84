// Blkptr, block pointer: where up to three copies of a block lie, how it was compressed and
// checksummed, and when it was born. Dva, data virtual address: (vdev, offset, length) of one copy.
//
// On disk 128 bytes, 16 words; drawn word by word in fs/format/README.md.
// source: format page 02 section 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/format/types.h"
#include "vdev/base/on_disk.h"
#include "vdev/base/units.h"

namespace zuse::format {

struct Dva {
  std::uint32_t vdev = 0;
  std::uint64_t asize = 0;   // bytes, allocated; 0: this copy does not exist
  std::uint64_t offset = 0;  // bytes in the vdev's allocatable area
  bool gang = false;
  bool operator==(const Dva&) const = default;
};

struct Blkptr {
  std::array<Dva, 3> dva{};
  std::uint32_t lsize = 0;  // bytes before compression
  std::uint32_t psize = 0;  // bytes on disk
  Compression compression = Compression::inherit;
  Checksum checksum_type = Checksum::inherit;
  ObjectType type = ObjectType::none;
  std::uint8_t level = 0;
  bool embedded = false;
  bool encrypted = false;
  bool dedup = false;
  bool rewritten = false;
  ByteOrder order = kHostOrder;      // of the block pointed to
  std::uint8_t embedded_type = 0;    // 0 data, 2 redacted
  std::uint64_t physical_birth = 0;  // 0: the same as logical
  std::uint64_t logical_birth = 0;
  std::uint64_t fill = 0;
  std::array<std::uint64_t, 4> checksum{};
  std::array<std::byte, 112> payload{};  // embedded only: psize bytes of it

  bool is_hole() const noexcept { return !embedded && dva[0] == Dva{}; }
  bool is_gang() const noexcept { return !embedded && dva[0].gang; }
  // Number of copies on disk. 0 for holes and embedded pointers.
  unsigned copies() const noexcept;
  // The txg in which the bytes were written: for gang headers, dirty time logs, scan ranges.
  std::uint64_t birth() const noexcept {
    return physical_birth != 0 ? physical_birth : logical_birth;
  }
  // The txg that decides whether a snapshot holds the block (format page 07, "allocation birth").
  std::uint64_t allocation_birth() const noexcept { return rewritten ? birth() : logical_birth; }
  // 1 for embedded pointers, which store no count; 0 for holes.
  std::uint64_t fill_count() const noexcept { return is_hole() ? 0 : embedded ? 1 : fill; }
  bool operator==(const Blkptr&) const = default;
};

struct BlkptrPhys {
  std::array<U64, 16> word;
};
static_assert(OnDisk<BlkptrPhys> && sizeof(BlkptrPhys) == 128);
inline constexpr std::size_t kBlkptrSize = 128;

// `order` is that of the block which holds the pointer. decode() of any bytes succeeds; check()
// says whether the result may be followed.
Blkptr decode(const BlkptrPhys& phys, ByteOrder order) noexcept;
BlkptrPhys encode(const Blkptr& blkptr, ByteOrder order) noexcept;

// A vdev's allocatable size by id; 0: no such vdev, or a hole.
struct VdevSizes {
  std::span<const std::uint64_t> asize;
};
// The checks of format page 02 section 1.7: types, sizes, and that every DVA lies within its vdev.
// errors: corrupt (said which field).
Result<void> check(const Blkptr& blkptr, const VdevSizes& vdevs);

// The hole that a freed or all-zero block leaves behind. With hole_birth: lsize, type, level and
// birth are kept; without (or birth 0): all zero. source: format page 05 section 4.3.
Blkptr make_hole(std::uint32_t lsize, ObjectType type, std::uint8_t level, std::uint64_t birth_txg,
                 bool hole_birth) noexcept;

}  // namespace zuse::format
