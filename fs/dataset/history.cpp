#include "fs/dataset/history.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "vdev/base/units.h"

namespace zuse::dataset {
namespace {

constexpr std::uint64_t kRingMin = 128 * kKiB;
constexpr std::uint64_t kRingMax = kGiB;
constexpr std::uint32_t kBlockSize = 131072;
constexpr std::size_t kHeaderSize = 40;
constexpr std::uint64_t kRecordMax = kMiB;

// The bonus area: five 64-bit integers. Offsets are logical: they only grow.
struct Header {
  std::uint64_t create_length = 0, size = 0, first = 0, end = 0, lost = 0;

  // Where a logical offset lies in the ring.
  std::uint64_t physical(std::uint64_t logical) const {
    return (logical - create_length) % (size - create_length) + create_length;
  }
};

Result<Header> decode_header(std::span<const std::byte> bonus) {
  if (bonus.size() < kHeaderSize) {
    return fail(Errc::corrupt, "the history has no header");
  }
  const auto word = [&](std::size_t i) { return load_at<std::uint64_t>(bonus, i * 8, kHostOrder); };
  const Header header{word(0), word(1), word(2), word(3), word(4)};
  if (header.size > kRingMax || header.create_length >= header.size || header.first > header.end ||
      header.end - header.first > header.size) {
    return fail(Errc::corrupt, "the history's header makes no sense");
  }
  return header;
}

std::vector<std::byte> encode_header(const Header& header) {
  std::vector<std::byte> bonus(kHeaderSize);
  std::size_t at = 0;
  for (const std::uint64_t word :
       {header.create_length, header.size, header.first, header.end, header.lost}) {
    store_at<std::uint64_t>(bonus, at, word, kHostOrder);
    at += 8;
  }
  return bonus;
}

// Bytes from a logical offset on, around the end of the ring. Before the first record ends the ring
// has no creation part: then offsets are plain.
Result<void> read_ring(object::Dnode& dnode, const Header& header, std::uint64_t logical,
                       std::span<std::byte> into) {
  while (!into.empty()) {
    const std::uint64_t at = header.physical(logical);
    const auto piece = std::min<std::uint64_t>(into.size(), header.size - at);
    ZUSE_TRY_VOID(dnode.read(at, into.first(piece)));
    into = into.subspan(piece);
    logical += piece;
  }
  return {};
}

Result<std::uint64_t> record_length(object::Dnode& dnode, const Header& header,
                                    std::uint64_t logical) {
  std::array<std::byte, 8> raw{};
  ZUSE_TRY_VOID(read_ring(dnode, header, logical, raw));
  const auto length = load_at<std::uint64_t>(raw, 0, ByteOrder::little);
  if (length == 0 || length > kRecordMax || length > header.size) {
    return fail(Errc::corrupt, "a history record has a length that makes no sense");
  }
  return length;
}

}  // namespace

Result<std::uint64_t> create_history(object::Objset& mos, object::Tx& tx, std::uint64_t pool_size) {
  object::NewObject spec;
  spec.type = format::ObjectType::spa_history;
  spec.block_size = kBlockSize;
  spec.bonus_type = format::ObjectType::spa_history_offsets;
  spec.bonus_size = kHeaderSize;
  ZUSE_TRY(const object::DnodeRef dnode, mos.allocate(tx, spec));
  Header header;
  header.size = std::clamp(pool_size / 1000, kRingMin, kRingMax);
  ZUSE_TRY_VOID(dnode->set_bonus(tx, encode_header(header)));
  return dnode->object();
}

Result<void> append_history(object::Objset& mos, object::Tx& tx, std::uint64_t object,
                            const codec::NvList& record) {
  ZUSE_TRY(const object::DnodeRef dnode, mos.hold(object));
  ZUSE_TRY(Header header, decode_header(dnode->bonus()));
  const std::vector<std::byte> packed = record.encode_native();
  std::vector<std::byte> bytes(8 + packed.size());
  store_at<std::uint64_t>(bytes, 0, packed.size(), ByteOrder::little);
  std::ranges::copy(packed, bytes.begin() + 8);
  if (bytes.size() > (header.size - header.create_length) / 4) {
    return fail(Errc::too_large, "a history record is too long");
  }
  while (header.size - header.create_length - (header.end - header.first) <= bytes.size()) {
    ZUSE_TRY(const std::uint64_t oldest, record_length(*dnode, header, header.first));
    header.first += 8 + oldest;
    ++header.lost;
  }
  std::span<const std::byte> rest = bytes;
  for (std::uint64_t logical = header.end; !rest.empty();) {
    const std::uint64_t at = header.physical(logical);
    const auto piece = std::min<std::uint64_t>(rest.size(), header.size - at);
    ZUSE_TRY_VOID(dnode->write(tx, at, rest.first(piece)));
    rest = rest.subspan(piece);
    logical += piece;
  }
  const bool first_command = header.create_length == 0 && record.has("history command");
  header.end += bytes.size();
  if (first_command) {
    header.create_length = header.first = header.end;
  }
  return dnode->set_bonus(tx, encode_header(header));
}

Result<std::vector<codec::NvList>> read_history(object::Objset& mos, std::uint64_t object) {
  ZUSE_TRY(const object::DnodeRef dnode, mos.hold(object));
  ZUSE_TRY(const Header header, decode_header(dnode->bonus()));
  std::vector<codec::NvList> records;
  const auto read_range = [&](const Header& ring, std::uint64_t from,
                              std::uint64_t end) -> Result<void> {
    for (std::uint64_t at = from; at < end;) {
      ZUSE_TRY(const std::uint64_t length, record_length(*dnode, ring, at));
      std::vector<std::byte> bytes(length);
      ZUSE_TRY_VOID(read_ring(*dnode, ring, at + 8, bytes));
      auto record = codec::NvList::decode(bytes);
      if (record) {
        records.push_back(*std::move(record));
      }
      at += 8 + length;
    }
    return {};
  };
  // The creation part is a plain run of records before the ring proper.
  Header plain = header;
  plain.create_length = 0;
  ZUSE_TRY_VOID(read_range(plain, 0, header.create_length));
  ZUSE_TRY_VOID(read_range(header, header.first, header.end));
  return records;
}

codec::NvList command_record(const std::string& command, std::uint64_t txg) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  codec::NvList record;
  record.set_string("history command", command);
  record.set_u64("history who", getuid());
  record.set_string("history zone", "linux");
  record.set_string("history hostname", host.data());
  record.set_u64("history time", static_cast<std::uint64_t>(std::time(nullptr)));
  record.set_u64("history txg", txg);
  return record;
}

}  // namespace zuse::dataset
