// Head of the intent log of an object set: 192 bytes in its objset block, drawn in README.md.
// The log's own blocks and records belong to fs/posix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/format/blkptr.h"

namespace zuse::format {

inline constexpr std::size_t kZilHeaderSize = 192;
inline constexpr std::uint64_t kZilReplayNeeded = 1;
inline constexpr std::uint64_t kZilClaimRecordSeqValid = 2;

// source: format page 09 section 1.
struct ZilHeader {
  std::uint64_t claim_txg = 0, replay_seq = 0;
  Blkptr log;  // hole: no log
  std::uint64_t claim_block_seq = 0, flags = 0, claim_record_seq = 0;
  bool operator==(const ZilHeader&) const = default;
};

// shape: bytes is at least kZilHeaderSize. errors: corrupt, if it is not.
Result<ZilHeader> decode_zil_header(std::span<const std::byte> bytes, ByteOrder order);
// shape: bytes is kZilHeaderSize; all of it is written.
void encode_zil_header(const ZilHeader& header, std::span<std::byte> bytes, ByteOrder order);

}  // namespace zuse::format
