// Small things that several parts of Tree need.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace zuse::posix {

struct Device {
  std::uint32_t major = 0, minor = 0;
};

// The RDEV attribute: 12 bits of major above 20 of minor, or, where a number does not fit (and in
// pools of other systems), 32 above 32. source: format page 08 section 5.7.
constexpr Device decode_device(std::uint64_t stored) noexcept {
  if (stored >> 32U != 0) {
    return {static_cast<std::uint32_t>(stored >> 32U), static_cast<std::uint32_t>(stored)};
  }
  return {static_cast<std::uint32_t>(stored >> 20U), static_cast<std::uint32_t>(stored & 0xFFFFFU)};
}
constexpr std::uint64_t encode_device(std::uint32_t major, std::uint32_t minor) noexcept {
  if (major < (1U << 12U) && minor < (1U << 20U)) {
    return (std::uint64_t{major} << 20U) | minor;
  }
  return (std::uint64_t{major} << 32U) | minor;
}

// The mode once somebody who may not keep set-id bits has changed the file: set-user-id goes, and
// set-group-id where it means that (with group execution; without, it once meant mandatory
// locking). Directories keep theirs.
constexpr std::uint64_t without_set_id(std::uint64_t mode) noexcept {
  if (S_ISDIR(mode)) {
    return mode;
  }
  mode &= ~std::uint64_t{S_ISUID};
  return (mode & S_IXGRP) != 0 ? mode & ~std::uint64_t{S_ISGID} : mode;
}

}  // namespace zuse::posix
