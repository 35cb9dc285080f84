// Small words that the pipeline's reading, scrubbing and writing share.
#pragma once

#include <span>

#include "fs/codec/checksum.h"
#include "fs/format/blkptr.h"
#include "fs/pool/block_store.h"
#include "vdev/block_device.h"

namespace zuse::pool {

inline vdev::IoTag tag_of(const Bookmark& bookmark) noexcept {
  return {bookmark.objset, bookmark.object, static_cast<std::int32_t>(bookmark.level),
          bookmark.block};
}

// "block objset/object/level/block", for messages.
std::string to_string(const Bookmark& bookmark);

inline bool is_sealed(format::Checksum checksum) noexcept {
  return checksum == format::Checksum::zilog || checksum == format::Checksum::zilog2;
}

// Whether psize bytes are what the pointer says. Intent log blocks carry their sum inside, seeded
// with the words in the pointer. errors: checksum, unsupported.
Result<void> verify_contents(const format::Blkptr& blkptr, std::span<const std::byte> data);

// Checksums that a block's bytes can be verified with. errors: unsupported (named).
Result<void> check_verifiable(const format::Blkptr& blkptr);

// The block itself is damaged or gone: what belongs on the error log. Not so a block that we lack
// the means to read.
inline bool is_loss(Errc code) noexcept {
  return code == Errc::io || code == Errc::gone || code == Errc::checksum || code == Errc::corrupt;
}

// The contents of blocks of this type are encrypted in encrypted datasets.
// source: format page 02 section 6.
bool is_encrypted_type(format::ObjectType type) noexcept;

}  // namespace zuse::pool
