// Who uses how much: bytes and objects by user, group and project, kept in three ZAPs of an object
// set. source: format page 08 section 11. Internal to fs/object.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>

#include "fs/object/objset.h"

namespace zuse::object {

inline constexpr std::int64_t kUserUsedObject = -1;
inline constexpr std::int64_t kGroupUsedObject = -2;
inline constexpr std::int64_t kProjectUsedObject = -3;

// The changes of one group, summed up before they go to the ZAPs.
class Accounting {
 public:
  Accounting(const OwnerOf& owner_of, const ObjsetPolicy& policy)
      : owner_of_(owner_of), policy_(policy) {}

  // A dnode as it was on disk and as it will be: takes back what was charged for the first, charges
  // for the second and marks it as charged.
  void note(const format::DnodePhys& before, format::DnodePhys& after);
  // Puts the sums into the ZAPs; `special` gives the dnode of one, made if need be.
  Result<void> apply(Tx& tx, const std::function<Result<DnodeRef>(std::int64_t)>& special);

 private:
  struct Delta {
    std::int64_t bytes = 0;
    std::int64_t objects = 0;
  };

  void charge(const format::DnodePhys& dnode, std::int64_t sign, bool objects);

  const OwnerOf& owner_of_;
  const ObjsetPolicy& policy_;
  std::array<std::map<std::uint64_t, Delta>, 3> deltas_;  // user, group, project
  bool touched_ = false;
};

}  // namespace zuse::object
