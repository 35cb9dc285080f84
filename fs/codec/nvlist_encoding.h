// What the two encodings of nvlists share. source: format page 01 section 2.
#pragma once

#include "fs/codec/nvlist.h"

namespace zuse::codec {

inline constexpr unsigned kNvNative = 0, kNvXdr = 1;  // first byte of the head

// What kind of C++ value a type is held as.
enum class NvShape : std::uint8_t {
  none,
  integer,
  real,
  string,
  bytes,
  integers,
  strings,
  list,
  lists
};
// nullopt-like: none with size 0 for unknown types, see nv_known().
bool nv_known(NvType type) noexcept;
NvShape nv_shape(NvType type) noexcept;
// Bytes of one element in memory: 1, 2, 4 or 8; 0 for what has no fixed size.
unsigned nv_width(NvType type) noexcept;
bool nv_signed(NvType type) noexcept;
// The value narrowed to `width` bytes and, if signed, extended back.
std::uint64_t nv_narrow(std::uint64_t value, unsigned width, bool is_signed) noexcept;
// Number of elements that the encodings record.
std::size_t nv_elements(const NvPair& pair) noexcept;
// Bytes that the pair takes in memory, as the encodings record it.
std::size_t nv_decoded_size(const NvPair& pair) noexcept;

// Without the head of four bytes.
Result<NvList> decode_xdr(std::span<const std::byte> bytes);
Result<NvList> decode_native(std::span<const std::byte> bytes);

}  // namespace zuse::codec
