// An owner of blocks that frees what is killed at once, and checks that only what was born dies.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fs/object/objset.h"
#include "tests/support/memory_store.h"

namespace zuse::test {

class CountingOwner final : public object::BlockOwner {
 public:
  explicit CountingOwner(MemoryStore& store) : store_(store) {}

  void born(std::uint64_t txg, const format::Blkptr& blkptr) override {
    const std::lock_guard lock(mutex_);
    if (blkptr.is_hole() || blkptr.logical_birth != txg) {
      problems_.emplace_back("born: a hole, or of another group");
    }
    if (!blkptr.embedded && !live_.insert(blkptr.dva[0].offset).second) {
      problems_.emplace_back("born twice");
    }
  }
  void killed(std::uint64_t txg, const format::Blkptr& blkptr) override {
    const std::lock_guard lock(mutex_);
    if (blkptr.is_hole()) {
      problems_.emplace_back("killed: a hole");
    }
    if (!blkptr.embedded && live_.erase(blkptr.dva[0].offset) == 0) {
      problems_.emplace_back("killed, but never born");
    }
    store_.free(txg, blkptr);
  }
  std::vector<std::string> problems() const {
    const std::lock_guard lock(mutex_);
    return problems_;
  }
  std::size_t live() const {
    const std::lock_guard lock(mutex_);
    return live_.size();
  }

 private:
  MemoryStore& store_;
  mutable std::mutex mutex_;
  std::set<std::uint64_t> live_;
  std::vector<std::string> problems_;
};

}  // namespace zuse::test
