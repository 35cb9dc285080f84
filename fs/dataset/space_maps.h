// SpaceMaps: where the allocator's state lies in the MOS. At import it replays every metaslab's map
// (and the log space maps that newer pools keep) into the allocator; at each pass of a sync it
// appends what changed. source: format page 04 section 3.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "fs/dataset/features.h"
#include "fs/format/space_map.h"
#include "fs/object/objset.h"
#include "fs/pool/allocator.h"
#include "fs/pool/config.h"
#include "vdev/dtl.h"

namespace zuse::dataset {

// Not thread-safe: import, then the sync thread, own it.
class SpaceMaps {
 public:
  // errors: corrupt (a map that contradicts itself; vdev and metaslab named), and those of reading.
  Result<void> load(object::Objset& mos, const Features& features, const pool::PoolConfig& config,
                    pool::Allocator& allocator);
  // The metaslab arrays of a new pool, one a top-level vdev; `config` is told their objects.
  Result<void> create(object::Objset& mos, object::Tx& tx, pool::PoolConfig& config,
                      pool::Allocator& allocator);

  // Appends what this txg changed and was not written yet; in the first pass, maps that grew too
  // long are written anew. True if anything was written.
  Result<bool> flush(object::Objset& mos, object::Tx& tx, Features& features, unsigned pass);

  // Pools with log space maps: writes every map whole, then removes the logs and the feature's
  // count, so that the maps alone are right from here on. The first sync after a read-write import
  // calls it.
  Result<void> retire_logs(object::Objset& mos, object::Tx& tx, Features& features,
                           const pool::PoolConfig& config);
  bool has_logs() const noexcept { return has_logs_; }

 private:
  struct Map {
    std::uint64_t object = 0;  // 0: nothing was ever allocated
    format::SpaceMapHeader header;
    std::size_t bonus_size = 0;
  };
  struct Top {
    std::uint64_t array = 0;  // object
    unsigned metaslab_shift = 0;
    unsigned ashift = 0;
    std::vector<Map> maps;
  };

  Result<void> load_top(object::Objset& mos, std::uint32_t index, Top& top,
                        std::map<std::uint64_t, std::vector<format::SpaceMapEntry>>& entries);
  Result<void> load_logs(
      object::Objset& mos, const pool::PoolConfig& config,
      std::map<std::uint32_t, std::map<std::uint64_t, std::vector<format::SpaceMapEntry>>>&
          entries);
  Result<void> ensure_object(object::Objset& mos, object::Tx& tx, Features& features, Top& top,
                             std::uint64_t metaslab);
  Result<void> append(object::Objset& mos, object::Tx& tx, const Features& features, const Top& top,
                      Map& map, const std::vector<format::SpaceMapEntry>& entries,
                      std::uint64_t allocated);
  Result<void> rewrite(object::Objset& mos, object::Tx& tx, const Features& features,
                       std::uint32_t index, std::uint64_t metaslab);

  std::map<std::uint32_t, Top> tops_;
  pool::Allocator* allocator_ = nullptr;
  bool has_logs_ = false;
};

// A leaf's dirty time log object: ALLOC entries whose unit is a txg. source: format page 03
// section 8.
Result<vdev::Dtl> read_dtl(object::Objset& mos, std::uint64_t object);
// Writes it anew into `object`, or a new one where that is 0; returns which.
Result<std::uint64_t> write_dtl(object::Objset& mos, object::Tx& tx, Features& features,
                                std::uint64_t object, const vdev::Dtl& dtl);

}  // namespace zuse::dataset
