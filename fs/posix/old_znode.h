// The attributes of objects written before system attributes existed: a fixed record in the bonus,
// type 17. They are read as they are, and become system attributes when they change.
// source: format page 08 section 9.
#pragma once

#include "fs/object/dnode.h"
#include "fs/posix/system_attr.h"
#include "fs/posix/znode.h"

namespace zuse::posix {

struct OldZnode {
  ZnodeFields fields;
  std::optional<std::vector<std::byte>> symlink;
  std::optional<std::vector<std::byte>> scanstamp;
  std::vector<std::byte> aces;     // entries of the newer form, host order; empty: rebuild them
  std::uint64_t external_acl = 0;  // object that holds a long list
};

// errors: corrupt, those of reading.
Result<OldZnode> decode_old_znode(object::Dnode& dnode);

}  // namespace zuse::posix
