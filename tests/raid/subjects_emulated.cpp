// The kernels' files are compiled a second time, with these names.
#include "tests/raid/subjects.h"

namespace zuse::raid {
extern const Kernels kEmulatedAvx512f;
extern const Kernels kEmulatedAvx512bw;
extern const Kernels kEmulatedGfni;
extern const Kernels kEmulatedGfniAvx2;

std::vector<const Kernels*> subjects() {
  return {&kEmulatedAvx512f, &kEmulatedAvx512bw, &kEmulatedGfni, &kEmulatedGfniAvx2};
}
}  // namespace zuse::raid
