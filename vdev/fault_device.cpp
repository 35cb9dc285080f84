// Asks, wraps the completion where the answer needs it, and holds back what has to be late.
#include "vdev/fault_device.h"

#include <utility>

namespace zuse::vdev {
namespace {

// Ends the request at `due`, or now if that has passed.
void finish_at(IoRequest& request, IoBatch& batch, std::chrono::steady_clock::time_point due,
               IoStatus status) {
  if (due == std::chrono::steady_clock::time_point{}) {
    request.finish(status);
    return;
  }
  batch.call_at(due, [&request, status] { request.finish(status); });
}

// A watched request on its way: what its owner had set, and what was decided.
struct Watched {
  std::function<void(IoRequest&)> owner_on_done;
  Verdict verdict;
};

}  // namespace

FaultDevice::FaultDevice(std::unique_ptr<BlockDevice> inner, FaultInjector& injector,
                         std::uint64_t leaf_guid)
    : inner_(std::move(inner)),
      injector_(injector),
      context_{
          .leaf_guid = leaf_guid, .device_name = &inner_->name(), .device_size = inner_->size()} {}

void FaultDevice::start(IoRequest& request, IoBatch& batch) {
  if (!injector_.active()) {
    inner_->start(request, batch);
    return;
  }
  start_watched(request, batch);
}

void FaultDevice::start_watched(IoRequest& request, IoBatch& batch) {
  const Verdict verdict = injector_.on_start(context_, request);
  if (verdict.action == Verdict::Action::answer) {
    finish_at(request, batch, verdict.not_before, verdict.status);
    return;
  }
  const bool late = verdict.not_before != std::chrono::steady_clock::time_point{};
  if (!verdict.wants_completion && !late) {
    inner_->start(request, batch);
    return;
  }
  auto watched = std::make_shared<Watched>();
  watched->owner_on_done = std::move(request.on_done);
  watched->verdict = verdict;
  request.on_done = [this, watched, &batch](IoRequest& done) {
    // Giving the owner's function its place back destroys this one with its captures: from there on
    // only locals are touched.
    const std::shared_ptr<Watched> mine = watched;
    FaultDevice& self = *this;
    IoBatch& its_batch = batch;
    done.on_done = std::move(mine->owner_on_done);
    if (mine->verdict.wants_completion) {
      self.injector_.on_complete(self.context_, mine->verdict, done);
    }
    finish_at(done, its_batch, mine->verdict.not_before, done.status);
  };
  inner_->start(request, batch);
}

}  // namespace zuse::vdev
