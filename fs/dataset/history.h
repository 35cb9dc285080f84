// History: the ring of records of what was done to a pool: who, when, which command. The first
// record (of the pool's creation) is never overwritten. source: format page 04 section 6.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fs/codec/nvlist.h"
#include "fs/object/objset.h"

namespace zuse::dataset {

// A new, empty ring. `pool_size`: bytes, decides the ring's.
Result<std::uint64_t> create_history(object::Objset& mos, object::Tx& tx, std::uint64_t pool_size);

// Appends a record, dropping the oldest ones that it needs the room of.
// errors: corrupt (a ring that makes no sense).
Result<void> append_history(object::Objset& mos, object::Tx& tx, std::uint64_t object,
                            const codec::NvList& record);

// All records, oldest first.
Result<std::vector<codec::NvList>> read_history(object::Objset& mos, std::uint64_t object);

// A record of a command run now by this process's user, as `zpool history` shows it.
codec::NvList command_record(const std::string& command, std::uint64_t txg);

}  // namespace zuse::dataset
