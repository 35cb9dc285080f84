// The tree: opens leaves, builds the top-level vdevs over them, sends batches of blocks through
// them, and keeps their states.
#include "vdev/tree.h"

#include <algorithm>
#include <deque>

#include "raid/registry.h"
#include "vdev/base/log.h"
#include "vdev/base/units.h"
#include "vdev/health.h"
#include "vdev/jobs.h"
#include "vdev/label_area.h"
#include "vdev/leaf.h"
#include "vdev/top.h"

namespace zuse::vdev {
namespace {

spdlog::logger& log() {
  static auto& logger = layer_log("vdev");
  return logger;
}

// Data of writes handed to the kernel at once.
constexpr std::size_t kSubmitBytes = std::size_t{1} << 20;
constexpr std::size_t kBlockSizeMax = std::size_t{1} << 25;  // what 16 bits of sectors can say

bool is_leaf(VdevType type) {
  return type == VdevType::file || type == VdevType::disk;
}

// The first bytes can be read.
bool answers(BlockDevice& device) {
  Buffer probe(4096);
  return device.read(0, probe.span(), IoPurpose::probe).has_value();
}

class Tree final : public VdevTree {
 public:
  Tree(VdevConfig root, bool read_only) : root_(std::move(root)) {
    context_.kernels = &raid::fastest();
    context_.read_only = read_only;
    context_.distrust = [this](vdev::Leaf& leaf, bool io) { distrust(leaf, io); };
    context_.lost = [this](vdev::Leaf& leaf) { lose(leaf); };
  }

  Result<void> build(const LeafOpener& open_leaf) {
    for (std::uint32_t i = 0; i < root_.children.size(); ++i) {
      ZUSE_TRY_VOID(build_top(i, open_leaf));
    }
    return {};
  }

  Result<void> set_raidz_impl(const std::string& name) override {
    const auto chosen = raid::choose(name);
    if (!chosen) {
      return fail(Errc::invalid, chosen.error());
    }
    context_.kernels = *chosen;
    return {};
  }
  std::string raidz_impl() const override { return context_.kernels.load()->name; }

  unsigned top_count() const override { return static_cast<unsigned>(tops_.size()); }
  TopGeometry geometry(unsigned top) const override {
    return top < tops_.size() && tops_[top] ? tops_[top]->geometry() : TopGeometry{};
  }
  bool usable(unsigned top) const override {
    return top < tops_.size() && tops_[top] != nullptr &&
           tops_[top]->unusable() <= tops_[top]->redundancy();
  }
  unsigned load(unsigned top) const override {
    return top < tops_.size() && tops_[top] ? tops_[top]->in_flight.load(std::memory_order_relaxed)
                                            : ~0U;
  }

  void read(std::span<BlockRead> blocks) override;
  void write(std::span<BlockWrite> blocks) override;
  Result<void> flush() override;

  std::vector<VdevTree::Leaf> leaves() const override {
    std::vector<VdevTree::Leaf> list;
    for (const auto& leaf : leaves_) {
      list.push_back({leaf->guid(), leaf->top(), leaf->path(), leaf->device(), leaf->state()});
    }
    return list;
  }

  Result<void> set_leaf_state(std::uint64_t guid, VdevState state, VdevAux aux) override;
  Result<void> reopen_leaf(std::uint64_t guid, const LeafOpener& open_leaf) override;
  Result<void> clear(std::uint64_t guid) override;

  VdevStatus status() const override { return describe(root_); }
  VdevConfig config() const override {
    VdevConfig config = root_;
    refresh(config);
    return config;
  }
  std::uint64_t config_generation() const override { return generation_.load(); }

  std::vector<LeafDtl> dtls(bool only_changed) override {
    std::vector<LeafDtl> list;
    for (const auto& leaf : leaves_) {
      if (only_changed ? leaf->take_dtl_changed() : leaf->missed_any()) {
        list.push_back({leaf->guid(), leaf->dtl()});
      }
    }
    return list;
  }
  void load_dtl(std::uint64_t guid, Dtl missing) override {
    if (vdev::Leaf* const leaf = find(guid)) {
      leaf->set_dtl(std::move(missing), false);
    }
  }
  void scan_finished(std::uint64_t max_txg, bool without_errors) override {
    for (const auto& leaf : leaves_) {
      // Without these, only what could not be repaired is added to what was missed.
      leaf->scan_finished(without_errors && leaf->usable() ? max_txg : 0);
    }
  }
  void scan_started() override {
    for (const auto& leaf : leaves_) {
      leaf->scan_started();
    }
  }

