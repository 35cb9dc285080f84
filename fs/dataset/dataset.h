// Dataset: one file system, clone or snapshot of an open pool - its object set, its place in the
// DSL, its properties and its space. What fs/posix builds a file system on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fs/dataset/property.h"
#include "fs/object/objset.h"
#include "fs/object/tx.h"

namespace zuse::dataset {

class Pool;

// Space as statfs and `zfs list` show it, in bytes.
struct Space {
  std::uint64_t used = 0;  // by the dataset's directory, children included
  std::uint64_t available = 0;
  std::uint64_t referenced = 0;  // reachable from this dataset
  std::uint64_t unique = 0;
};

// Thread-safe. Lives as long as somebody holds it; the pool outlives it.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const std::string& name() const = 0;  // "tank/home" or "tank/home@monday"
  virtual std::uint64_t id() const = 0;         // dataset object in the MOS
  virtual std::uint64_t fsid() const = 0;
  virtual bool is_snapshot() const = 0;
  virtual bool read_only()
      const = 0;  // snapshots, read-only pools, readonly=on, not writable by us
  virtual Pool& pool() const = 0;
  virtual object::Objset& objset() = 0;
  virtual const PropertySet& properties() const = 0;  // resolved: local, inherited or default

  // A transaction that may dirty about `bytes`. Waits for a place in the open group.
  // errors: read_only, stopped, io (pool suspended); no_space: the pool is full - `frees` says that
  // the change makes room (unlink, truncate), and may use half the slop.
  virtual Result<object::Tx> begin(std::uint64_t bytes, bool frees = false) = 0;
  // Everything changed before this call is on disk when it returns. errors: io.
  virtual Result<void> sync() = 0;
  virtual Space space() const = 0;
};

}  // namespace zuse::dataset
