// The scan thread. A slice walks with one thread, which gathers blocks into batches; a few workers
// read and compare them. The bookmark moves only when all batches of the slice are done, so a scan
// that is cut off repeats a slice at most.
#include "fs/pool/scan.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "fs/pool/traverse.h"
#include "vdev/base/log.h"

namespace zuse::pool {
namespace {

spdlog::logger& log() {
  static auto& l = layer_log("pool");
  return l;
}

constexpr std::size_t kBatchBlocks = 512;

bool paused(const format::ScanPhys& state) noexcept {
  return (state.flags & format::kScanFlagPaused) != 0;
}

}  // namespace

// The batches of one slice and what they found.
class Scan::Slice {
 public:
  Slice(IoPipeline& pipeline, const ScanOptions& options)
      : pipeline_(pipeline), options_(options), workers_(options.workers) {}
  ~Slice() { wait(); }

  void add(const format::Blkptr& blkptr, const Bookmark& bookmark) {
    batch_.blkptrs.push_back(blkptr);
    batch_.bookmarks.push_back(bookmark);
    for (const format::Dva& dva : std::span(blkptr.dva).first(blkptr.copies())) {
      batch_.bytes += dva.asize;
    }
    if (batch_.bytes >= options_.batch_bytes || batch_.blkptrs.size() >= kBatchBlocks) {
      submit();
    }
  }

  // Returns when all that was added has been looked at.
  void wait() {
    submit();
    const LockGuard lock(mutex_);
    while (in_flight_ != 0) {
      done_.wait(mutex_);
    }
  }

  // shape: after wait().
  std::uint64_t examined() const { return examined_; }
  std::uint64_t repaired() const { return repaired_; }
  std::uint64_t lost() const { return lost_; }
  std::uint64_t skipped() const { return skipped_; }  // checksums that we lack
  bool incomplete() const { return lost_ != 0 || copies_lost_ != 0 || skipped_ != 0; }

 private:
  struct Batch {
    std::vector<format::Blkptr> blkptrs;
    std::vector<Bookmark> bookmarks;
    std::uint64_t bytes = 0;
  };

  void submit() {
    if (batch_.blkptrs.empty()) {
      return;
    }
    {
      const LockGuard lock(mutex_);
      while (in_flight_ >= 2 * options_.workers) {
        done_.wait(mutex_);
      }
      ++in_flight_;
    }
    workers_.run([this, batch = std::make_shared<Batch>(std::exchange(batch_, {}))] {
      std::vector<ScrubResult> results(batch->blkptrs.size());
      pipeline_.scrub(batch->blkptrs, batch->bookmarks, results);
      const LockGuard lock(mutex_);
      for (std::size_t i = 0; i < results.size(); ++i) {
        const ScrubResult& result = results[i];
        examined_ += result.examined;
        repaired_ += result.repaired;
        copies_lost_ += result.copies_lost;
        if (!result.result && result.result.error().code() == Errc::unsupported) {
          for (const format::Dva& dva :
               std::span(batch->blkptrs[i].dva).first(batch->blkptrs[i].copies())) {
            skipped_ += dva.asize;
          }
        } else if (!result.result) {
          ++lost_;
          const Bookmark& at = batch->bookmarks[i];
          log().error("scan_block_lost at={}/{}/{}/{} why={}", at.objset, at.object, at.level,
                      at.block, result.result.error().what());
        }
      }
      --in_flight_;
      done_.notify_all();
    });
  }

