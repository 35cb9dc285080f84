#include "tests/raid/oracle.h"

namespace zuse::test {

unsigned oracle_product(unsigned a, unsigned b) {
  unsigned wide = 0;
  for (unsigned i = 0; i < 8; ++i) {
    for (unsigned j = 0; j < 8; ++j) {
      wide ^= (((a >> i) & 1U) & ((b >> j) & 1U)) << (i + j);
    }
  }
  for (unsigned degree = 14; degree >= 8; --degree) {
    if (((wide >> degree) & 1U) != 0) {
      wide ^= 0x11dU << (degree - 8);
    }
  }
  return wide;
}

Bytes oracle_parity(const std::vector<Bytes>& data, unsigned row, std::size_t size) {
  const unsigned base = 1U << row;  // 1, 2, 4
  Bytes parity(size);
  unsigned weight = 1;
  for (std::size_t i = data.size(); i-- > 0;) {  // the last column weighs 1
    for (std::size_t at = 0; at < data[i].size(); ++at) {
      parity[at] ^=
          static_cast<std::byte>(oracle_product(weight, static_cast<unsigned>(data[i][at])));
    }
    weight = oracle_product(weight, base);
  }
  return parity;
}

}  // namespace zuse::test
