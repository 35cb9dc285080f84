// Two bounded sets and the moment when one becomes the other.
#include "fs/pool/error_log.h"

#include <utility>

namespace zuse::pool {

void ErrorLog::add(const BlockError& error) {
  const LockGuard lock(mutex_);
  if (standing_.size() < kBlockErrorsMax && standing_.insert(error).second) {
    ++generation_;
  }
}

void ErrorLog::add_scrub(const BlockError& error) {
  const LockGuard lock(mutex_);
  if (scrub_.size() < kBlockErrorsMax && scrub_.insert(error).second) {
    ++generation_;
  }
}

void ErrorLog::begin_scrub() {
  const LockGuard lock(mutex_);
  scrub_.clear();
  ++generation_;
}

void ErrorLog::end_scrub(bool complete) {
  const LockGuard lock(mutex_);
  if (complete) {
    standing_ = std::exchange(scrub_, {});
  } else {
    standing_.merge(std::exchange(scrub_, {}));
  }
  ++generation_;
}

std::vector<BlockError> ErrorLog::list() const {
  const LockGuard lock(mutex_);
  std::set<BlockError> all = standing_;
  all.insert(scrub_.begin(), scrub_.end());
  return {all.begin(), all.end()};
}

std::vector<BlockError> ErrorLog::scrub() const {
  const LockGuard lock(mutex_);
  return {scrub_.begin(), scrub_.end()};
}

void ErrorLog::load(const std::vector<BlockError>& errors) {
  const LockGuard lock(mutex_);
  for (const BlockError& error : errors) {
    if (standing_.size() < kBlockErrorsMax) {
      standing_.insert(error);
    }
  }
  ++generation_;
}

void ErrorLog::clear() {
  const LockGuard lock(mutex_);
  standing_.clear();
  scrub_.clear();
  ++generation_;
}

std::uint64_t ErrorLog::generation() const {
  const LockGuard lock(mutex_);
  return generation_;
}

}  // namespace zuse::pool