 private:
  Result<void> build_top(std::uint32_t index, const LeafOpener& open_leaf);
  Result<Child> build_child(const VdevConfig& config, std::uint32_t top, std::uint64_t asize_min,
                            const LeafOpener& open_leaf);
  Result<std::unique_ptr<BlockDevice>> open_checked(const VdevConfig& leaf, std::uint64_t asize_min,
                                                    const LeafOpener& open_leaf,
                                                    VdevAux& aux) const;
  Result<void> check_place(std::uint32_t top, std::uint64_t offset, std::size_t size) const;
  void distrust(vdev::Leaf& leaf, bool io);
  void lose(vdev::Leaf& leaf);
  bool can_lose(const vdev::Leaf& leaf) const;
  bool change(vdev::Leaf& leaf, VdevState state, VdevAux aux);
  vdev::Leaf* find(std::uint64_t guid) const {
    for (const auto& leaf : leaves_) {
      if (leaf->guid() == guid) {
        return leaf.get();
      }
    }
    return nullptr;
  }
  VdevStatus describe(const VdevConfig& config) const;
  void refresh(VdevConfig& config) const;

  VdevConfig root_;
  TreeContext context_;
  std::vector<std::unique_ptr<vdev::Leaf>> leaves_;
  std::vector<std::uint64_t> leaf_asize_min_;
  std::vector<std::unique_ptr<Top>> tops_;  // null: a hole
  std::atomic<std::uint64_t> generation_{1};
  mutable Mutex mutex_{LockRank::vdev_tree};  // one change of state at a time
};

// ---- opening

// The least allocatable size that leaves of a top-level vdev must have. source: format page 03
// section 2.
std::uint64_t leaf_minimum(const VdevConfig& top) {
  const std::uint64_t whole = top.metaslab_shift == 0 || top.metaslab_shift > 63
                                  ? top.asize
                                  : round_down(top.asize, pow2(top.metaslab_shift));
  return top.type == VdevType::raidz && !top.children.empty() ? div_ceil(whole, top.children.size())
                                                              : whole;
}

Result<std::unique_ptr<BlockDevice>> Tree::open_checked(const VdevConfig& leaf,
                                                        std::uint64_t asize_min,
                                                        const LeafOpener& open_leaf,
                                                        VdevAux& aux) const {
  aux = VdevAux::open_failed;
  ZUSE_TRY(std::unique_ptr<BlockDevice> device, open_leaf(leaf));
  if (allocatable_size(device->size()) == 0 || allocatable_size(device->size()) < asize_min) {
    aux = VdevAux::too_small;
    return fail(Errc::corrupt, device->name() + " is too small: it has " +
                                   std::to_string(device->size()) +
                                   " bytes, and was larger when the pool was made");
  }
  return device;
}

Result<Child> Tree::build_child(const VdevConfig& config, std::uint32_t top,
                                std::uint64_t asize_min, const LeafOpener& open_leaf) {
  Child child;
  child.type = config.type;
  child.guid = config.guid;
  if (config.type == VdevType::replacing || config.type == VdevType::spare) {
    for (const VdevConfig& below : config.children) {
      ZUSE_TRY(Child part, build_child(below, top, asize_min, open_leaf));
      child.leaves.insert(child.leaves.end(), part.leaves.begin(), part.leaves.end());
    }
    return child;
  }
  if (!is_leaf(config.type) && config.type != VdevType::missing) {
    return fail(Errc::unsupported, name_of(config) + " below another vdev cannot be used");
  }
  leaves_.push_back(std::make_unique<vdev::Leaf>(config, top));
  leaf_asize_min_.push_back(asize_min);
  vdev::Leaf& leaf = *leaves_.back();
  child.leaves.push_back(&leaf);
  if (config.offline) {
    leaf.set_state(VdevState::offline, VdevAux::none);
    return child;
  }
  VdevAux aux = VdevAux::none;
  auto device = open_checked(config, asize_min, open_leaf, aux);
  if (!device) {
    log().warn("leaf_unavailable path={} guid={} why=\"{}\"", config.path, config.guid,
               device.error().what());
    leaf.set_state(VdevState::cant_open, aux);
    return child;
  }
  leaf.set_device(*std::move(device));
  leaf.set_state(VdevState::healthy, VdevAux::none);
  return child;
}

Result<void> Tree::build_top(std::uint32_t index, const LeafOpener& open_leaf) {
  const VdevConfig& config = root_.children[index];
  if (config.type == VdevType::hole) {
    tops_.push_back(nullptr);
    return {};
  }
  const std::string name = name_of(config);
  if (config.type == VdevType::missing) {
    return fail(Errc::gone, "a top-level vdev (" + name + ") is missing");
  }
  if (config.ashift < 9 || config.ashift > 16) {
    return fail(Errc::invalid, name + " has an ashift of " + std::to_string(config.ashift));
  }
  TopGeometry geometry{config.ashift, 1, 0, config.asize};
  std::vector<Child> children;
  const std::uint64_t minimum = leaf_minimum(config);
  if (is_leaf(config.type)) {
    ZUSE_TRY(Child child, build_child(config, index, minimum, open_leaf));
    children.push_back(std::move(child));
  } else {
    geometry.children = static_cast<unsigned>(config.children.size());
    if (config.children.empty() || config.children.size() > raid::kDataColumnsMax) {
      return fail(Errc::invalid,
                  name + " has " + std::to_string(config.children.size()) + " children");
    }
    if (config.type == VdevType::raidz) {
      geometry.parity = config.parity;
      if (config.parity < 1 || config.parity > raid::kParityMax ||
          config.parity >= config.children.size()) {
        return fail(Errc::invalid, name + " has parity " + std::to_string(config.parity) +
                                       " over " + std::to_string(config.children.size()) +
                                       " children");
      }
    }
    for (const VdevConfig& below : config.children) {
      ZUSE_TRY(Child child, build_child(below, index, minimum, open_leaf));
      children.push_back(std::move(child));
    }
  }
  tops_.push_back(config.type == VdevType::raidz
                      ? make_raidz(context_, geometry, std::move(children))
                      : make_mirror(context_, geometry, std::move(children)));
  if (!usable(index)) {
    std::string lost;
    for (const auto& leaf : leaves_) {
      if (leaf->top() == index && !leaf->usable()) {
        lost += (lost.empty() ? "" : ", ") + leaf->path();
      }
    }
    return fail(Errc::gone, "too many devices of " + name + " are missing or damaged: " + lost);
  }
  return {};
}

// ---- I/O

// What a block on disk claims is checked before any geometry is worked out from it.
Result<void> Tree::check_place(std::uint32_t top, std::uint64_t offset, std::size_t size) const {
  if (top >= tops_.size() || tops_[top] == nullptr) {
    return fail(Errc::corrupt, "no vdev " + std::to_string(top));
  }
  const TopGeometry& geometry = tops_[top]->geometry();
  if (size == 0 || size > kBlockSizeMax || offset % pow2(geometry.ashift) != 0 ||
      offset > geometry.asize || geometry.psize_to_asize(size) > geometry.asize - offset) {
    return fail(Errc::corrupt, "no block can lie at offset " + std::to_string(offset) + " of " +
                                   name_of(root_.children[top]));
  }
  return {};
}

void Tree::read(std::span<BlockRead> blocks) {
  Jobs<ReadJob> jobs(blocks.size());
  {
    IoBatch batch;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      BlockRead& block = blocks[i];
      block.bytes_repaired = block.errors_seen = 0;
      block.result = check_place(block.top, block.offset, block.data.size());
      if (!block.result) {
        continue;
      }
      Top& top = *tops_[block.top];
      ReadJob& job = jobs[i];
      job.block = &block;
      top.in_flight.fetch_add(1, std::memory_order_relaxed);
      top.begin(job);
      for (ColumnIo* const column : job.started) {
        top.prepare(*column, block.tag,
                    block.mode == ReadMode::scrub ? IoPurpose::scrub : IoPurpose::normal,
                    IoOp::read);
        batch.add(*column->leaf->device(), column->request);
      }
    }
    batch.wait();
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (jobs[i].block != nullptr) {
      Top& top = *tops_[blocks[i].top];
      top.finish(jobs[i]);
      top.in_flight.fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

void Tree::write(std::span<BlockWrite> blocks) {
  Jobs<WriteJob> jobs(blocks.size());
  {
    IoBatch batch;
    std::size_t waiting = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      BlockWrite& block = blocks[i];
      block.result = context_.read_only ? fail(Errc::read_only, "the pool is read-only")
                                        : check_place(block.top, block.offset, block.data.size());
      if (!block.result) {
        continue;
      }
      Top& top = *tops_[block.top];
      WriteJob& job = jobs[i];
      job.block = &block;
      top.in_flight.fetch_add(1, std::memory_order_relaxed);
      top.begin(job);
      for (ColumnIo* const column : job.started) {
        top.prepare(*column, block.tag, IoPurpose::normal, IoOp::write);
        batch.add(*column->leaf->device(), column->request);
      }
      waiting += block.data.size();
      if (waiting >= kSubmitBytes) {
        batch.submit();  // on its way while the next parity is computed
        waiting = 0;
      }
    }
    batch.wait();
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (jobs[i].block != nullptr) {
      Top& top = *tops_[blocks[i].top];
      top.finish(jobs[i]);
      top.in_flight.fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

Result<void> Tree::flush() {
  struct Flush {
    vdev::Leaf* leaf;
    std::uint64_t covers;
    IoRequest request;
  };
  std::deque<Flush> flushes;
  {
    IoBatch batch;
    for (const auto& leaf : leaves_) {
      if (leaf->device() == nullptr) {
        continue;
      }
      if (const auto covers = leaf->begin_flush()) {
        Flush& flush = flushes.emplace_back(Flush{leaf.get(), *covers, {}});
        flush.request.op = IoOp::flush;
        batch.add(*leaf->device(), flush.request);
      }
    }
    batch.wait();
  }
  // A leaf whose cache did not reach the medium may have lost any write since the last flush.
  std::vector<const vdev::Leaf*> failed;
  for (Flush& flush : flushes) {
    const bool done = flush.request.status == IoStatus::ok;
    flush.leaf->end_flush(flush.covers, done);
    if (!done && flush.leaf->usable()) {
      failed.push_back(flush.leaf);
      const bool too_often = flush.leaf->count_io_error(true);
      if (flush.request.status == IoStatus::gone) {
        lose(*flush.leaf);
      } else if (too_often) {
        distrust(*flush.leaf, true);
      }
    }
  }
  for (std::uint32_t t = 0; t < tops_.size(); ++t) {
    if (tops_[t] == nullptr) {
      continue;
    }
    unsigned lost = 0;
    for (const Child& child : tops_[t]->children()) {
      const bool kept = std::ranges::any_of(child.leaves, [&](const vdev::Leaf* leaf) {
        return leaf->usable() && std::ranges::find(failed, leaf) == failed.end();
      });
      lost += kept ? 0 : 1;
    }
    if (lost > tops_[t]->redundancy()) {
      return fail(Errc::io,
                  "too many devices of " + name_of(root_.children[t]) + " could not be flushed");
    }
  }
  return {};
}

// ---- states

// Whether all data can be read without this leaf. A leaf that has missed anything counts as absent:
// it may lack just what this one has. One that is in that state itself is no loss.
bool Tree::can_lose(const vdev::Leaf& leaf) const {
  const Top& top = *tops_[leaf.top()];
  unsigned without = 0, with = 0;
  for (const Child& child : top.children()) {
    const auto whole = [&](const vdev::Leaf* one) { return one->usable() && !one->missed_any(); };
    with += std::ranges::any_of(child.leaves, whole) ? 0 : 1;
    without += std::ranges::any_of(
                   child.leaves, [&](const vdev::Leaf* one) { return one != &leaf && whole(one); })
                   ? 0
                   : 1;
  }
  return (without <= top.redundancy() || without == with) &&
         top.unusable(&leaf) <= top.redundancy();
}

bool Tree::change(vdev::Leaf& leaf, VdevState state, VdevAux aux) {
  if (!leaf.set_state(state, aux)) {
    return false;
  }
  generation_.fetch_add(1);
  return true;
}

void Tree::distrust(vdev::Leaf& leaf, bool io) {
  const LockGuard lock(mutex_);
  if (!leaf.usable()) {
    return;
  }
  if (io) {
    if (can_lose(leaf) && change(leaf, VdevState::faulted, VdevAux::err_exceeded)) {
      log().error("leaf_faulted path={} why=\"too many I/O errors\"", leaf.path());
    }
  } else if (change(leaf, VdevState::degraded, VdevAux::err_exceeded)) {
    log().warn("leaf_degraded path={} why=\"too many checksum errors\"", leaf.path());
  }
}

void Tree::lose(vdev::Leaf& leaf) {
  const LockGuard lock(mutex_);
  if (leaf.usable() && can_lose(leaf) && change(leaf, VdevState::cant_open, VdevAux::open_failed)) {
    log().error("leaf_gone path={}", leaf.path());
  }
}

Result<void> Tree::set_leaf_state(std::uint64_t guid, VdevState state, VdevAux aux) {
  const LockGuard lock(mutex_);
  vdev::Leaf* const leaf = find(guid);
  if (leaf == nullptr) {
    return fail(Errc::not_found, "no device with guid " + std::to_string(guid));
  }
  switch (state) {
    case VdevState::healthy:
    case VdevState::degraded:
      if (leaf->device() == nullptr) {
        return fail(Errc::gone, leaf->path() + " is not open");
      }
      break;
    case VdevState::offline:
    case VdevState::faulted:
    case VdevState::removed: break;
    default:
      return fail(Errc::invalid, std::string("a device cannot be set to ") + to_string(state));
  }
  if (state < VdevState::degraded && leaf->usable() && !can_lose(*leaf)) {
    return fail(Errc::busy,
                leaf->path() + " holds the last copy of some data: no more devices can be lost");
  }
  change(*leaf, state, aux);
  log().info("leaf_state path={} state={}", leaf->path(), to_string(state));
  return {};
}

// Devices are asked outside the lock; only the change of state is made under it.
Result<void> Tree::reopen_leaf(std::uint64_t guid, const LeafOpener& open_leaf) {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    vdev::Leaf& leaf = *leaves_[i];
    if (leaf.guid() != guid) {
      continue;
    }
    if (leaf.usable()) {
      return fail(Errc::busy, leaf.path() + " is open");
    }
    // The device it had may answer again: that one is still locked by us.
    std::unique_ptr<BlockDevice> device;
    if (leaf.device() == nullptr || !answers(*leaf.device())) {
      VdevAux aux = VdevAux::none;
      ZUSE_TRY(device, open_checked(leaf.config(), leaf_asize_min_[i], open_leaf, aux));
    }
    const LockGuard lock(mutex_);
    if (leaf.usable()) {
      return fail(Errc::busy, leaf.path() + " is open");
    }
    if (device != nullptr) {
      leaf.set_device(std::move(device));
    }
    change(leaf, VdevState::healthy, VdevAux::none);
    return {};
  }
  return fail(Errc::not_found, "no device with guid " + std::to_string(guid));
}

Result<void> Tree::clear(std::uint64_t guid) {
  bool found = false;
  for (const auto& leaf : leaves_) {
    if (guid != 0 && leaf->guid() != guid) {
      continue;
    }
    found = true;
    leaf->clear_stats();
    const VdevState state = leaf->state();
    if (leaf->device() == nullptr || state == VdevState::healthy || state == VdevState::offline) {
      continue;
    }
    // It must answer before it is trusted again.
    if (answers(*leaf->device())) {
      const LockGuard lock(mutex_);
      if (leaf->state() == state) {
        change(*leaf, VdevState::healthy, VdevAux::none);
      }
    }
  }
  return found || guid == 0 ? Result<void>()
                            : fail(Errc::not_found, "no device with guid " + std::to_string(guid));
}

// ---- descriptions

VdevStatus Tree::describe(const VdevConfig& config) const {
  VdevStatus status;
  status.type = config.type;
  status.guid = config.guid;
  status.name = name_of(config);
  status.ashift = config.ashift;
  status.asize = config.asize;
  if (is_leaf(config.type) || config.type == VdevType::missing) {
    if (const vdev::Leaf* const leaf = find(config.guid)) {
      status.name = leaf->path();
      status.state = leaf->state();
      status.aux = leaf->aux();
      status.stats = leaf->stats();
    }
    return status;
  }
  std::vector<VdevState> states;
  for (const VdevConfig& child : config.children) {
    if (child.type == VdevType::hole) {
      continue;
    }
    status.children.push_back(describe(child));
    states.push_back(status.children.back().state);
  }
  const auto [state, aux] = derive_state(config.type, config.parity, states);
  status.state = state;
  status.aux = aux;
  return status;
}

void Tree::refresh(VdevConfig& config) const {
  for (VdevConfig& child : config.children) {
    refresh(child);
  }
  if (!is_leaf(config.type)) {
    return;
  }
  if (const vdev::Leaf* const leaf = find(config.guid)) {
    config.path = leaf->path();
    config.offline = leaf->state() == VdevState::offline;
    config.faulted = leaf->state() == VdevState::faulted;
    config.degraded = leaf->state() == VdevState::degraded;
    config.removed = leaf->state() == VdevState::removed;
    config.not_present = leaf->device() == nullptr && !config.offline;
  }
}

}  // namespace

Result<std::unique_ptr<VdevTree>> VdevTree::open(VdevConfig root, const LeafOpener& open_leaf,
                                                 bool read_only) {
  auto tree = std::make_unique<Tree>(std::move(root), read_only);
  ZUSE_TRY_VOID(tree->build(open_leaf));
  return tree;
}

}  // namespace zuse::vdev
