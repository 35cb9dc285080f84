// A list of what is held, searched from the front: files are rarely read or written by more than a
// few threads at once.
#include "fs/posix/range_lock.h"

#include <algorithm>

namespace zuse::posix {

RangeLocks::Guard RangeLocks::lock(std::uint64_t object, std::uint64_t offset, std::uint64_t length,
                                   bool shared) {
  const std::uint64_t last = length == kWholeFile || offset > ~std::uint64_t{0} - length
                                 ? ~std::uint64_t{0}
                                 : offset + length - 1;
  Stripe& stripe = stripes_[object % stripes_.size()];
  const LockGuard lock(stripe.mutex);
  const auto excluded = [&](const Held& held) {
    return held.object == object && held.first <= last && offset <= held.last &&
           !(held.shared && shared);
  };
  while (std::any_of(stripe.held.begin(), stripe.held.end(), excluded)) {
    stripe.freed.wait(stripe.mutex);
  }
  stripe.held.push_front({object, offset, last, shared});
  return {stripe, stripe.held.begin()};
}

void RangeLocks::Guard::release() noexcept {
  if (stripe_ == nullptr) {
    return;
  }
  {
    const LockGuard lock(stripe_->mutex);
    stripe_->held.erase(position_);
  }
  stripe_->freed.notify_all();
  stripe_ = nullptr;
}

}  // namespace zuse::posix
