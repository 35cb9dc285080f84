// System attributes: how a file system says what an object's attributes are and where they lie.
//
// A *registry* ZAP numbers the attributes by name; a *layout* is a sequence of such numbers, kept
// in another ZAP; an object's bonus starts with a header that names its layout, and the values
// follow in that order. What does not fit goes to a spill block with a header and a layout of its
// own:
//
//     bonus:  | header, layout 2 | MODE SIZE GEN ... LINKS | DACL_COUNT | DACL_ACES |
//     spill:  | header, layout 5 | DXATTR ...                                       |
//
// source: format page 08 section 5.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fs/object/dnode.h"
#include "fs/object/objset.h"
#include "fs/object/tx.h"
#include "vdev/base/sync.h"

namespace zuse::posix {

// The attributes that the program speaks of, in the order in which a new file system numbers them.
// The number in a given file system is SaRegistry::number().
enum class Attr : std::uint8_t {
  atime,
  mtime,
  ctime,
  crtime,
  gen,
  mode,
  size,
  parent,
  links,
  xattr,
  rdev,
  flags,
  uid,
  gid,
  pad,
  znode_acl,
  dacl_count,
  symlink,
  scanstamp,
  dacl_aces,
  dxattr,
  projid,
  seq,
};
inline constexpr std::size_t kAttrCount = 23;
inline constexpr std::size_t kAttrLegacyCount = 16;  // these have fixed numbers everywhere

// How the bytes of a value are swapped when they come from a machine of the other byte order.
enum class SwapKind : std::uint8_t { words64 = 0, words32 = 1, words16 = 2, bytes = 3, acl = 4 };

struct AttributeInfo {
  std::uint16_t length = 0;  // bytes; 0: varies
  SwapKind swap = SwapKind::bytes;
};

// What is registered, as of one moment; never changes once shared.
struct SaTables {
  std::vector<AttributeInfo> attributes;            // by number
  std::vector<std::vector<std::uint16_t>> layouts;  // by number; 0 (legacy) and 1 (empty) included
};

inline constexpr std::uint32_t kSaMagic = 0x2F505A;
inline constexpr std::size_t kSaLayoutsMax = 1024;
inline constexpr std::size_t kSaValueMax = 65535;      // bytes of one attribute
inline constexpr std::size_t kSaTotalMax = 131072;     // bytes of an object's attributes
inline constexpr std::size_t kSpillPointerSize = 128;  // what a spill block costs the bonus

// Thread-safe.
class SaRegistry {
 public:
  // Reads registry and layouts of a file system. errors: corrupt, unsupported, those of reading.
  static Result<std::unique_ptr<SaRegistry>> open(object::Objset& objset, std::uint64_t master);
  // For file systems older than system attributes: the well-known numbers, nothing stored.
  static std::unique_ptr<SaRegistry> legacy();
  // An empty master node for a new file system; its tables appear at the first use.
  static Result<std::uint64_t> create_master(object::Objset& objset, object::Tx& tx);

  std::shared_ptr<const SaTables> tables() const;
  // The attribute's number here; nullopt: not registered.
  std::optional<std::uint16_t> number(Attr attribute) const noexcept;
  // The same, registering it where that has not been done. errors: unsupported (legacy).
  Result<std::uint16_t> number(object::Tx& tx, Attr attribute);
  // The layout of exactly this sequence, stored if it is new. errors: too_large (1024 layouts).
  Result<std::uint16_t> layout_for(object::Tx& tx, std::span<const std::uint16_t> attributes);

 private:
  SaRegistry(object::Objset* objset, std::uint64_t master);
  Result<void> read();
  Result<void> create_registry_locked(object::Tx& tx) ZUSE_REQUIRES(write_mutex_);
  void publish(SaTables tables);

  object::Objset* const objset_;  // null: legacy
  const std::uint64_t master_;
  std::array<std::atomic<int>, kAttrCount> numbers_;  // -1: not registered
  Mutex write_mutex_{LockRank::file_range};
  std::uint64_t registry_ ZUSE_GUARDED_BY(write_mutex_) = 0;  // object numbers; 0: not there yet
  std::uint64_t layouts_ ZUSE_GUARDED_BY(write_mutex_) = 0;
  mutable Mutex mutex_{LockRank::leaf};
  std::shared_ptr<const SaTables> tables_ ZUSE_GUARDED_BY(mutex_);
};

// Bytes of the header before `variable_count` attributes of varying length.
constexpr std::size_t sa_header_size(std::size_t variable_count) noexcept {
  return variable_count <= 1 ? 8 : 8 + (2 * (variable_count - 1) + 7) / 8 * 8;
}

// The attributes of one object: values that can be read and changed, and their place on disk.
// Values are in the host's byte order. Not thread-safe.
class AttributeSet {
 public:
  AttributeSet() = default;
  // shape: `bonus` is the whole bonus, `spill` the spill block or empty; either byte order.
  // errors: corrupt, with what is wrong.
  static Result<AttributeSet> decode(const SaTables& tables, std::span<const std::byte> bonus,
                                     std::span<const std::byte> spill);

  // The value; nullopt: not present. Valid until the set changes.
  std::optional<std::span<const std::byte>> find(std::uint16_t attribute) const noexcept;
  // Replaces a value in its place (same length), else in its position, else adds it: at the end, or
  // right behind `after` if that is given and present.
  void put(std::uint16_t attribute, std::span<const std::byte> value,
           std::optional<std::uint16_t> after = std::nullopt);
  void remove(std::uint16_t attribute);
  // Bytes of all values, padding between them included.
  std::size_t total_bytes() const noexcept;

  // Writes what has changed since decode() or the last store(): in place, or with a new layout.
  // errors: too_large (the values do not fit into bonus and spill), those of writing.
  Result<void> store(SaRegistry& registry, object::Tx& tx, object::Dnode& dnode);

  // The bytes that store() would write. shape: `capacity` is that of the bonus without a spill
  // pointer.
  struct Image {
    std::vector<std::byte> bonus;
    std::vector<std::byte> spill;  // empty: no spill block
  };
  Result<Image> encode(SaRegistry& registry, object::Tx& tx, std::size_t capacity) const;

 private:
  enum class Place : std::uint8_t { bonus, spill, loose };
  struct Item {
    std::uint16_t attribute = 0;
    Place place = Place::loose;
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
  };
  static Result<void> decode_buffer(const SaTables& tables, std::span<const std::byte> from,
                                    Place place, std::vector<std::byte>& buffer,
                                    std::vector<Item>& items);
  const Item* find_item(std::uint16_t attribute) const noexcept;
  std::span<const std::byte> bytes_of(const Item& item) const noexcept;
  Result<void> place_values(SaRegistry& registry, object::Tx& tx, std::size_t capacity,
                            Image& image, std::vector<Item>& items) const;

  std::vector<Item> items_;  // in storage order: those of the bonus, then those of the spill
  std::vector<std::byte> bonus_, spill_;
  std::vector<std::byte> loose_;  // values that wait for a place
  bool had_spill_ = false;        // on disk there is a spill block
  bool reshaped_ = false;         // lengths or members changed: new layout
  bool bonus_changed_ = false, spill_changed_ = false;
};

// Swaps the values of foreign byte order in place, by kind.
void swap_value(std::span<std::byte> value, SwapKind kind) noexcept;

}  // namespace zuse::posix
