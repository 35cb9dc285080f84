// Integers and records as they lie on disk. A stored integer is bytes: there is no way to read one
// without naming an order, and no alignment to get wrong.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "vdev/base/byte_order.h"
#include "vdev/base/result.h"

namespace zuse {

// An integer as it lies on disk: bytes, alignment 1, no order of its own.
template <std::unsigned_integral T>
struct Raw {
  std::array<std::byte, sizeof(T)> bytes{};

  constexpr T load(ByteOrder order) const noexcept {
    const T value = std::bit_cast<T>(bytes);
    return order == kHostOrder ? value : byteswap(value);
  }
  constexpr void store(T value, ByteOrder order) noexcept {
    bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(order == kHostOrder ? value
                                                                                : byteswap(value));
  }
};
using U8 = Raw<std::uint8_t>;
using U16 = Raw<std::uint16_t>;
using U32 = Raw<std::uint32_t>;
using U64 = Raw<std::uint64_t>;

template <class T>
concept OnDisk = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> && alignof(T) == 1;

// A copy of the record `offset` bytes into `block`. errors: corrupt, if it runs past the end.
template <OnDisk T>
Result<T> read_at(std::span<const std::byte> block, std::size_t offset) {
  if (offset > block.size() || block.size() - offset < sizeof(T)) {
    return fail(Errc::corrupt, "record runs past its block");
  }
  T record;
  std::memcpy(&record, block.data() + offset, sizeof record);
  return record;
}

// Puts the record `offset` bytes into `block`. The caller has sized the block: a record that does
// not fit is our own bug.
template <OnDisk T>
void write_at(std::span<std::byte> block, std::size_t offset, const T& record) {
  ZUSE_CHECK(offset <= block.size() && block.size() - offset >= sizeof(T));
  std::memcpy(block.data() + offset, &record, sizeof record);
}

// One integer at a byte offset that the caller has already checked.
template <std::unsigned_integral T>
T load_at(std::span<const std::byte> block, std::size_t offset, ByteOrder order) noexcept {
  Raw<T> raw;
  std::memcpy(&raw, block.data() + offset, sizeof raw);
  return raw.load(order);
}
template <std::unsigned_integral T>
void store_at(std::span<std::byte> block, std::size_t offset, std::type_identity_t<T> value,
              ByteOrder order) noexcept {
  Raw<T> raw;
  raw.store(value, order);
  std::memcpy(block.data() + offset, &raw, sizeof raw);
}

}  // namespace zuse
