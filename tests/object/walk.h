// A check of an object set on "disk" that shares no code with the object layer: follows every
// pointer from the root and holds each number against what it finds.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fs/format/objset_phys.h"
#include "tests/support/memory_store.h"

namespace zuse::test {

struct Walked {
  std::set<std::uint64_t> addresses;  // of every block reached, one a copy
  std::vector<std::string> problems;  // empty: all is well
  std::map<std::uint64_t, format::DnodePhys> dnodes;
  format::ObjsetPhys objset;
};

Walked walk(MemoryStore& store, const format::Blkptr& root);

}  // namespace zuse::test
