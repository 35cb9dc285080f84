// Jobs: the working memory of one call of the tree, handed from call to call.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace zuse::vdev {

// At least `count` jobs as new. A thread keeps those of its last call, for the memory of their
// vectors.
template <class Job>
class Jobs {
 public:
  explicit Jobs(std::size_t count) : jobs_(std::exchange(kept(), {})) {
    if (jobs_.size() < count) {
      jobs_.resize(count);
    }
  }
  ~Jobs() {
    if (jobs_.size() > kKept) {
      jobs_.resize(kKept);
    }
    for (Job& job : jobs_) {
      job.reset();
    }
    kept() = std::move(jobs_);
  }
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  Job& operator[](std::size_t i) { return jobs_[i]; }

 private:
  static constexpr std::size_t kKept = 64;
  static std::vector<Job>& kept() {
    thread_local std::vector<Job> jobs;
    return jobs;
  }

  std::vector<Job> jobs_;
};

}  // namespace zuse::vdev
