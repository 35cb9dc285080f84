// One mutex for all objects: it is held for a few instructions, and waiting happens only while the
// open group moves on.
#include "fs/posix/tx_order.h"

#include <algorithm>

namespace zuse::posix {

Result<OrderedTx> TxGate::enter(const std::function<Result<object::Tx>()>& begin,
                                std::initializer_list<TxOrder*> orders) {
  std::vector<TxOrder*> held(orders);
  std::erase(held, nullptr);
  std::sort(held.begin(), held.end());
  held.erase(std::unique(held.begin(), held.end()), held.end());
  for (;;) {
    std::uint64_t txg = 0;
    {
      ZUSE_TRY(object::Tx tx, begin());
      txg = tx.txg();
      const LockGuard lock(mutex_);
      const bool late = std::any_of(held.begin(), held.end(),
                                    [&](const TxOrder* order) { return order->txg > txg; });
      const bool early = std::any_of(held.begin(), held.end(), [&](const TxOrder* order) {
        return order->holds > 0 && order->txg < txg;
      });
      if (!late && !early) {
        for (TxOrder* const order : held) {
          order->txg = txg;
          ++order->holds;
        }
        return OrderedTx(*this, std::move(held), std::move(tx));
      }
      if (late) {
        continue;  // a newer group is open by now
      }
    }
    // Wait without a transaction of our own: the older one may need this group's predecessor to
    // sync, and nothing syncs past a transaction that waits.
    const LockGuard lock(mutex_);
    ++waiting_;
    while (std::any_of(held.begin(), held.end(), [&](const TxOrder* order) {
      return order->holds > 0 && order->txg < txg;
    })) {
      left_.wait(mutex_);
    }
    --waiting_;
  }
}

void TxGate::leave(const std::vector<TxOrder*>& orders) noexcept {
  bool wake = false;
  {
    const LockGuard lock(mutex_);
    for (TxOrder* const order : orders) {
      --order->holds;
    }
    wake = waiting_ > 0;
  }
  if (wake) {
    left_.notify_all();
  }
}

OrderedTx::~OrderedTx() {
  if (gate_ != nullptr) {
    gate_->leave(orders_);
  }
}

}  // namespace zuse::posix
