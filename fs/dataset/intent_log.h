#pragma once

#include <cstdint>

#include "fs/format/objset_phys.h"
#include "fs/pool/block_store.h"

namespace zuse::dataset {

// Whether an intent log holds an operation of a transaction group after `synced_txg`, which only a
// replay would bring back. A log that was used up still has a chain: its records are all older.
// errors: corrupt (a chain without end). source: format page 09 sections 3 to 5.
Result<bool> log_has_records_after(pool::BlockStore& store, std::uint64_t objset,
                                   const format::ZilHeader& header, std::uint64_t synced_txg);

}  // namespace zuse::dataset
