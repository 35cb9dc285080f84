#include "vdev/top.h"

#include <algorithm>
#include <cstring>

#include "vdev/base/units.h"
#include "vdev/label_area.h"

namespace zuse::vdev {

void ReadJob::reset() {
  block = nullptr;
  data = {};
  padded = {};
  parity = {};
  map.columns.clear();
  columns.clear();
  started.clear();
  copies.clear();
}

void WriteJob::reset() {
  block = nullptr;
  padded = {};
  parity = {};
  map.columns.clear();
  columns.clear();
  started.clear();
}

bool Child::usable() const noexcept {
  return std::ranges::any_of(leaves, [](const Leaf* leaf) { return leaf->usable(); });
}

unsigned Top::unusable(const Leaf* without) const noexcept {
  unsigned count = 0;
  for (const Child& child : children_) {
    const bool usable = std::ranges::any_of(
        child.leaves, [&](const Leaf* leaf) { return leaf != without && leaf->usable(); });
    count += usable ? 0 : 1;
  }
  return count;
}

Leaf* Top::pick(const Child& child, std::uint64_t txg, bool& stale) {
  Leaf* fallback = nullptr;
  for (Leaf* const leaf : child.leaves) {
    if (!leaf->usable()) {
      continue;
    }
    if (!leaf->missed(txg)) {
      stale = false;
      return leaf;
    }
    fallback = leaf;
  }
  stale = fallback != nullptr;
  return fallback;
}

bool Top::verified(const ReadJob& job) const {
  return !job.block->verify || job.block->verify(job.data.first(job.block->data.size()));
}

void Top::give_sectors(ReadJob& job) const {
  const std::size_t wanted = job.block->data.size();
  const std::size_t whole = round_up(wanted, std::size_t{1} << geometry_.ashift);
  if (whole == wanted) {
    job.data = job.block->data;
  } else {
    job.padded = Buffer(whole);
    job.data = job.padded.span();
  }
}

std::span<const std::byte> Top::whole_sectors(WriteJob& job) const {
  const std::span<const std::byte> data = job.block->data;
  const std::size_t whole = round_up(data.size(), std::size_t{1} << geometry_.ashift);
  if (whole == data.size()) {
    return data;
  }
  job.padded = Buffer::zeroed(whole);
  std::memcpy(job.padded.data(), data.data(), data.size());
  return std::as_const(job.padded).span();
}

void Top::prepare(ColumnIo& column, const IoTag& tag, IoPurpose purpose, IoOp op) const {
  IoRequest& request = column.request;
  request.op = op;
  request.purpose = purpose;
  request.status = IoStatus::pending;
  request.offset = kDataStart + column.offset;
  request.data = column.data;
  request.tag = tag;
  column.leaf->in_flight.fetch_add(1, std::memory_order_relaxed);
}

void Top::settle(ColumnIo& column, std::uint64_t txg) const {
  Leaf& leaf = *column.leaf;
  const bool write = column.request.op == IoOp::write;
  leaf.in_flight.fetch_sub(1, std::memory_order_relaxed);
  leaf.count_io(write, column.data.size());
  if (write) {
    leaf.wrote(txg);
  }
  if (column.request.status == IoStatus::ok) {
    column.state = ColumnIo::State::good;
    return;
  }
  column.state = ColumnIo::State::failed;
  const bool too_often = leaf.count_io_error(write);
  if (column.request.status == IoStatus::gone) {
    context_.lost(leaf);
  } else if (too_often) {
    context_.distrust(leaf, true);
  }
}

void Top::run(std::span<ColumnIo*> columns, const IoTag& tag, IoPurpose purpose, IoOp op,
              std::uint64_t txg) {
  if (columns.empty()) {
    return;
  }
  {
    IoBatch batch;
    for (ColumnIo* const column : columns) {
      prepare(*column, tag, purpose, op);
      batch.add(*column->leaf->device(), column->request);
    }
    batch.wait();
  }
  for (ColumnIo* const column : columns) {
    settle(*column, txg);
  }
}

void Top::count_wrong(ColumnIo& column, BlockRead& block) const {
  if (column.wrong) {
    return;
  }
  column.wrong = true;
  if (column.known_stale) {
    return;  // it could not have been right
  }
  ++block.errors_seen;
  if (column.leaf->count_checksum_error()) {
    context_.distrust(*column.leaf, false);
  }
}

void Top::repair(std::span<ColumnIo*> columns, BlockRead& block) {
  if (!block.repair || context_.read_only) {
    return;
  }
  std::vector<ColumnIo*> writable;
  for (ColumnIo* const column : columns) {
    if (column->leaf != nullptr && column->leaf->usable()) {
      writable.push_back(column);
    }
  }
  run(writable, block.tag, IoPurpose::repair, IoOp::write, block.birth_txg);
  for (ColumnIo* const column : writable) {
    if (column->state == ColumnIo::State::good) {
      block.bytes_repaired += column->data.size();
      column->leaf->count_repaired(column->data.size());
    } else if (block.mode == ReadMode::scrub) {
      column->leaf->repair_failed(block.birth_txg);
    }
  }
}

void Top::note_absent(const BlockRead& block) const {
  if (block.mode != ReadMode::scrub) {
    return;
  }
  for (const Child& child : children_) {
    for (Leaf* const leaf : child.leaves) {
      if (!leaf->usable()) {
        leaf->passed_by_scan();
      }
    }
  }
}

void Top::add_writes(WriteJob& job, unsigned child, std::uint64_t offset,
                     std::span<const std::byte> data) const {
  for (Leaf* const leaf : children_[child].leaves) {
    if (!leaf->usable()) {
      leaf->miss(job.block->txg);
      continue;
    }
    ColumnIo& column = job.columns.emplace_back();
    column.leaf = leaf;
    column.child = child;
    column.offset = offset;
    // Writes do not change the bytes; requests have one kind of span for both directions.
    column.data = {const_cast<std::byte*>(data.data()), data.size()};
  }
}

// A child has the block if one of its leaves does. Children that the block does not touch (narrow
// raidz blocks) do not count.
void Top::finish(WriteJob& job) {
  for (ColumnIo& column : job.columns) {
    settle(column, job.block->txg);
    if (column.state != ColumnIo::State::good) {
      column.leaf->miss(job.block->txg);
    }
  }
  const std::size_t wanted = geometry_.parity == 0 ? children_.size() : job.map.columns.size();
  std::size_t kept = 0;
  // Columns of one child lie side by side.
  for (std::size_t i = 0; i < job.columns.size();) {
    bool any = false;
    const unsigned child = job.columns[i].child;
    for (; i < job.columns.size() && job.columns[i].child == child; ++i) {
      any |= job.columns[i].state == ColumnIo::State::good;
    }
    kept += any ? 1 : 0;
  }
  if (wanted - kept > redundancy()) {
    job.block->result =
        fail(Errc::io, std::to_string(wanted - kept) + " of " + std::to_string(wanted) +
                           " devices did not take a write");
  } else {
    job.block->result = {};
  }
}

}  // namespace zuse::vdev
