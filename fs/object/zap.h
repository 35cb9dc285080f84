// Zap: an object that maps names to arrays of integers. Small ones are a list in one block (micro),
// others an extendible hash table (fat). source: format page 06.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fs/object/objset.h"

namespace zuse::object {

// A value: `count` integers of `integer_size` bytes, widened to 64 bits.
struct ZapValue {
  unsigned integer_size = 8;  // 1, 2, 4 or 8
  std::vector<std::uint64_t> integers;
  static ZapValue of(std::uint64_t integer) { return {8, {integer}}; }
  static ZapValue string(std::string_view text);  // bytes with a NUL at the end
  std::string as_string() const;                  // up to the first NUL
  bool operator==(const ZapValue&) const = default;
};

struct ZapEntry {
  std::string name;  // for UINT64_KEY tables: the key's bytes, big-endian words
  ZapValue value;
  std::uint64_t cursor = 0;  // where to go on after this entry
};

inline constexpr std::uint64_t kZapCursorEnd = ~std::uint64_t{0};

// A handle: cheap to make, shares state with other handles on the same dnode. Thread-safe.
class Zap {
 public:
  explicit Zap(DnodeRef dnode) : dnode_(std::move(dnode)) {}
  // Holds object `object` of the set and checks that it is a ZAP. errors: corrupt, not_found.
  static Result<Zap> open(Objset& objset, std::uint64_t object);
  // A new, empty micro ZAP. `spec.type` and bonus fields say what kind of object it is.
  static Result<Zap> create(Objset& objset, Tx& tx, NewObject spec,
                            std::uint64_t normalization = 0);
  // Makes an existing, empty object's data an empty micro ZAP.
  static Result<void> initialise(Dnode& dnode, Tx& tx, std::uint64_t normalization = 0);

  // Drops what is remembered about the object's contents. For code that writes a ZAP's blocks as
  // plain data (receive): to be called after it.
  static void forget(Dnode& dnode);

  const DnodeRef& dnode() const noexcept { return dnode_; }
  std::uint64_t object() const noexcept { return dnode_->object(); }

  // errors: not_found, corrupt, and those of reading; unsupported for names that would need Unicode
  // tables (normalised, not plain ASCII).
  Result<std::uint64_t> lookup(
      std::string_view name) const;  // first integer; invalid unless 8 bytes wide
  Result<ZapValue> lookup_value(std::string_view name) const;
  Result<bool> contains(std::string_view name) const;
  Result<std::uint64_t> count() const;  // entries

  // errors: exists (add), not_found (remove), too_large, name_too_long.
  Result<void> add(Tx& tx, std::string_view name, std::uint64_t value);
  Result<void> add_value(Tx& tx, std::string_view name, const ZapValue& value);
  Result<void> update(Tx& tx, std::string_view name, std::uint64_t value);  // adds or replaces
  Result<void> update_value(Tx& tx, std::string_view name, const ZapValue& value);
  Result<void> remove(Tx& tx, std::string_view name);
  // Adds to a counter; an entry that becomes 0 is removed (accounting, format page 06 section 8).
  Result<void> increment(Tx& tx, std::string_view name, std::int64_t delta);

  // The first entry at or after a cursor (0: the start), in order of (hash, cd): the order that
  // directory offsets rely on. errors: not_found at the end.
  Result<ZapEntry> at(std::uint64_t cursor) const;
  // Up to `limit` entries from a cursor on, one lock for all.
  Result<std::vector<ZapEntry>> page(std::uint64_t cursor, std::size_t limit) const;
  // Every entry; stops at the first error of `visit`.
  Result<void> for_each(const std::function<Result<void>(const ZapEntry&)>& visit) const;

  // "%llx" of a number: the key of int-set ZAPs.
  static std::string hex_key(std::uint64_t number);

 private:
  DnodeRef dnode_;
};

}  // namespace zuse::object
