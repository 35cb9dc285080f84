#include "raid/registry.h"
#include "tests/raid/subjects.h"

namespace zuse::raid {
std::vector<const Kernels*> subjects() {
  auto all = usable();
  all.push_back(*choose("fastest"));
  all.push_back(*choose("cycle"));
  return all;
}
}  // namespace zuse::raid
