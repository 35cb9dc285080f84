// The order of transactions on one object.
//
// Two groups take changes at the same time: transactions that began before the open group moved on
// still run in the older one. An object's attributes are written whole, so a change of the older
// group that comes after one of the newer would carry the newer into the older: a crash between the
// two would show half of it. So the changes of one object go up in groups: who begins in a newer
// group waits until the older one's transactions on the object are through, and who is late begins
// again.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "fs/object/tx.h"
#include "vdev/base/sync.h"

namespace zuse::posix {

// One per object (and one for the unlinked set); guarded by the gate's mutex.
struct TxOrder {
  std::uint64_t txg = 0;
  unsigned holds = 0;
};

class TxGate;

// A transaction on some objects. Movable. The objects outlive it.
class OrderedTx {
 public:
  OrderedTx(OrderedTx&& other) noexcept
      : gate_(std::exchange(other.gate_, nullptr)),
        orders_(std::move(other.orders_)),
        tx_(std::move(other.tx_)) {}
  OrderedTx& operator=(OrderedTx&&) = delete;
  ~OrderedTx();

  operator object::Tx&() noexcept { return tx_; }  // NOLINT: it is one
  object::Tx& tx() noexcept { return tx_; }

 private:
  friend class TxGate;
  OrderedTx(TxGate& gate, std::vector<TxOrder*> orders, object::Tx tx)
      : gate_(&gate), orders_(std::move(orders)), tx_(std::move(tx)) {}

  TxGate* gate_;
  std::vector<TxOrder*> orders_;
  object::Tx tx_;
};

// Thread-safe.
class TxGate {
 public:
  // `begin` makes a plain transaction, perhaps several times. Null orders are left out.
  Result<OrderedTx> enter(const std::function<Result<object::Tx>()>& begin,
                          std::initializer_list<TxOrder*> orders);

 private:
  friend class OrderedTx;
  void leave(const std::vector<TxOrder*>& orders) noexcept;

  Mutex mutex_{LockRank::leaf};
  CondVar left_;
  unsigned waiting_ ZUSE_GUARDED_BY(mutex_) = 0;
};

}  // namespace zuse::posix
