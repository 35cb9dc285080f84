#include "vdev/base/sync.h"

#ifndef NDEBUG

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace zuse {
namespace {

thread_local std::vector<LockRank> held;

}  // namespace

void lock_rank_acquire(LockRank rank) noexcept {
  for (const LockRank outer : held) {
    if (outer > rank) {
      std::fprintf(stderr, "zuse: lock order: taking rank %u while holding rank %u\n",
                   static_cast<unsigned>(rank), static_cast<unsigned>(outer));
      std::abort();
    }
  }
  held.push_back(rank);
}

void lock_rank_release(LockRank rank) noexcept {
  for (auto it = held.rbegin(); it != held.rend(); ++it) {
    if (*it == rank) {
      held.erase(std::next(it).base());
      return;
    }
  }
}

}  // namespace zuse

#endif
