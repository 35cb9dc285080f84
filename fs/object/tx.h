// Tx: the transaction that a change belongs to. Every mutating call of the layers above takes one.
#pragma once

#include <cstdint>
#include <utility>

#include "fs/pool/txg.h"

namespace zuse::object {

class Tx {
 public:
  // A change made while the group is open: keeps the group from syncing until it dies.
  explicit Tx(pool::TxHold hold) : hold_(std::move(hold)), txg_(hold_.txg()) {}
  // A change made by the sync itself, which owns the group.
  static Tx syncing(std::uint64_t txg) { return Tx(txg); }

  std::uint64_t txg() const noexcept { return txg_; }
  unsigned slot() const noexcept { return static_cast<unsigned>(txg_ % pool::kTxgSlots); }

 private:
  explicit Tx(std::uint64_t txg) : txg_(txg) {}

  pool::TxHold hold_;
  std::uint64_t txg_;
};

}  // namespace zuse::object
