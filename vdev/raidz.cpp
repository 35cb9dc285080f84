// Raidz: a block lies in columns over several leaves, one to three of them parity.
//
// A read takes the data columns, and as many parity columns as data columns are missing. If the
// verifier is not content, everything is read, and then columns are doubted: none beside those
// known bad, then each alone, then each pair ... as far as parity reaches, rebuilding them from the
// others until the verifier agrees. What the columns should have held is then known: those that
// lied are counted and rewritten. source: format page 03 sections 4 to 7.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "raid/raidz_math.h"
#include "vdev/top.h"

namespace zuse::vdev {
namespace {

using Mask = std::array<unsigned, raid::kParityMax>;

class Raidz final : public Top {
 public:
  Raidz(const TreeContext& context, TopGeometry geometry, std::vector<Child> children)
      : Top(context, geometry, std::move(children)) {}

  unsigned redundancy() const noexcept override { return geometry_.parity; }

  void begin(ReadJob& job) override {
    give_sectors(job);
    map(job.block->offset, job.data.size(), job.map);
    job.columns.resize(job.map.columns.size());
    note_absent(*job.block);
    std::size_t at = 0;
    unsigned missing = 0;
    for (std::size_t c = 0; c < job.columns.size(); ++c) {
      ColumnIo& column = job.columns[c];
      const RaidzColumn& place = job.map.columns[c];
      bool stale = false;
      column.leaf = pick(children_[place.child], job.block->birth_txg, stale);
      column.child = place.child;
      column.offset = place.offset;
      column.known_stale = stale;
      column.state = column.leaf == nullptr ? ColumnIo::State::absent
                     : stale                ? ColumnIo::State::stale
                                            : ColumnIo::State::unread;
      if (c >= job.map.parity) {
        column.data = job.data.subspan(at, place.size);
        at += place.size;
        if (column.state == ColumnIo::State::unread) {
          job.started.push_back(&column);
        } else {
          ++missing;
        }
      }
    }
    const bool scrub = job.block->mode == ReadMode::scrub;
    if (missing == 0 && !scrub) {
      return;
    }
    give_parity(job);
    for (unsigned c = 0; c < job.map.parity; ++c) {
      if (job.columns[c].state == ColumnIo::State::unread && (scrub || missing > 0)) {
        job.started.push_back(&job.columns[c]);
        missing -= missing > 0 ? 1 : 0;
      }
    }
  }

  void finish(ReadJob& job) override {
    for (ColumnIo* const column : job.started) {
      settle(*column, job.block->birth_txg);
      job.block->errors_seen += column->state == ColumnIo::State::failed ? 1 : 0;
    }
    const bool plain = std::ranges::all_of(data_columns(job), [](const ColumnIo& column) {
      return column.state == ColumnIo::State::good;
    });
    const bool right = plain ? verified(job) : rebuild(job, bad_columns(job)) && verified(job);
    if (right) {
      settle_good(job, {});
    } else {
      search(job);
    }
    if (job.block->result && !job.padded.empty()) {
      std::memcpy(job.block->data.data(), job.data.data(), job.block->data.size());
    }
  }

  void begin(WriteJob& job) override {
    const std::span<const std::byte> data = whole_sectors(job);
    map(job.block->offset, data.size(), job.map);
    const std::size_t parity_size = job.map.columns[0].size;
    job.parity = Buffer(parity_size * job.map.parity);
    std::array<raid::MutableColumn, raid::kParityMax> parity;
    for (unsigned p = 0; p < job.map.parity; ++p) {
      parity[p] = job.parity.span().subspan(p * parity_size, parity_size);
    }
    std::array<raid::ColumnView, raid::kColumnsMax> columns;
    std::size_t at = 0;
    for (unsigned d = 0; d < job.map.data_columns(); ++d) {
      const std::size_t size = job.map.columns[job.map.parity + d].size;
      columns[d] = data.subspan(at, size);
      at += size;
    }
    raid::generate(*context_.kernels, std::span(columns).first(job.map.data_columns()),
                   std::span(std::as_const(parity)).first(job.map.parity), stores_for(job));
    job.columns.reserve(job.map.columns.size() * 2);
    for (std::size_t c = 0; c < job.map.columns.size(); ++c) {
      const RaidzColumn& place = job.map.columns[c];
      add_writes(
          job, place.child, place.offset,
          c < job.map.parity ? std::span<const std::byte>(parity[c]) : columns[c - job.map.parity]);
    }
    for (ColumnIo& column : job.columns) {
      job.started.push_back(&column);
    }
  }

 private:
  void map(std::uint64_t offset, std::uint64_t size, RaidzMap& into) const {
    map_block({geometry_.children, geometry_.parity, geometry_.ashift}, offset, size, into);
  }

