// The first contents of a new file system.
#pragma once

#include "fs/object/objset.h"
#include "fs/object/tx.h"

namespace zuse::posix {

inline constexpr std::uint64_t kMasterNode = 1;
inline constexpr std::uint64_t kZplVersion = 5;

// Fills an empty object set with a file system of version 5: master node, attribute tables, the
// unlinked set and a root directory of mode 0755 that belongs to the calling process.
// errors: exists (the set is not empty), those of writing.
// source: format page 08 sections 2 and 5.
Result<void> format_file_system(object::Objset& objset, object::Tx& tx);

struct FormatOptions {
  std::uint32_t uid = 0, gid = 0;  // of the root directory
  std::uint32_t mode = 0755;
  std::int64_t seconds = 0;  // the root's times
  std::uint32_t nanoseconds = 0;
};
Result<void> format_file_system(object::Objset& objset, object::Tx& tx,
                                const FormatOptions& options);

}  // namespace zuse::posix
