// Scrub and error log: what the scan engine and the pipeline know, kept in the MOS.
// source: format page 04 section 8.
#include <cstdio>

#include "fs/dataset/mos.h"
#include "fs/dataset/pool_impl.h"

namespace zuse::dataset {
namespace {

constexpr std::size_t kErrorsStored = 4096;

// "objset:object:level:block", or without the first part and with the birth, in hexadecimal.
std::string error_key(const pool::BlockError& error, bool per_head) {
  std::array<char, 96> text{};
  const auto level = static_cast<std::uint64_t>(error.bookmark.level);
  if (per_head) {
    std::snprintf(text.data(), text.size(), "%lx:%lx:%lx:%lx", error.bookmark.object, level,
                  error.bookmark.block, error.birth);
  } else {
    std::snprintf(text.data(), text.size(), "%lx:%lx:%lx:%lx", error.bookmark.objset,
                  error.bookmark.object, level, error.bookmark.block);
  }
  return text.data();
}

// Reads back four numbers; false for a key of another form.
bool parse_key(const std::string& text, std::array<std::uint64_t, 4>& numbers) {
  int end = 0;
  return std::sscanf(text.c_str(), "%lx:%lx:%lx:%lx%n", &numbers[0], &numbers[1], &numbers[2],
                     &numbers[3], &end) == 4 &&
         static_cast<std::size_t>(end) == text.size();
}

ScanStatus describe(const format::ScanPhys& phys, double speed) {
  ScanStatus status;
  status.function = phys.function == format::ScanFunction::scrub ? ScanStatus::Function::scrub
                    : phys.function == format::ScanFunction::resilver
                        ? ScanStatus::Function::resilver
                        : ScanStatus::Function::none;
  const bool paused = (phys.flags & format::kScanFlagPaused) != 0;
  switch (phys.state) {
    case format::ScanState::scanning:
      status.state = paused ? ScanStatus::State::paused : ScanStatus::State::scanning;
      break;
    case format::ScanState::finished: status.state = ScanStatus::State::finished; break;
    case format::ScanState::canceled: status.state = ScanStatus::State::canceled; break;
    default: status.state = ScanStatus::State::none; break;
  }
  status.start_time = phys.start_time;
  status.end_time = phys.end_time;
  status.to_examine = phys.to_examine;
  status.examined = phys.examined;
  status.repaired = phys.processed;
  status.errors = phys.errors;
  status.bytes_per_second = speed;
  return status;
}

}  // namespace

Result<void> PoolImpl::load_scan() {
  ZUSE_TRY(const object::Zap directory, object_directory(*mos_));
  const auto stored = directory.lookup_value(key::kScan);
  if (stored) {
    ZUSE_TRY(scan_phys_, format::decode_scan(stored->integers));
  } else if (stored.error().code() != Errc::not_found) {
    return std::unexpected(stored.error());
  }
  if (options_.read_only) {
    return {};
  }
  scan_queue_ = scan_phys_.queue;
  pool::ScanHooks hooks;
  hooks.roots = [this]() -> Result<std::vector<pool::ScanRoot>> { return scan_roots(); };
  hooks.changed = [this] {
    if (started_) {
      txgs_->kick();
    }
  };
  scan_ = std::make_unique<pool::Scan>(storage_->pipeline(), std::move(hooks));
  return {};
}

Result<std::vector<pool::ScanRoot>> PoolImpl::scan_roots() {
  std::vector<pool::ScanRoot> roots{{0, mos_->root(), 0}};
  ZUSE_TRY(const auto datasets, dsl_->all_datasets());
  for (const std::uint64_t object : datasets) {
    ZUSE_TRY(const auto phys, dsl_->dataset(object));
    if (!phys.bp.is_hole()) {
      roots.push_back({object, phys.bp, phys.prev_snap_txg});
    }
  }
  return roots;
}

Result<void> PoolImpl::sync_scan(object::Tx& tx) {
  if (scan_ == nullptr || scan_->generation() == scan_generation_) {
    return {};
  }
  scan_generation_ = scan_->generation();
  format::ScanPhys phys = scan_->state();
  const bool scanning = phys.state == format::ScanState::scanning;
  if (scanning && scan_queue_ == 0) {
    // What is left to visit, for a program that goes on from here: every dataset, once more.
    object::NewObject spec;
    spec.type = format::ObjectType::scan_queue;
    ZUSE_TRY(object::Zap queue, object::Zap::create(*mos_, tx, spec));
    ZUSE_TRY(const auto datasets, dsl_->all_datasets());
    for (const std::uint64_t object : datasets) {
      ZUSE_TRY(const auto dataset, dsl_->dataset(object));
      ZUSE_TRY_VOID(queue.add(tx, object::Zap::hex_key(object), dataset.prev_snap_txg));
    }
    scan_queue_ = queue.object();
  } else if (!scanning && scan_queue_ != 0) {
    ZUSE_TRY_VOID(mos_->free_object(tx, scan_queue_));
    scan_queue_ = 0;
  }
  phys.queue = scan_queue_;
  const auto words = format::encode_scan(phys);
  object::ZapValue value;
  value.integers.assign(words.begin(), words.end());
  ZUSE_TRY(object::Zap directory, object_directory(*mos_));
  ZUSE_TRY_VOID(directory.update_value(tx, key::kScan, value));
  const LockGuard lock(mutex_);
  if (phys.state != scan_phys_.state || phys.start_time != scan_phys_.start_time) {
    config_dirty_ = true;  // the start and end of a scan are told in the labels
  }
  scan_phys_ = phys;
  return {};
}

Result<void> PoolImpl::scrub_start() {
  if (scan_ == nullptr) {
    return fail(Errc::read_only, "cannot scrub " + name_ + ": the pool is read-only");
  }
  ZUSE_TRY_VOID(txgs_->wait_synced());
  ZUSE_TRY_VOID(scan_->start(format::ScanFunction::scrub, txgs_->last_synced() + 1, allocated()));
  txgs_->kick();
  return {};
}

Result<void> PoolImpl::scrub_pause() {
  if (scan_ == nullptr) {
    return fail(Errc::read_only, "pool '" + name_ + "' is read-only");
  }
  ZUSE_TRY_VOID(scan_->pause());
  return txgs_->wait_synced();
}

Result<void> PoolImpl::scrub_stop() {
  if (scan_ == nullptr) {
    return fail(Errc::read_only, "pool '" + name_ + "' is read-only");
  }
  ZUSE_TRY_VOID(scan_->stop());
  return txgs_->wait_synced();
}

Result<void> PoolImpl::scrub_wait() {
  if (scan_ == nullptr) {
    return {};
  }
  ZUSE_TRY_VOID(scan_->wait());
  return txgs_->wait_synced();
}

ScanStatus PoolImpl::scan_status() const {
  if (scan_ != nullptr) {
    return describe(scan_->state(), scan_->speed());
  }
  const LockGuard lock(mutex_);
  return describe(scan_phys_, 0);
}

Result<void> PoolImpl::load_error_log() {
  std::vector<pool::BlockError> errors;
  ZUSE_TRY(const auto object, directory_entry(*mos_, key::kErrlogLast));
  if (object && *object != 0) {
    ZUSE_TRY(const object::Zap log, object::Zap::open(*mos_, *object));
    ZUSE_TRY_VOID(log.for_each([&](const object::ZapEntry& entry) -> Result<void> {
      std::array<std::uint64_t, 4> n{};
      if (parse_key(entry.name, n)) {
        errors.push_back({{n[0], n[1], static_cast<std::int64_t>(n[2]), n[3]}, 0});
        return {};
      }
      // Newer pools: a ZAP for each head dataset.
      std::uint64_t head = 0;
      if (std::sscanf(entry.name.c_str(), "%lx", &head) != 1 || entry.value.integers.empty()) {
        return {};
      }
      ZUSE_TRY(const object::Zap below, object::Zap::open(*mos_, entry.value.integers[0]));
      return below.for_each([&](const object::ZapEntry& inner) -> Result<void> {
        if (parse_key(inner.name, n)) {
          errors.push_back({{head, n[0], static_cast<std::int64_t>(n[1]), n[2]}, n[3]});
        }
        return {};
      });
    }));
  }
  storage_->errors().load(errors);
  error_generation_ = storage_->errors().generation();
  return {};
}

Result<void> PoolImpl::sync_error_log(object::Tx& tx) {
  const std::uint64_t generation = storage_->errors().generation();
  if (generation == error_generation_) {
    return {};
  }
  error_generation_ = generation;
  const bool per_head = features_.active(feature::kHeadErrlog);
  ZUSE_TRY(object::Zap directory, object_directory(*mos_));
  ZUSE_TRY(const auto old, directory_entry(*mos_, key::kErrlogLast));
  if (old && *old != 0) {
    if (per_head) {
      ZUSE_TRY(const object::Zap log, object::Zap::open(*mos_, *old));
      std::vector<std::uint64_t> below;
      ZUSE_TRY_VOID(log.for_each([&](const object::ZapEntry& entry) -> Result<void> {
        below.insert(below.end(), entry.value.integers.begin(), entry.value.integers.end());
        return {};
      }));
      for (const std::uint64_t object : below) {
        ZUSE_TRY_VOID(mos_->free_object(tx, object));
      }
    }
    ZUSE_TRY_VOID(mos_->free_object(tx, *old));
  }
  std::vector<pool::BlockError> errors = storage_->errors().list();
  errors.resize(std::min(errors.size(), kErrorsStored));
  object::NewObject spec;
  spec.type = format::ObjectType::error_log;
  std::uint64_t stored = 0;
  if (!errors.empty()) {
    ZUSE_TRY(object::Zap log, object::Zap::create(*mos_, tx, spec));
    stored = log.object();
    std::map<std::uint64_t, std::uint64_t> heads;
    for (const pool::BlockError& error : errors) {
      if (per_head && !heads.contains(error.bookmark.objset)) {
        ZUSE_TRY(const object::Zap made, object::Zap::create(*mos_, tx, spec));
        heads[error.bookmark.objset] = made.object();
        ZUSE_TRY_VOID(log.add(tx, object::Zap::hex_key(error.bookmark.objset), made.object()));
      }
      ZUSE_TRY(object::Zap into, per_head ? object::Zap::open(*mos_, heads[error.bookmark.objset])
                                          : Result<object::Zap>(log));
      ZUSE_TRY_VOID(
          into.update_value(tx, error_key(error, per_head), object::ZapValue::string("")));
    }
  }
  return directory.update(tx, key::kErrlogLast, stored);
}

}  // namespace zuse::dataset