  // Parity that goes straight to its devices is not worth a place in the caches.
  raid::Stores stores_for(const WriteJob& job) const {
    for (unsigned p = 0; p < job.map.parity; ++p) {
      for (const Leaf* const leaf : children_[job.map.columns[p].child].leaves) {
        const BlockDevice* const device = leaf->device();
        if (device == nullptr || !device->uncached()) {
          return raid::Stores::cached;
        }
      }
    }
    return raid::Stores::streaming;
  }

  static std::span<ColumnIo> data_columns(ReadJob& job) {
    return std::span(job.columns).subspan(job.map.parity);
  }

  static void give_parity(ReadJob& job) {
    const std::size_t size = job.map.columns[0].size;
    job.parity = Buffer(size * job.map.parity);
    for (unsigned p = 0; p < job.map.parity; ++p) {
      job.columns[p].data = job.parity.span().subspan(p * size, size);
    }
  }

  // Columns whose bytes are not there: indexes.
  static std::vector<unsigned> bad_columns(const ReadJob& job) {
    std::vector<unsigned> bad;
    for (unsigned c = 0; c < job.columns.size(); ++c) {
      if (job.columns[c].state != ColumnIo::State::good) {
        bad.push_back(c);
      }
    }
    return bad;
  }

  // Fills the missing data columns from what is good. False: parity does not reach.
  bool rebuild(ReadJob& job, std::span<const unsigned> missing) {
    if (job.parity.empty()) {
      return false;
    }
    std::array<raid::MutableColumn, raid::kColumnsMax> columns;
    for (std::size_t c = 0; c < job.columns.size(); ++c) {
      columns[c] = job.columns[c].data;
    }
    return raid::reconstruct_data(*context_.kernels,
                                  std::span(std::as_const(columns)).first(job.columns.size()),
                                  job.map.parity, missing);
  }

  // Reads all that was not read yet, then doubts columns until the verifier agrees.
  void search(ReadJob& job) {
    BlockRead& block = *job.block;
    if (job.parity.empty()) {
      give_parity(job);
    }
    // Rebuilding may have overwritten data columns that are still to be read: they are read again.
    std::vector<ColumnIo*> rest;
    for (ColumnIo& column : job.columns) {
      if (column.state == ColumnIo::State::unread || column.state == ColumnIo::State::stale) {
        rest.push_back(&column);
      }
    }
    run(rest, block.tag, IoPurpose::normal, IoOp::read, block.birth_txg);
    for (const ColumnIo* const column : rest) {
      block.errors_seen += column->state == ColumnIo::State::failed ? 1 : 0;
    }
    const std::vector<unsigned> known = bad_columns(job);
    if (known.size() > job.map.parity) {
      const bool absent = std::ranges::any_of(job.columns, [](const ColumnIo& column) {
        return column.state == ColumnIo::State::absent;
      });
      block.result =
          fail(absent ? Errc::gone : Errc::io, std::to_string(known.size()) +
                                                   " columns cannot be read, and parity covers " +
                                                   std::to_string(job.map.parity));
      return;
    }
    const Buffer original = Buffer::copy_of(job.data);
    std::vector<unsigned> others;
    for (unsigned c = 0; c < job.columns.size(); ++c) {
      if (std::ranges::find(known, c) == known.end()) {
        others.push_back(c);
      }
    }
    for (unsigned doubted = 0; known.size() + doubted <= job.map.parity; ++doubted) {
      Mask mask{};
      for (unsigned i = 0; i < doubted; ++i) {
        mask[i] = i;
      }
      do {
        if (attempt(job, original, known, others, mask, doubted)) {
          settle_good(job, original.span());
          return;
        }
      } while (next_subset(mask, doubted, static_cast<unsigned>(others.size())));
    }
    std::memcpy(job.data.data(), original.data(), original.size());
    block.result = fail(Errc::checksum, "no combination of columns has the right checksum");
  }

  // The next subset of `count` out of `size`, the lowest member moving fastest.
  static bool next_subset(Mask& mask, unsigned count, unsigned size) {
    for (unsigned i = 0; i < count; ++i) {
      const unsigned limit = i + 1 < count ? mask[i + 1] : size;
      if (mask[i] + 1 < limit) {
        ++mask[i];
        for (unsigned j = 0; j < i; ++j) {
          mask[j] = j;
        }
        return true;
      }
    }
    return false;
  }

  bool attempt(ReadJob& job, const Buffer& original, const std::vector<unsigned>& known,
               const std::vector<unsigned>& others, const Mask& mask, unsigned doubted) {
    if (others.size() < doubted) {
      return false;
    }
    std::array<unsigned, raid::kColumnsMax> missing;
    std::size_t count = 0;
    bool data = false;
    for (const unsigned c : known) {
      missing[count++] = c;
      data |= c >= job.map.parity;
    }
    for (unsigned i = 0; i < doubted; ++i) {
      missing[count++] = others[mask[i]];
      data |= others[mask[i]] >= job.map.parity;
    }
    if (!data && doubted > 0) {
      return false;  // only parity is doubted: the data would stay as it is
    }
    std::memcpy(job.data.data(), original.data(), original.size());
    if (data && !rebuild(job, std::span(missing).first(count))) {
      return false;
    }
    return verified(job);
  }

