// Mirror: every leaf holds every block. A read asks the leaf with the least to do, ties drawn by
// xorshift128+; one that lies or fails is repaired from one that does not. source: format page 03
// section 3.
#include <algorithm>
#include <cstring>

#include "vdev/base/random.h"
#include "vdev/top.h"

namespace zuse::vdev {
namespace {

class Mirror final : public Top {
 public:
  Mirror(const TreeContext& context, TopGeometry geometry, std::vector<Child> children)
      : Top(context, geometry, std::move(children)) {
    for (const Child& child : children_) {
      leaves_.insert(leaves_.end(), child.leaves.begin(), child.leaves.end());
    }
  }

  unsigned redundancy() const noexcept override {
    return static_cast<unsigned>(children_.size()) - 1;
  }

  void begin(ReadJob& job) override {
    give_sectors(job);
    job.columns.resize(leaves_.size());
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      ColumnIo& column = job.columns[i];
      column.leaf = leaves_[i];
      column.offset = job.block->offset;
      column.data = job.data;
      if (!leaves_[i]->usable()) {
        column.state = ColumnIo::State::absent;
      } else if (leaves_[i]->missed(job.block->birth_txg)) {
        column.state = ColumnIo::State::stale;
        column.known_stale = true;
      }
    }
    if (job.block->mode == ReadMode::scrub) {
      note_absent(*job.block);
      for (ColumnIo& column : job.columns) {
        if (column.state != ColumnIo::State::absent) {
          column.data = job.copies.emplace_back(job.data.size()).span();
          job.started.push_back(&column);
        }
      }
      return;
    }
    if (ColumnIo* const first = least_busy(job)) {
      job.started.push_back(first);
    }
  }

  void finish(ReadJob& job) override {
    for (ColumnIo* const column : job.started) {
      settle(*column, job.block->birth_txg);
    }
    if (job.block->mode == ReadMode::scrub) {
      scrub(job);
    } else {
      try_copies(job);
    }
    if (job.block->result && !job.padded.empty()) {
      std::memcpy(job.block->data.data(), job.data.data(), job.block->data.size());
    }
  }

  void begin(WriteJob& job) override {
    const std::span<const std::byte> data = whole_sectors(job);
    job.columns.reserve(leaves_.size());
    for (unsigned c = 0; c < children_.size(); ++c) {
      add_writes(job, c, job.block->offset, data);
    }
    for (ColumnIo& column : job.columns) {
      job.started.push_back(&column);
    }
  }

 private:
  static ColumnIo* least_busy(ReadJob& job) {
    ColumnIo* best = nullptr;
    unsigned least = 0, ties = 0;
    for (ColumnIo& column : job.columns) {
      if (column.state != ColumnIo::State::unread) {
        continue;
      }
      const unsigned busy = column.leaf->in_flight.load(std::memory_order_relaxed);
      if (best == nullptr || busy < least) {
        best = &column;
        least = busy;
        ties = 1;
      } else if (busy == least && thread_random().bounded(++ties) == 0) {
        best = &column;
      }
    }
    return best;
  }

  // One copy after the other until one is right; then the wrong ones are overwritten.
  void try_copies(ReadJob& job) {
    BlockRead& block = *job.block;
    std::vector<ColumnIo*> bad;
    ColumnIo* current = job.started.empty() ? nullptr : job.started.front();
    bool stale_too = false, checksum = false;
    for (;;) {
      if (current == nullptr) {
        current = least_busy(job);
        if (current == nullptr && !stale_too) {
          // What a leaf has missed may be right all the same.
          stale_too = true;
          for (ColumnIo& column : job.columns) {
            if (column.state == ColumnIo::State::stale) {
              column.state = ColumnIo::State::unread;
            }
          }
          current = least_busy(job);
        }
        if (current == nullptr) {
          break;
        }
        run({&current, 1}, block.tag, IoPurpose::normal, IoOp::read, block.birth_txg);
      }
      if (current->state == ColumnIo::State::good) {
        if (verified(job)) {
          repair(bad, block);
          block.result = {};
          return;
        }
        checksum = true;
        count_wrong(*current, block);
      } else {
        ++block.errors_seen;
      }
      bad.push_back(current);
      current = nullptr;
    }
    block.result = bad.empty() ? fail(Errc::gone, "no copy can be reached")
                   : checksum  ? fail(Errc::checksum, "no copy has the right checksum")
                               : fail(Errc::io, "no copy can be read");
  }

  // All copies were read. The first that verifies is the measure of the others; where nobody can
  // verify, the first that no leaf has missed.
  void scrub(ReadJob& job) {
    BlockRead& block = *job.block;
    ColumnIo* model = nullptr;
    bool checksum = false;
    std::vector<ColumnIo*> bad;
    const auto judge = [&](ColumnIo& column) {
      if (column.state != ColumnIo::State::good) {
        ++block.errors_seen;
        bad.push_back(&column);
        return;
      }
      const std::span<const std::byte> bytes = column.data.first(block.data.size());
      const bool right = block.verify ? block.verify(bytes)
                         : model == nullptr
                             ? true
                             : std::ranges::equal(bytes, model->data.first(bytes.size()));
      if (!right) {
        checksum = true;
        count_wrong(column, block);
        bad.push_back(&column);
      } else if (model == nullptr) {
        model = &column;
      }
    };
    for (const bool stale : {false, true}) {
      for (ColumnIo* const column : job.started) {
        if (column->known_stale == stale) {
          judge(*column);
        }
      }
    }
    if (model == nullptr) {
      block.result = job.started.empty() ? fail(Errc::gone, "no copy can be reached")
                     : checksum          ? fail(Errc::checksum, "no copy has the right checksum")
                                         : fail(Errc::io, "no copy can be read");
      return;
    }
    std::memcpy(job.data.data(), model->data.data(), job.data.size());
    for (ColumnIo* const column : bad) {
      column->data = job.data;
    }
    repair(bad, block);
    block.result = {};
  }

  std::vector<Leaf*> leaves_;
};

}  // namespace

std::unique_ptr<Top> make_mirror(const TreeContext& context, TopGeometry geometry,
                                 std::vector<Child> children) {
  return std::make_unique<Mirror>(context, geometry, std::move(children));
}

}  // namespace zuse::vdev
