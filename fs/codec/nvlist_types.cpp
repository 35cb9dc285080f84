#include "fs/codec/nvlist_encoding.h"
#include "vdev/base/units.h"

namespace zuse::codec {

bool nv_known(NvType type) noexcept {
  return type >= NvType::boolean && type <= NvType::real;
}

NvShape nv_shape(NvType type) noexcept {
  switch (type) {
    case NvType::boolean: return NvShape::none;
    case NvType::real: return NvShape::real;
    case NvType::string: return NvShape::string;
    case NvType::byte_array: return NvShape::bytes;
    case NvType::string_array: return NvShape::strings;
    case NvType::nvlist: return NvShape::list;
    case NvType::nvlist_array: return NvShape::lists;
    case NvType::int16_array:
    case NvType::uint16_array:
    case NvType::int32_array:
    case NvType::uint32_array:
    case NvType::int64_array:
    case NvType::uint64_array:
    case NvType::boolean_array:
    case NvType::int8_array:
    case NvType::uint8_array: return NvShape::integers;
    default: return NvShape::integer;
  }
}

unsigned nv_width(NvType type) noexcept {
  switch (type) {
    case NvType::byte:
    case NvType::int8:
    case NvType::uint8:
    case NvType::byte_array:
    case NvType::int8_array:
    case NvType::uint8_array: return 1;
    case NvType::int16:
    case NvType::uint16:
    case NvType::int16_array:
    case NvType::uint16_array: return 2;
    case NvType::int32:
    case NvType::uint32:
    case NvType::int32_array:
    case NvType::uint32_array:
    case NvType::boolean_value:
    case NvType::boolean_array: return 4;
    case NvType::int64:
    case NvType::uint64:
    case NvType::int64_array:
    case NvType::uint64_array:
    case NvType::hrtime:
    case NvType::real: return 8;
    default: return 0;
  }
}

bool nv_signed(NvType type) noexcept {
  switch (type) {
    case NvType::int8:
    case NvType::int16:
    case NvType::int32:
    case NvType::int64:
    case NvType::int8_array:
    case NvType::int16_array:
    case NvType::int32_array:
    case NvType::int64_array:
    case NvType::hrtime: return true;
    default: return false;
  }
}

std::uint64_t nv_narrow(std::uint64_t value, unsigned width, bool is_signed) noexcept {
  if (width == 8) {
    return value;
  }
  const unsigned shift = 64 - 8 * width;
  const std::uint64_t top = value << shift;
  return is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(top) >> shift)
                   : top >> shift;
}

std::size_t nv_elements(const NvPair& pair) noexcept {
  switch (nv_shape(pair.type)) {
    case NvShape::none: return 0;
    case NvShape::bytes: return std::get<std::vector<std::byte>>(pair.value).size();
    case NvShape::integers: return std::get<std::vector<std::uint64_t>>(pair.value).size();
    case NvShape::strings: return std::get<std::vector<std::string>>(pair.value).size();
    case NvShape::lists: return std::get<std::vector<NvList>>(pair.value).size();
    default: return 1;
  }
}

std::size_t nv_decoded_size(const NvPair& pair) noexcept {
  constexpr std::size_t kHead = 16, kPointer = 8, kList = 24;
  std::size_t value = 0;
  switch (nv_shape(pair.type)) {
    case NvShape::none: break;
    case NvShape::integer:
    case NvShape::real: value = nv_width(pair.type); break;
    case NvShape::string: value = std::get<std::string>(pair.value).size() + 1; break;
    case NvShape::bytes: value = nv_elements(pair); break;
    case NvShape::integers: value = nv_elements(pair) * nv_width(pair.type); break;
    case NvShape::strings:
      for (const std::string& text : std::get<std::vector<std::string>>(pair.value)) {
        value += kPointer + text.size() + 1;
      }
      break;
    case NvShape::list: value = kList; break;
    case NvShape::lists: value = nv_elements(pair) * (kPointer + kList); break;
  }
  return round_up(kHead + pair.name.size() + 1, std::size_t{8}) + round_up(value, std::size_t{8});
}

}  // namespace zuse::codec
