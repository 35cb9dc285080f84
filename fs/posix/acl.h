// The access control list that says no more than the mode does ("trivial"). zuse grants by mode
// bits alone, so every object carries the trivial list of its mode, rebuilt at each chmod: other
// implementations judge by the list. source: format page 08 section 7.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace zuse::posix {

// Entries of 8 bytes each (type, flags, mask) in the host's byte order.
struct TrivialAcl {
  static constexpr std::size_t kEntrySize = 8;
  static constexpr std::size_t kEntriesMax = 6;

  std::uint64_t count = 0;
  std::array<std::byte, kEntrySize * kEntriesMax> entries{};

  std::span<const std::byte> bytes() const noexcept {
    return std::span(entries).first(static_cast<std::size_t>(count) * kEntrySize);
  }
};

// The list of a mode; directories (by the mode's type) also grant deletion of children.
// source: format page 08 section 7.2.
TrivialAcl trivial_acl(std::uint64_t mode) noexcept;

// Every class may execute: the flag that spares other implementations a look at the list.
bool everyone_executes(std::uint64_t mode) noexcept;

}  // namespace zuse::posix
