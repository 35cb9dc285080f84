// fletcher4 by its definition: over the block's 32-bit units x, four running sums of 64 bits:
//   a += x;  b += a;  c += b;  d += c.
#include <cstdint>
#include <cstring>

#include "fs/codec/fletcher4.h"

namespace zuse::codec {
namespace {

template <bool kSwap>
std::uint64_t unit(const std::byte* at) noexcept {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return kSwap ? __builtin_bswap32(value) : value;
}

template <bool kSwap>
void sum_units(const std::byte* data, std::size_t bytes, std::uint64_t out[4]) noexcept {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  std::uint64_t d = 0;
  for (const std::byte* const end = data + bytes; data != end; data += sizeof(std::uint32_t)) {
    a += unit<kSwap>(data);
    b += a;
    c += b;
    d += c;
  }
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = d;
}

void sum(const std::byte* data, std::size_t bytes, bool swap, std::uint64_t out[4]) noexcept {
  if (swap) {
    sum_units<true>(data, bytes, out);
  } else {
    sum_units<false>(data, bytes, out);
  }
}

}  // namespace

const Fletcher4 kFletcher4Scalar = {"scalar", sum};

}  // namespace zuse::codec
