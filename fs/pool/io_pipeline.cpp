// What all parts of the pipeline share: its construction, the rules of who can be verified, and the
// giving back of space.
#include "fs/pool/io_pipeline.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "fs/format/gang.h"
#include "fs/pool/io_block.h"
#include "vdev/base/log.h"

namespace zuse::pool {
namespace {

spdlog::logger& log() {
  static auto& l = layer_log("pool");
  return l;
}

}  // namespace

std::string to_string(const Bookmark& bookmark) {
  return fmt::format("block {}/{}/{}/{}", bookmark.objset, bookmark.object, bookmark.level,
                     bookmark.block);
}

Result<void> verify_contents(const format::Blkptr& blkptr, std::span<const std::byte> data) {
  if (is_sealed(blkptr.checksum_type)) {
    ZUSE_TRY_VOID(codec::verify_sealed(blkptr.checksum_type, data, blkptr.checksum));
    return {};
  }
  return codec::verify_block(blkptr, data);
}

Result<void> check_verifiable(const format::Blkptr& blkptr) {
  return is_sealed(blkptr.checksum_type) ? Result<void>{}
                                         : codec::check_supported(blkptr.checksum_type);
}

bool is_encrypted_type(format::ObjectType type) noexcept {
  const auto number = static_cast<unsigned>(type);
  if ((number & 0x80U) != 0) {
    return (number & 0x20U) != 0;
  }
  switch (number) {
    case 9:
    case 10:
    case 18:
    case 19:
    case 20:
    case 22:
    case 23:
    case 25:
    case 26:
    case 33:
    case 34:
    case 35:
    case 39:
    case 40:
    case 44:
    case 45:
    case 46:
    case 47:
    case 49: return true;
    default: return false;
  }
}

IoPipeline::IoPipeline(vdev::VdevTree& tree, Allocator& allocator, Cache& cache, CpuPool& cpu,
                       bool read_only)
    : tree_(tree), allocator_(allocator), cache_(cache), cpu_(cpu), read_only_(read_only) {
  std::uint64_t smallest = 0, gcd = 0;
  for (unsigned top = 0; top < tree.top_count(); ++top) {
    const vdev::TopGeometry geometry = tree.geometry(top);
    // A vdev that is not there now may be later: pointers to it are sound, only not readable.
    vdev_sizes_.push_back(geometry.asize);
    if (geometry.asize != 0 && allocator.is_allocatable(top)) {
      const std::uint64_t sector = pow2(geometry.ashift);
      smallest = smallest == 0 ? sector : std::min(smallest, sector);
      gcd = std::gcd(gcd, sector);
    }
  }
  if (smallest != 0) {
    smallest_sector_ = smallest;
    sector_gcd_ = gcd;
  }
}

IoPipeline::~IoPipeline() = default;

void IoPipeline::set_features(PipelineFeatures features) {
  hole_birth_ = features.hole_birth;
  embedded_data_ = features.embedded_data;
}

PipelineFeatures IoPipeline::features() const {
  return {hole_birth_, embedded_data_};
}

SharedBuffer IoPipeline::cached(const format::Blkptr& blkptr) {
  if (blkptr.is_hole() || blkptr.embedded) {
    return nullptr;
  }
  SharedBuffer block = cache_.get(cache_key(blkptr));
  return block != nullptr && block->size() == blkptr.lsize ? block : nullptr;
}

Result<void> IoPipeline::check_pointer(const format::Blkptr& blkptr) const {
  ZUSE_TRY_VOID(format::check(blkptr, format::VdevSizes{vdev_sizes_}));
  if (blkptr.order != kHostOrder) {
    return fail(Errc::unsupported, "blocks written on a machine of the other byte order");
  }
  return {};
}

std::uint64_t IoPipeline::dsize(const format::Blkptr& blkptr) const {
  if (blkptr.embedded) {
    return 0;
  }
  std::uint64_t total = 0;
  for (const format::Dva& dva : std::span(blkptr.dva).first(blkptr.copies())) {
    total += allocator_.deflate(dva.vdev, dva.asize);
  }
  return total;
}

Result<void> IoPipeline::for_each_extent(const format::Blkptr& blkptr, const Bookmark& bookmark,
                                         const std::function<void(const format::Dva&)>& visit) {
  if (blkptr.is_hole() || blkptr.embedded) {
    return {};
  }
  return visit_extents(blkptr, bookmark, visit, 0);
}

// The space at a gang pointer's DVA is only that of the header: psize_to_asize of 512 bytes. What
// the asize field says beyond it lies at the children's DVAs.
Result<void> IoPipeline::visit_extents(const format::Blkptr& blkptr, const Bookmark& bookmark,
                                       const std::function<void(const format::Dva&)>& visit,
                                       unsigned depth) {
  ZUSE_TRY_VOID(check_pointer(blkptr));
  if (blkptr.is_gang()) {
    if (depth >= format::kGangDepthMax) {
      return fail(Errc::corrupt, "gang blocks nested too deep");
    }
    ZUSE_TRY(const format::GangHeader header, read_gang_header(blkptr, bookmark));
    for (const format::Blkptr& child : header.child) {
      if (!child.is_hole()) {
        ZUSE_TRY_VOID(visit_extents(child, bookmark, visit, depth + 1));
      }
    }
  }
  for (format::Dva dva : std::span(blkptr.dva).first(blkptr.copies())) {
    if (dva.gang) {
      dva.asize = tree_.geometry(dva.vdev).psize_to_asize(format::kGangHeaderSize);
    }
    visit(dva);
  }
  return {};
}

void IoPipeline::free(std::uint64_t txg, const format::Blkptr& blkptr) {
  if (blkptr.is_hole() || blkptr.embedded) {
    return;
  }
  cache_.forget(cache_key(blkptr));
  if (blkptr.dedup) {
    // The deduplication table would have to say whether somebody else still uses the block.
    log().error("free_refused why=deduplicated vdev={} offset={:#x}", blkptr.dva[0].vdev,
                blkptr.dva[0].offset);
    return;
  }
  const bool wait = blkptr.type == format::ObjectType::intent_log;
  const auto give_back = [&](const format::Dva& dva) {
    if (auto freed = allocator_.free(dva, txg, wait); !freed) {
      log().error("free_failed txg={} birth={} why={}", txg, blkptr.birth(), freed.error().what());
    }
  };
  if (!blkptr.is_gang()) {
    for (const format::Dva& dva : std::span(blkptr.dva).first(blkptr.copies())) {
      give_back(dva);
    }
    return;
  }
  if (auto seen = for_each_extent(blkptr, {}, give_back); !seen) {
    log().error("free_of_gang_failed txg={} birth={} why={}", txg, blkptr.birth(),
                seen.error().what());
  }
}

Result<format::Blkptr> IoPipeline::allocate_log_block(std::uint64_t txg, std::uint32_t size) {
  if (size == 0 || size % 512 != 0 || size > format::kMaxBlockSize) {
    return fail(Errc::invalid, fmt::format("an intent log block of {} bytes", size));
  }
  ZUSE_TRY(const auto dvas, allocator_.allocate({size, 1, txg, false}));
  format::Blkptr blkptr;
  blkptr.dva = dvas;
  blkptr.lsize = blkptr.psize = size;
  blkptr.compression = format::Compression::off;
  blkptr.checksum_type = format::Checksum::zilog2;
  blkptr.type = format::ObjectType::intent_log;
  blkptr.logical_birth = txg;
  return blkptr;
}

Result<void> IoPipeline::claim(std::uint64_t txg, const format::Blkptr& blkptr) {
  if (blkptr.is_hole() || blkptr.embedded) {
    return {};
  }
  ZUSE_TRY_VOID(check_pointer(blkptr));
  Result<void> result;
  const auto take = [&](const format::Dva& dva) {
    auto taken = allocator_.claim(dva, txg);
    if (!taken && taken.error().code() != Errc::exists) {
      result = std::move(taken);
    }
  };
  ZUSE_TRY_VOID(for_each_extent(blkptr, {}, take));
  return result;
}

Result<void> IoPipeline::write_log_block(const format::Blkptr& blkptr,
                                         std::span<const std::byte> data,
                                         const Bookmark& bookmark) {
  ZUSE_CHECK(data.size() == blkptr.psize && !blkptr.is_gang());
  cache_.forget(cache_key(blkptr));
  vdev::BlockWrite write;
  write.top = blkptr.dva[0].vdev;
  write.offset = blkptr.dva[0].offset;
  write.data = data;
  write.txg = blkptr.logical_birth;
  write.tag = tag_of(bookmark);
  tree_.write(std::span(&write, 1));
  return std::move(write.result);
}

Result<void> IoPipeline::flush() {
  return tree_.flush();
}

}  // namespace zuse::pool