  IoPipeline& pipeline_;
  const ScanOptions& options_;
  Batch batch_;
  Mutex mutex_{LockRank::leaf};
  CondVar done_;
  unsigned in_flight_ ZUSE_GUARDED_BY(mutex_) = 0;
  // Bytes, bytes, bytes; blocks, copies.
  std::uint64_t examined_ = 0, repaired_ = 0, skipped_ = 0, lost_ = 0, copies_lost_ = 0;
  CpuPool workers_;  // last: its threads end first
};

Scan::Scan(IoPipeline& pipeline, ScanHooks hooks, ScanOptions options)
    : pipeline_(pipeline),
      hooks_(std::move(hooks)),
      options_(options),
      thread_([this] { run(); }) {}

Scan::~Scan() {
  shut_down();
}

bool Scan::wants_to_run_locked() const {
  return state_.state == format::ScanState::scanning && !paused(state_) && !ending_;
}

void Scan::tell() const {
  if (hooks_.changed) {
    hooks_.changed();
  }
}

void Scan::load(const format::ScanPhys& state) {
  const LockGuard lock(mutex_);
  state_ = state;
  state_.queue = 0;
  since_ = std::chrono::steady_clock::now();
  examined_before_ = state_.examined;
  walked_.clear();
  position_known_ = false;
  // What a former process lost is in its counters only.
  incomplete_ = state_.errors != 0;
  ++epoch_;
  wake_.notify_all();
}

Result<void> Scan::start(format::ScanFunction function, std::uint64_t max_txg,
                         std::uint64_t to_examine) {
  {
    const LockGuard lock(mutex_);
    if (ending_) {
      return fail(Errc::stopped, "the pool is closing");
    }
    const bool active = state_.state == format::ScanState::scanning;
    if (active && !paused(state_)) {
      return fail(Errc::busy, "a scan is running");
    }
    if (active) {
      state_.flags &= ~format::kScanFlagPaused;
    } else {
      state_ = {};
      state_.function = function;
      state_.state = format::ScanState::scanning;
      state_.max_txg = max_txg;
      state_.start_time =
          hooks_.now ? hooks_.now() : static_cast<std::uint64_t>(std::time(nullptr));
      state_.to_examine = to_examine;
      state_.level = static_cast<std::uint64_t>(std::int64_t{-1});
      walked_.clear();
      position_known_ = true;
      incomplete_ = false;
      pipeline_.error_log().begin_scrub();
      pipeline_.tree().scan_started();
    }
    since_ = std::chrono::steady_clock::now();
    examined_before_ = state_.examined;
    ++epoch_;
    ++generation_;
    wake_.notify_all();
  }
  tell();
  return {};
}

Result<void> Scan::pause() {
  {
    const LockGuard lock(mutex_);
    if (state_.state != format::ScanState::scanning || paused(state_)) {
      return fail(Errc::not_found, "no scan is running");
    }
    state_.flags |= format::kScanFlagPaused;
    ++epoch_;
    ++generation_;
    wake_.notify_all();
  }
  tell();
  return {};
}

Result<void> Scan::stop() {
  {
    const LockGuard lock(mutex_);
    if (state_.state != format::ScanState::scanning) {
      return fail(Errc::not_found, "no scan is running");
    }
    ++epoch_;
  }
  finish(format::ScanState::canceled);
  return {};
}

Result<void> Scan::wait() {
  const LockGuard lock(mutex_);
  while (wants_to_run_locked()) {
    wake_.wait(mutex_);
  }
  return {};
}

void Scan::shut_down() {
  {
    const LockGuard lock(mutex_);
    ending_ = true;
    ++epoch_;
    wake_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

format::ScanPhys Scan::state() const {
  const LockGuard lock(mutex_);
  return state_;
}

bool Scan::running() const {
  const LockGuard lock(mutex_);
  return wants_to_run_locked();
}

double Scan::speed() const {
  const LockGuard lock(mutex_);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - since_;
  return elapsed.count() <= 0
             ? 0
             : static_cast<double>(state_.examined - examined_before_) / elapsed.count();
}

void Scan::finish(format::ScanState how) {
  {
    const LockGuard lock(mutex_);
    if (state_.state != format::ScanState::scanning) {
      return;
    }
    // What follows from the end is done before anyone can see that it has come.
    const bool complete = how == format::ScanState::finished;
    pipeline_.error_log().end_scrub(complete);
    if (complete) {
      pipeline_.tree().scan_finished(state_.max_txg, !incomplete_);
    }
    log().info("scan_ended how={} clean={}", static_cast<unsigned>(how), !incomplete_);
    state_.state = how;
    state_.flags = 0;
    state_.end_time = hooks_.now ? hooks_.now() : static_cast<std::uint64_t>(std::time(nullptr));
    if (complete) {
      state_.to_examine = state_.examined;
    }
    state_.objset = state_.object = state_.level = state_.block = 0;
    ++generation_;
    wake_.notify_all();
  }
  tell();
}

void Scan::run() {
  for (;;) {
    std::uint64_t epoch = 0;
    {
      const LockGuard lock(mutex_);
      while (!wants_to_run_locked() && !ending_) {
        wake_.wait(mutex_);
      }
      if (ending_) {
        return;
      }
      epoch = epoch_.load();
    }
    const Result<bool> all = walk(epoch);
    if (epoch_.load() != epoch) {
      continue;
    }
    if (!all) {
      log().error("scan_gave_up why={}", all.error().what());
      finish(format::ScanState::canceled);
    } else if (*all) {
      finish(format::ScanState::finished);
    }
  }
}

Result<bool> Scan::walk(std::uint64_t epoch) {
  const auto deadline = std::chrono::steady_clock::now() + options_.slice;
  const Allocator::Pin pin = pipeline_.allocator().pin_frees();
  ZUSE_TRY(std::vector<ScanRoot> roots, hooks_.roots());
  std::ranges::sort(roots, {}, &ScanRoot::objset);

  format::ScanPhys begin;
  std::vector<ScanRoot> to_walk;
  {
    const LockGuard lock(mutex_);
    if (epoch_.load() != epoch) {
      return false;
    }
    begin = state_;
    for (const ScanRoot& root : roots) {
      if (!position_known_ && root.objset < begin.objset) {
        walked_[root.objset] = root.min_birth;
      }
      const auto done = walked_.find(root.objset);
      if (done == walked_.end() || root.min_birth < done->second) {
        to_walk.push_back(root);
      }
    }
    position_known_ = true;
  }
  Slice slice(pipeline_, options_);
  Bookmark next;  // the first block not looked at
  bool missed = false, interrupted = false, any = false;
  std::map<std::uint64_t, std::uint64_t> walked;
  for (const ScanRoot& root : to_walk) {
    TraverseOptions options;
    options.min_birth = std::max(root.min_birth, begin.min_txg);
    options.max_birth = begin.max_txg == 0 ? ~std::uint64_t{0} : begin.max_txg - 1;
    if (root.objset == begin.objset) {
      options.resume =
          Bookmark{begin.objset, begin.object, static_cast<std::int64_t>(begin.level), begin.block};
    }
    TraverseCalls calls;
    calls.visit = [&](const format::Blkptr& blkptr, const Bookmark& at, BlockKind) -> Result<void> {
      const bool late = any && std::chrono::steady_clock::now() >= deadline;
      if (late || epoch_.load(std::memory_order_relaxed) != epoch) {
        next = at;
        return fail(Errc::stopped);
      }
      any = true;
      if (!blkptr.is_hole() && !blkptr.embedded) {
        slice.add(blkptr, at);
      }
      return {};
    };
    calls.error = [&](const Bookmark& at, const Error& error) {
      missed = true;
      log().error("scan_cannot_descend at={}/{}/{}/{} why={}", at.objset, at.object, at.level,
                  at.block, error.what());
    };
    if (options.min_birth < options.max_birth) {
      if (!traverse(pipeline_, root.objset, root.root, options, calls)) {
        interrupted = true;
        break;
      }
    }
    walked[root.objset] = root.min_birth;
  }
  slice.wait();

  const LockGuard lock(mutex_);
  if (state_.state != format::ScanState::scanning || state_.start_time != begin.start_time) {
    return false;  // stopped meanwhile
  }
  state_.examined += slice.examined();
  state_.processed += slice.repaired();
  state_.skipped += slice.skipped();
  state_.errors += slice.lost();
  incomplete_ = incomplete_ || missed || slice.incomplete();
  walked_.merge(walked);
  for (const auto& [objset, min_birth] : walked) {  // those walked again
    walked_[objset] = min_birth;
  }
  if (interrupted) {
    state_.objset = next.objset;
    state_.object = next.object;
    state_.level = static_cast<std::uint64_t>(next.level);
    state_.block = next.block;
  }
  ++generation_;
  return !interrupted;
}

}  // namespace zuse::pool
