// lzjb: groups of up to eight items behind a byte of flags; an item is a literal byte, or a match
// of 3 to 66 bytes at most 1023 back. zle: runs of zeros and of everything else.
#include "fs/codec/lzjb.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace zuse::codec {
namespace {

constexpr std::size_t kMatchMin = 3, kMatchMax = 66, kWindow = 1023;
constexpr unsigned kLengthShift = 2;
constexpr std::size_t kHashSize = 1024;

constexpr std::size_t kZleLiteralMax = 64;  // tokens below it: that many literals
constexpr std::size_t kZleZerosMax = 192;

std::size_t hash_of(const std::byte* at) noexcept {
  std::uint32_t hash = (static_cast<std::uint32_t>(at[0]) << 16U) +
                       (static_cast<std::uint32_t>(at[1]) << 8U) +
                       static_cast<std::uint32_t>(at[2]);
  hash += hash >> 9U;
  hash += hash >> 5U;
  return hash & (kHashSize - 1);
}

}  // namespace

std::size_t lzjb_compress(std::span<const std::byte> in, std::span<std::byte> out) noexcept {
  std::array<std::uint32_t, kHashSize> last{};  // where each hash was seen, plus one
  std::size_t from = 0, to = 0, flags_at = 0;
  unsigned item = 8;
  while (from < in.size()) {
    if (item == 8) {
      if (to >= out.size()) {
        return 0;
      }
      item = 0;
      flags_at = to;
      out[to++] = std::byte{0};
    }
    std::size_t length = 0, distance = 0;
    if (in.size() - from > kMatchMax) {
      std::uint32_t& seen = last[hash_of(&in[from])];
      if (seen != 0 && from + 1 - seen <= kWindow && from + 1 != seen) {
        const std::size_t candidate = seen - 1;
        distance = from - candidate;
        while (length < kMatchMax && in[candidate + length] == in[from + length]) {
          ++length;
        }
      }
      seen = static_cast<std::uint32_t>(from + 1);
    }
    if (length >= kMatchMin) {
      if (out.size() - to < 2) {
        return 0;
      }
      out[flags_at] |= static_cast<std::byte>(1U << item);
      out[to++] = static_cast<std::byte>((length - kMatchMin) << kLengthShift | distance >> 8U);
      out[to++] = static_cast<std::byte>(distance);
      from += length;
    } else {
      if (to >= out.size()) {
        return 0;
      }
      out[to++] = in[from++];
    }
    ++item;
  }
  return to;
}

Result<void> lzjb_decompress(std::span<const std::byte> in, std::span<std::byte> out) {
  std::size_t from = 0, to = 0;
  while (to < out.size()) {
    if (from >= in.size()) {
      return fail(Errc::corrupt, "lzjb: the stream ends early");
    }
    const auto flags = static_cast<unsigned>(in[from++]);
    for (unsigned item = 0; item < 8 && to < out.size(); ++item) {
      if ((flags >> item & 1U) == 0) {
        if (from >= in.size()) {
          return fail(Errc::corrupt, "lzjb: the stream ends early");
        }
        out[to++] = in[from++];
        continue;
      }
      if (in.size() - from < 2) {
        return fail(Errc::corrupt, "lzjb: the stream ends early");
      }
      const auto first = static_cast<std::size_t>(in[from]),
                 second = static_cast<std::size_t>(in[from + 1]);
      from += 2;
      const std::size_t distance = (first & 3U) << 8U | second;
      if (distance == 0 || distance > to) {
        return fail(Errc::corrupt, "lzjb: a match begins before the block");
      }
      const std::size_t length = std::min((first >> kLengthShift) + kMatchMin, out.size() - to);
      for (std::size_t i = 0; i < length; ++i, ++to) {
        out[to] = out[to - distance];
      }
    }
  }
  return {};
}

std::size_t zle_compress(std::span<const std::byte> in, std::span<std::byte> out) noexcept {
  std::size_t from = 0, to = 0;
  while (from < in.size()) {
    std::size_t run = 0;
    if (in[from] == std::byte{0}) {
      while (run < kZleZerosMax && from + run < in.size() && in[from + run] == std::byte{0}) {
        ++run;
      }
      if (to >= out.size()) {
        return 0;
      }
      out[to++] = static_cast<std::byte>(kZleLiteralMax + run - 1);
    } else {
      // A single zero between literals costs less as a literal.
      while (run < kZleLiteralMax && from + run < in.size() &&
             (in[from + run] != std::byte{0} ||
              (from + run + 1 < in.size() && in[from + run + 1] != std::byte{0}))) {
        ++run;
      }
      if (out.size() - to < run + 1) {
        return 0;
      }
      out[to++] = static_cast<std::byte>(run - 1);
      std::ranges::copy(in.subspan(from, run), out.begin() + static_cast<std::ptrdiff_t>(to));
      to += run;
    }
    from += run;
  }
  return to;
}

Result<void> zle_decompress(std::span<const std::byte> in, std::span<std::byte> out) {
  std::size_t from = 0, to = 0;
  while (to < out.size()) {
    if (from >= in.size()) {
      return fail(Errc::corrupt, "zle: the stream ends early");
    }
    const std::size_t length = static_cast<std::size_t>(in[from++]) + 1;
    if (length <= kZleLiteralMax) {
      if (length > in.size() - from || length > out.size() - to) {
        return fail(Errc::corrupt, "zle: literals run past the end");
      }
      std::ranges::copy(in.subspan(from, length), out.begin() + static_cast<std::ptrdiff_t>(to));
      from += length;
      to += length;
    } else {
      const std::size_t zeros = length - kZleLiteralMax;
      if (zeros > out.size() - to) {
        return fail(Errc::corrupt, "zle: zeros run past the end");
      }
      std::ranges::fill(out.subspan(to, zeros), std::byte{0});
      to += zeros;
    }
  }
  return {};
}

}  // namespace zuse::codec
