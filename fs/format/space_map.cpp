#include "fs/format/space_map.h"

#include <algorithm>

namespace zuse::format {
namespace {

constexpr std::size_t kHistogramOffset = 64;

// Kinds of words: bit 63 clear is a whole entry, 10 a debug word, 11 the first of two words.
constexpr unsigned kKindShift = 62;
constexpr std::uint64_t kKindDebug = 2;
constexpr std::uint64_t kKindTwoWords = 3;
constexpr std::uint64_t kEmptyDebug = kKindDebug << kKindShift;

constexpr std::uint64_t kOneWordRunMax = std::uint64_t{1} << 15;
constexpr std::uint64_t kOneWordOffsetMax = (std::uint64_t{1} << 47) - 1;
constexpr std::uint64_t kTwoWordRunMax = std::uint64_t{1} << 36;
constexpr std::uint64_t kTwoWordOffsetMax = (std::uint64_t{1} << 63) - 1;
constexpr std::uint32_t kVdevMax = (std::uint32_t{1} << 24) - 1;

}  // namespace

Result<SpaceMapHeader> decode_space_map_header(std::span<const std::byte> bonus, ByteOrder order) {
  if (bonus.size() < kSpaceMapHeaderSizeV0) {
    return fail(Errc::corrupt, "space map: header cut short");
  }
  SpaceMapHeader out{
      .object = load_at<std::uint64_t>(bonus, 0, order),
      .length = load_at<std::uint64_t>(bonus, 8, order),
      .allocated = static_cast<std::int64_t>(load_at<std::uint64_t>(bonus, 16, order)),
      .histogram = {}};
  if (out.length % sizeof(std::uint64_t) != 0) {
    return fail(Errc::corrupt, "space map: length is not whole words");
  }
  if (bonus.size() >= kSpaceMapHeaderSizeHistogram) {
    for (std::size_t i = 0; i < out.histogram.size(); ++i) {
      out.histogram[i] =
          load_at<std::uint64_t>(bonus, kHistogramOffset + i * sizeof(std::uint64_t), order);
    }
  }
  return out;
}

void encode_space_map_header(const SpaceMapHeader& header, std::span<std::byte> bonus,
                             ByteOrder order) {
  ZUSE_CHECK(bonus.size() == kSpaceMapHeaderSizeV0 || bonus.size() == kSpaceMapHeaderSizeHistogram);
  std::memset(bonus.data(), 0, bonus.size());
  store_at<std::uint64_t>(bonus, 0, header.object, order);
  store_at<std::uint64_t>(bonus, 8, header.length, order);
  store_at<std::uint64_t>(bonus, 16, static_cast<std::uint64_t>(header.allocated), order);
  if (bonus.size() == kSpaceMapHeaderSizeHistogram) {
    for (std::size_t i = 0; i < header.histogram.size(); ++i) {
      store_at<std::uint64_t>(bonus, kHistogramOffset + i * sizeof(std::uint64_t),
                              header.histogram[i], order);
    }
  }
}

bool SpaceMapDecoder::step(std::uint64_t word, SpaceMapEntry& entry) noexcept {
  if (first_half_) {
    const std::uint64_t first = *first_half_;
    first_half_.reset();
    entry = {.op = bits(word, 63, 1) != 0 ? SpaceMapOp::free : SpaceMapOp::alloc,
             .offset = bits(word, 0, 63),
             .run = bits(first, 24, 36) + 1,
             .vdev = static_cast<std::uint32_t>(bits(first, 0, 24))};
    return true;
  }
  switch (word >> kKindShift) {
    case kKindDebug: return false;
    case kKindTwoWords: first_half_ = word; return false;
    default:
      entry = {.op = bits(word, 15, 1) != 0 ? SpaceMapOp::free : SpaceMapOp::alloc,
               .offset = bits(word, 16, 47),
               .run = bits(word, 0, 15) + 1,
               .vdev = std::nullopt};
      return true;
  }
}

Result<void> SpaceMapDecoder::finish() const {
  return first_half_ ? fail(Errc::corrupt, "space map ends within an entry") : Result<void>{};
}

void SpaceMapEncoder::pad_for_two_words() {
  if (block_words_ != 0 && (position_ + words_.size()) % block_words_ == block_words_ - 1) {
    words_.push_back(kEmptyDebug);
  }
}

Result<void> SpaceMapEncoder::add(const SpaceMapEntry& entry) {
  if (entry.run == 0 || entry.offset > kTwoWordOffsetMax ||
      entry.run > kTwoWordOffsetMax - entry.offset + 1 || entry.vdev.value_or(0) > kVdevMax) {
    return fail(Errc::invalid, "space map: a range that cannot be recorded");
  }
  const std::uint64_t last = entry.offset + entry.run - 1;
  const bool needs_two = entry.vdev.has_value() || last > kOneWordOffsetMax;
  if (needs_two && !two_words_) {
    return fail(Errc::invalid, "space map: a range needs two words, which this pool does not have");
  }
  const bool two = needs_two || (two_words_ && entry.run > 2 * kOneWordRunMax);
  const std::uint64_t op = entry.op == SpaceMapOp::free ? 1 : 0;
  std::uint64_t offset = entry.offset;
  std::uint64_t left = entry.run;
  while (left > 0) {
    const std::uint64_t run = std::min(left, two ? kTwoWordRunMax : kOneWordRunMax);
    if (two) {
      pad_for_two_words();
      std::uint64_t first = kKindTwoWords << kKindShift;
      first = with_bits(first, 24, 36, run - 1);
      first = with_bits(first, 0, 24, entry.vdev.value_or(0));
      words_.push_back(first);
      words_.push_back(with_bits(offset, 63, 1, op));
    } else {
      std::uint64_t word = with_bits(0, 16, 47, offset);
      word = with_bits(word, 15, 1, op);
      words_.push_back(with_bits(word, 0, 15, run - 1));
    }
    offset += run;
    left -= run;
  }
  return {};
}

void SpaceMapEncoder::add_debug(SpaceMapOp op, std::uint64_t txg, unsigned pass) {
  std::uint64_t word = with_bits(kEmptyDebug, 60, 2, op == SpaceMapOp::free ? 1 : 0);
  word = with_bits(word, 50, 10, pass);
  words_.push_back(with_bits(word, 0, 50, txg));
}

void SpaceMapEncoder::append_to(std::vector<std::byte>& out, ByteOrder order) const {
  const std::size_t at = out.size();
  out.resize(at + words_.size() * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < words_.size(); ++i) {
    store_at<std::uint64_t>(out, at + i * sizeof(std::uint64_t), words_[i], order);
  }
}

}  // namespace zuse::format
