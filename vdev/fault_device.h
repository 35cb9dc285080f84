// A decorator that misbehaves on request. It holds no rules: it asks an injector before each
// request and again at its completion. With no rule active the price is one relaxed atomic load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "vdev/block_device.h"

namespace zuse::vdev {

// Where a request is going.
struct FaultContext {
  std::uint64_t leaf_guid = 0;
  const std::string* device_name = nullptr;
  std::uint64_t device_size = 0;  // bytes
};

// What becomes of a request.
struct Verdict {
  enum class Action : std::uint8_t {
    pass,    // to the device; on_complete() decides about the result
    answer,  // the device is not asked; the request ends with `status`
  };
  Action action = Action::pass;
  IoStatus status = IoStatus::ok;
  // The request does not end before this. Zero: at once.
  std::chrono::steady_clock::time_point not_before{};
  // on_complete() is to be called. The words are the injector's own.
  bool wants_completion = false;
  std::uint64_t rule = 0;
  std::uint64_t effect = 0;
  std::uint64_t detail = 0;
};

// Who decides. Thread-safe. Must outlive the devices that ask it.
class FaultInjector {
 public:
  virtual ~FaultInjector() = default;

  bool active() const noexcept { return active_.load(std::memory_order_relaxed); }
  // May end up with a verdict on any request; must not change it.
  virtual Verdict on_start(const FaultContext& where, const IoRequest& request) = 0;
  // After the device has answered (request.status says how): may change data and status.
  virtual void on_complete(const FaultContext& where, const Verdict& verdict,
                           IoRequest& request) = 0;
  // Whether opening this leaf's device has to fail: asked by who opens leaves.
  virtual bool refuses_open(std::uint64_t leaf_guid) = 0;

 protected:
  void set_active(bool active) noexcept { active_.store(active, std::memory_order_relaxed); }

 private:
  std::atomic<bool> active_{false};
};

// Thread-safe.
class FaultDevice final : public BlockDevice {
 public:
  FaultDevice(std::unique_ptr<BlockDevice> inner, FaultInjector& injector, std::uint64_t leaf_guid);

  const std::string& name() const override { return inner_->name(); }
  std::uint64_t size() const override { return inner_->size(); }
  unsigned sector_shift() const override { return inner_->sector_shift(); }
  bool read_only() const override { return inner_->read_only(); }
  bool uncached() const override { return inner_->uncached(); }
  void start(IoRequest& request, IoBatch& batch) override;

  BlockDevice& inner() noexcept { return *inner_; }

 private:
  void start_watched(IoRequest& request, IoBatch& batch);

  const std::unique_ptr<BlockDevice> inner_;
  FaultInjector& injector_;
  const FaultContext context_;
};

}  // namespace zuse::vdev
