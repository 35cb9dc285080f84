// Opening, and the order of writes that makes a transaction group durable.
#include "fs/pool/storage.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "fs/pool/label.h"
#include "vdev/base/log.h"
#include "vdev/base/random.h"

namespace zuse::pool {
namespace {

spdlog::logger& log() {
  static auto& l = layer_log("pool");
  return l;
}

// Top-level vdevs that get an uberblock when the labels stay as they are.
// source: format page 01 section 8.
constexpr unsigned kUberblockTops = 3;

bool takes_labels(const vdev::VdevTree::Leaf& leaf) noexcept {
  return leaf.device != nullptr &&
         (leaf.state == vdev::VdevState::healthy || leaf.state == vdev::VdevState::degraded);
}

}  // namespace

// Label I/O on many leaves: all writes side by side, then all flushes.
struct Storage::LeafWrites {
  struct Target {
    const vdev::VdevTree::Leaf* leaf = nullptr;
    std::vector<LabelWrite> writes;
  };

  std::deque<Target> targets;

  void add(const vdev::VdevTree::Leaf& leaf, LabelWrite write) {
    if (targets.empty() || targets.back().leaf != &leaf) {
      targets.push_back({&leaf, {}});
    }
    targets.back().writes.push_back(std::move(write));
  }

  // The leaves on which at least one write succeeded and was flushed.
  std::vector<const vdev::VdevTree::Leaf*> run() {
    std::deque<vdev::IoRequest> requests;
    std::vector<unsigned> done(targets.size(), 0);
    {
      vdev::IoBatch batch;
      for (std::size_t t = 0; t < targets.size(); ++t) {
        for (LabelWrite& write : targets[t].writes) {
          vdev::IoRequest& request = requests.emplace_back();
          request.op = vdev::IoOp::write;
          request.purpose = vdev::IoPurpose::label;
          request.offset = write.offset;
          request.data = write.bytes.span();
          request.on_done = [&done, t](vdev::IoRequest& finished) {
            done[t] += finished.status == vdev::IoStatus::ok ? 1U : 0U;
          };
          batch.add(*targets[t].leaf->device, request);
        }
      }
      batch.wait();
    }
    std::vector<const vdev::VdevTree::Leaf*> good;
    std::deque<vdev::IoRequest> flushes;
    vdev::IoBatch batch;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const vdev::VdevTree::Leaf* const leaf = targets[t].leaf;
      if (done[t] < targets[t].writes.size()) {
        log().warn("label_write_failed leaf={} written={} of={}", leaf->path, done[t],
                   targets[t].writes.size());
      }
      if (done[t] == 0) {
        continue;
      }
      vdev::IoRequest& flush = flushes.emplace_back();
      flush.op = vdev::IoOp::flush;
      flush.purpose = vdev::IoPurpose::label;
      flush.on_done = [&good, leaf](vdev::IoRequest& finished) {
        if (finished.status == vdev::IoStatus::ok) {
          good.push_back(leaf);
        }
      };
      batch.add(*leaf->device, flush);
    }
    batch.wait();
    return good;
  }
};

Result<std::unique_ptr<Storage>> Storage::open(const vdev::VdevConfig& root,
                                               const vdev::VdevTree::LeafOpener& open_leaf,
                                               const StorageOptions& options) {
  ZUSE_TRY(auto tree, vdev::VdevTree::open(root, open_leaf, options.read_only));
  std::vector<AllocatorTop> tops;
  for (unsigned i = 0; i < tree->top_count(); ++i) {
    AllocatorTop top;
    top.geometry = tree->geometry(i);
    const bool known = i < root.children.size();
    top.metaslab_shift = known ? root.children[i].metaslab_shift : 0;
    top.allocatable = known && !root.children[i].is_log && tree->usable(i);
    tops.push_back(top);
  }
  ZUSE_TRY(auto allocator, Allocator::create(tops, options.deflate));
  return std::unique_ptr<Storage>(new Storage(std::move(tree), std::move(allocator), options));
}

