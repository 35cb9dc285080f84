// Parity by another road: polynomials over GF(2) as plain integers, multiplied and reduced by long
// division, weights by repeated multiplication. Shares nothing with raid/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zuse::test {

using Bytes = std::vector<std::byte>;

// a * b modulo x^8 + x^4 + x^3 + x^2 + 1.
unsigned oracle_product(unsigned a, unsigned b);
// Parity row 0, 1 or 2 of columns of any sizes: each byte the sum of weight * byte, `size` of them.
Bytes oracle_parity(const std::vector<Bytes>& data, unsigned row, std::size_t size);

}  // namespace zuse::test
