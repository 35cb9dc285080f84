// The contents of a new pool's MOS: what every pool has from its first transaction group on.
// source: format page 04 section 10, page 07 section 3.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "fs/dataset/features.h"
#include "fs/object/objset.h"

namespace zuse::dataset {

// The features that a new pool has: few, each for a reason (docs/format.md): default compression
// lz4; records up to 1 MiB; sha512 and zstd where a dataset asks for them. GRUB can read all but
// the last two, which become active only in a dataset that uses them.
std::span<const std::string_view> new_pool_features();

struct NewPool {
  std::uint64_t root_directory = 0;  // dsl_dir object
  std::uint64_t root_dataset =
      0;                     // dataset object; its root pointer is a hole until its first sync
  std::uint64_t config = 0;  // packed list object, still empty
  std::uint64_t history = 0;
  Features features;
};

// Fills an empty MOS. `pool_size` in bytes sizes the history.
Result<NewPool> fill_new_mos(object::Objset& mos, object::Tx& tx, std::uint64_t pool_size);

}  // namespace zuse::dataset