Storage::Storage(std::unique_ptr<vdev::VdevTree> tree, std::unique_ptr<Allocator> allocator,
                 const StorageOptions& options)
    : options_(options),
      tree_(std::move(tree)),
      allocator_(std::move(allocator)),
      cache_(std::make_unique<Cache>(options.arc_max)),
      cpu_(std::make_unique<CpuPool>(options.cpu_threads != 0
                                         ? options.cpu_threads
                                         : std::max(1U, std::thread::hardware_concurrency()))),
      pipeline_(
          std::make_unique<IoPipeline>(*tree_, *allocator_, *cache_, *cpu_, options.read_only)) {}

Storage::~Storage() = default;

Result<void> Storage::commit(const format::Uberblock& uberblock, const PoolConfig& config,
                             bool labels) {
  if (options_.read_only) {
    return fail(Errc::read_only, "the pool is open read-only");
  }
  ZUSE_TRY_VOID(tree_->flush());
  if (labels) {
    ZUSE_TRY_VOID(write_labels(config, 0));
  }
  ZUSE_TRY_VOID(write_uberblocks(uberblock, labels));
  if (labels) {
    ZUSE_TRY_VOID(write_labels(config, 1));
  }
  return {};
}

// Labels `first` and `first` + 2.
Result<void> Storage::write_labels(const PoolConfig& config, unsigned first) {
  const std::vector<vdev::VdevTree::Leaf> leaves = tree_->leaves();
  LeafWrites writes;
  std::set<std::uint32_t> without;  // top-level vdevs that have no label yet
  for (const vdev::VdevTree::Leaf& leaf : leaves) {
    if (leaf.top >= config.root.children.size()) {
      return fail(Errc::invalid, "the configuration to write lacks a vdev of the pool");
    }
    if (tree_->usable(leaf.top) && !config.root.children[leaf.top].is_log) {
      without.insert(leaf.top);
    }
    if (!takes_labels(leaf)) {
      continue;
    }
    const codec::NvList list = encode_label_config(config, leaf.top, leaf.guid);
    for (const unsigned index : {first, first + 2}) {
      ZUSE_TRY(LabelWrite write, label_write(leaf.device->size(), index, list));
      writes.add(leaf, std::move(write));
    }
  }
  for (const vdev::VdevTree::Leaf* const leaf : writes.run()) {
    without.erase(leaf->top);
  }
  if (!without.empty()) {
    return fail(Errc::io, fmt::format("no label of vdev {} could be written", *without.begin()));
  }
  return {};
}

Result<void> Storage::write_uberblocks(const format::Uberblock& uberblock, bool everywhere) {
  const std::vector<vdev::VdevTree::Leaf> leaves = tree_->leaves();
  std::vector<std::uint32_t> tops;
  for (const vdev::VdevTree::Leaf& leaf : leaves) {
    if (takes_labels(leaf) && (tops.empty() || tops.back() != leaf.top)) {
      tops.push_back(leaf.top);
    }
  }
  if (!everywhere && tops.size() > kUberblockTops) {
    const auto start = static_cast<std::ptrdiff_t>(thread_random().bounded(tops.size()));
    std::ranges::rotate(tops, tops.begin() + start);
    tops.resize(kUberblockTops);
  }
  LeafWrites writes;
  for (const vdev::VdevTree::Leaf& leaf : leaves) {
    if (!takes_labels(leaf) || std::ranges::find(tops, leaf.top) == tops.end()) {
      continue;
    }
    const unsigned ashift = tree_->geometry(leaf.top).ashift;
    for (LabelWrite& write : uberblock_writes(leaf.device->size(), uberblock, ashift)) {
      writes.add(leaf, std::move(write));
    }
  }
  if (writes.run().empty()) {
    return fail(Errc::io, "the uberblock could not be written anywhere");
  }
  return {};
}

}  // namespace zuse::pool