  // The data is right. Finds out who was wrong, and repairs. `original`: the data columns as read,
  // where they may have been replaced since.
  void settle_good(ReadJob& job, std::span<const std::byte> original) {
    BlockRead& block = *job.block;
    block.result = {};
    std::vector<ColumnIo*> bad;
    std::size_t at = 0;
    for (ColumnIo& column : data_columns(job)) {
      const bool read = column.state == ColumnIo::State::good;
      if (read && !original.empty() &&
          std::memcmp(original.data() + at, column.data.data(), column.data.size()) != 0) {
        count_wrong(column, block);
        bad.push_back(&column);
      } else if (column.state == ColumnIo::State::failed) {
        bad.push_back(&column);
      }
      at += column.data.size();
    }
    const bool scrub = block.mode == ReadMode::scrub;
    Buffer expected;
    if (!job.parity.empty() &&
        (scrub || !bad.empty() ||
         std::ranges::any_of(
             job.columns,
             [](const ColumnIo& column) { return column.state == ColumnIo::State::failed; }) ||
         !original.empty())) {
      expected = compare_parity(job, bad);
    }
    if (scrub) {
      for (ColumnIo& column : job.columns) {
        if (column.state == ColumnIo::State::stale) {
          bad.push_back(&column);  // what the leaf missed while it was away
        }
      }
    }
    std::deque<ColumnIo> others;
    if (scrub) {
      check_twins(job, others, bad);
    }
    repair(bad, block);
  }

  // A child of several leaves (one replaces another) was read from one of them: what the others
  // hold is compared, and what they have missed is written. Columns hold what is right.
  void check_twins(ReadJob& job, std::deque<ColumnIo>& twins, std::vector<ColumnIo*>& bad) {
    BlockRead& block = *job.block;
    std::deque<Buffer> bytes;
    std::vector<ColumnIo*> wanted;
    std::vector<const ColumnIo*> models;
    for (const ColumnIo& column : job.columns) {
      for (Leaf* const leaf : children_[column.child].leaves) {
        if (leaf == column.leaf || !leaf->usable()) {
          continue;
        }
        ColumnIo& twin = twins.emplace_back();
        twin.leaf = leaf;
        twin.child = column.child;
        twin.offset = column.offset;
        if (leaf->missed(block.birth_txg)) {
          twin.data = column.data;
          bad.push_back(&twin);
        } else {
          twin.data = bytes.emplace_back(column.data.size()).span();
          wanted.push_back(&twin);
          models.push_back(&column);
        }
      }
    }
    run(wanted, block.tag, IoPurpose::scrub, IoOp::read, block.birth_txg);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ColumnIo& twin = *wanted[i];
      if (twin.state != ColumnIo::State::good) {
        ++block.errors_seen;
        bad.push_back(&twin);
      } else if (!std::ranges::equal(twin.data, models[i]->data)) {
        count_wrong(twin, block);
        bad.push_back(&twin);
      }
      twin.data = models[i]->data;
    }
  }

  // Parity as it must be; columns that were read and differ join `bad`. Parity columns point to the
  // right bytes afterwards.
  Buffer compare_parity(ReadJob& job, std::vector<ColumnIo*>& bad) {
    Buffer expected(job.parity.size());
    std::array<raid::ColumnView, raid::kColumnsMax> data;
    std::array<raid::MutableColumn, raid::kParityMax> parity;
    const std::size_t size = job.map.columns[0].size;
    for (unsigned p = 0; p < job.map.parity; ++p) {
      parity[p] = expected.span().subspan(p * size, size);
    }
    for (unsigned d = 0; d < job.map.data_columns(); ++d) {
      data[d] = job.columns[job.map.parity + d].data;
    }
    raid::generate(*context_.kernels, std::span(std::as_const(data)).first(job.map.data_columns()),
                   std::span(std::as_const(parity)).first(job.map.parity));
    for (unsigned p = 0; p < job.map.parity; ++p) {
      ColumnIo& column = job.columns[p];
      if (column.state == ColumnIo::State::good &&
          std::memcmp(column.data.data(), parity[p].data(), size) != 0) {
        count_wrong(column, *job.block);
        bad.push_back(&column);
      } else if (column.state == ColumnIo::State::failed) {
        bad.push_back(&column);
      }
      column.data = parity[p];
    }
    return expected;
  }
};

}  // namespace

std::unique_ptr<Top> make_raidz(const TreeContext& context, TopGeometry geometry,
                                std::vector<Child> children) {
  return std::make_unique<Raidz>(context, geometry, std::move(children));
}

}  // namespace zuse::vdev
