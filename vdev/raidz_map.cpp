#include "vdev/raidz_map.h"

#include <utility>

#include "vdev/base/result.h"
#include "vdev/base/units.h"
#include "vdev/tree.h"

namespace zuse::vdev {
namespace {

constexpr std::uint64_t kSwapBit = std::uint64_t{1} << 20;  // of the byte offset
constexpr unsigned kMinBlockShift = 9;
constexpr std::uint64_t kDeflateBlock = 131072;

}  // namespace

void map_block(const RaidzShape& shape, std::uint64_t offset, std::uint64_t size, RaidzMap& map) {
  const std::uint64_t n = shape.children, p = shape.parity;
  ZUSE_CHECK(p >= 1 && p < n && size != 0);
  const std::uint64_t first = offset >> shape.ashift;
  const std::uint64_t sectors = size >> shape.ashift;
  ZUSE_CHECK(first << shape.ashift == offset && sectors << shape.ashift == size);
  const std::uint64_t full_rows = sectors / (n - p);
  const std::uint64_t rest = sectors % (n - p);
  const std::uint64_t big = rest == 0 ? 0 : rest + p;  // columns with one sector more
  const std::uint64_t count = full_rows == 0 ? big : n;
  map.parity = shape.parity;
  map.columns.clear();
  for (std::uint64_t c = 0; c < count; ++c) {
    std::uint64_t child = first % n + c;
    std::uint64_t child_offset = first / n << shape.ashift;
    if (child >= n) {
      child -= n;
      child_offset += pow2(shape.ashift);
    }
    const std::uint64_t rows = full_rows + (c < big ? 1 : 0);
    map.columns.push_back({static_cast<unsigned>(child), child_offset, rows << shape.ashift});
  }
  if (p == 1 && (offset & kSwapBit) != 0) {
    std::swap(map.columns[0].child, map.columns[1].child);
    std::swap(map.columns[0].offset, map.columns[1].offset);
  }
}

std::uint64_t TopGeometry::psize_to_asize(std::uint64_t psize) const noexcept {
  const std::uint64_t data = div_ceil(psize, pow2(ashift));
  if (parity == 0) {
    return data << ashift;
  }
  const std::uint64_t total = data + parity * div_ceil(data, children - parity);
  return round_up(total, parity + 1) << ashift;
}

std::uint64_t TopGeometry::deflate_ratio() const noexcept {
  return kDeflateBlock / (psize_to_asize(kDeflateBlock) >> kMinBlockShift);
}

}  // namespace zuse::vdev
