// Decoding and writing one object's attributes, and the table of those in memory.
#include "fs/posix/znode.h"

#include <sys/stat.h>

#include <algorithm>

#include "fs/posix/acl.h"
#include "fs/posix/old_znode.h"
#include "vdev/base/on_disk.h"

namespace zuse::posix {
namespace {

std::array<std::byte, 8> word_bytes(std::uint64_t word) noexcept {
  U64 raw;
  raw.store(word, kHostOrder);
  return raw.bytes;
}

std::array<std::byte, 16> time_bytes(const Time& time) noexcept {
  std::array<std::byte, 16> bytes{};
  store_at<std::uint64_t>(bytes, 0, static_cast<std::uint64_t>(time.seconds), kHostOrder);
  store_at<std::uint64_t>(bytes, 8, time.nanoseconds, kHostOrder);
  return bytes;
}

std::optional<std::uint64_t> word_of(const SaRegistry& registry, const AttributeSet& values,
                                     Attr attribute) {
  const auto number = registry.number(attribute);
  if (!number) {
    return std::nullopt;
  }
  const auto value = values.find(*number);
  if (!value || value->size() < 8) {
    return std::nullopt;
  }
  return load_at<std::uint64_t>(*value, 0, kHostOrder);
}

// Reads the attributes that every object must have; remembers the first one missing.
class FieldReader {
 public:
  FieldReader(const SaRegistry& registry, const AttributeSet& values)
      : registry_(registry), values_(values) {}

  std::uint64_t word(Attr attribute, const char* name) {
    const auto value = word_of(registry_, values_, attribute);
    if (!value && missing_ == nullptr) {
      missing_ = name;
    }
    return value.value_or(0);
  }
  Time time(Attr attribute, const char* name) {
    const auto number = registry_.number(attribute);
    const auto value = number ? values_.find(*number) : std::nullopt;
    if (!value || value->size() < 16) {
      missing_ = missing_ == nullptr ? name : missing_;
      return {};
    }
    return {static_cast<std::int64_t>(load_at<std::uint64_t>(*value, 0, kHostOrder)),
            static_cast<std::uint32_t>(std::min<std::uint64_t>(
                load_at<std::uint64_t>(*value, 8, kHostOrder), 999'999'999))};
  }
  const char* missing() const noexcept { return missing_; }

 private:
  const SaRegistry& registry_;
  const AttributeSet& values_;
  const char* missing_ = nullptr;
};

Result<ZnodeFields> decode_fields(const SaRegistry& registry, const AttributeSet& values) {
  FieldReader reader(registry, values);
  ZnodeFields fields;
  fields.mode = reader.word(Attr::mode, "MODE");
  fields.size = reader.word(Attr::size, "SIZE");
  fields.gen = reader.word(Attr::gen, "GEN");
  fields.uid = reader.word(Attr::uid, "UID");
  fields.gid = reader.word(Attr::gid, "GID");
  fields.parent = reader.word(Attr::parent, "PARENT");
  fields.flags = reader.word(Attr::flags, "FLAGS");
  fields.links = reader.word(Attr::links, "LINKS");
  fields.atime = reader.time(Attr::atime, "ATIME");
  fields.mtime = reader.time(Attr::mtime, "MTIME");
  fields.ctime = reader.time(Attr::ctime, "CTIME");
  fields.crtime = reader.time(Attr::crtime, "CRTIME");
  if (reader.missing() != nullptr) {
    return fail(Errc::corrupt, std::string("attribute ") + reader.missing() + " is missing");
  }
  fields.rdev = word_of(registry, values, Attr::rdev).value_or(0);
  fields.xattr = word_of(registry, values, Attr::xattr).value_or(0);
  if ((fields.flags & kFlagProject) != 0) {
    fields.project = word_of(registry, values, Attr::projid);
    if (!fields.project) {
      return fail(Errc::corrupt, "attribute PROJID is missing");
    }
  }
  return fields;
}

Result<void> check_fields(const ZnodeFields& fields) {
  if (fields.gen == 0) {
    return fail(Errc::corrupt, "attribute GEN is 0");
  }
  if (fields.mode > 0xFFFF || (fields.mode & S_IFMT) == 0) {
    return fail(Errc::corrupt, "attribute MODE names no type of file");
  }
  if (fields.size > static_cast<std::uint64_t>(INT64_MAX)) {
    return fail(Errc::corrupt, "attribute SIZE is out of range");
  }
  return {};
}

Result<void> put_value(SaRegistry& registry, object::Tx& tx, AttributeSet& values, Attr attribute,
                       std::span<const std::byte> bytes) {
  ZUSE_TRY(const std::uint16_t number, registry.number(tx, attribute));
  values.put(number, bytes);
  return {};
}

// The values of a new or converted object, in the order that accounting relies on.
// source: format page 08 section 5.6.
Result<AttributeSet> make_values(SaRegistry& registry, object::Tx& tx, const ZnodeFields& fields,
                                 std::span<const std::byte> aces, std::uint64_t ace_count) {
  AttributeSet values;
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::mode, word_bytes(fields.mode)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::size, word_bytes(fields.size)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::gen, word_bytes(fields.gen)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::uid, word_bytes(fields.uid)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::gid, word_bytes(fields.gid)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::parent, word_bytes(fields.parent)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::flags, word_bytes(fields.flags)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::atime, time_bytes(fields.atime)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::mtime, time_bytes(fields.mtime)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::ctime, time_bytes(fields.ctime)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::crtime, time_bytes(fields.crtime)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::links, word_bytes(fields.links)));
  if (fields.project) {
    ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::projid, word_bytes(*fields.project)));
  }
  if (S_ISBLK(fields.mode) || S_ISCHR(fields.mode)) {
    ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::rdev, word_bytes(fields.rdev)));
  }
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::dacl_count, word_bytes(ace_count)));
  ZUSE_TRY_VOID(put_value(registry, tx, values, Attr::dacl_aces, aces));
  return values;
}

// Number of entries in a list; nullopt if it does not end with an entry's end.
std::optional<std::uint64_t> count_aces(std::span<const std::byte> aces) {
  std::uint64_t count = 0;
  std::size_t at = 0;
  while (aces.size() - at >= 8) {
    const auto type = load_at<std::uint16_t>(aces, at, kHostOrder);
    const unsigned who = load_at<std::uint16_t>(aces, at + 2, kHostOrder) & 0x7040U;
    const bool anonymous = type <= 1 && (who == 0x1000U || who == 0x2040U || who == 0x4000U);
    const std::size_t size = anonymous ? 8 : type >= 5 && type <= 8 ? 48 : 16;
    if (aces.size() - at < size) {
      return std::nullopt;
    }
    at += size;
    ++count;
  }
  return at == aces.size() ? std::optional(count) : std::nullopt;
}

}  // namespace

Znode::Znode(object::DnodeRef held, ZnodeFields decoded, AttributeSet values)
    : object(held->object()),
      dnode(std::move(held)),
      fields(std::move(decoded)),
      type_(static_cast<std::uint32_t>(fields.mode & S_IFMT)),
      values_(std::move(values)) {
  unlinked = fields.links == 0;
}

bool Znode::is_directory() const noexcept {
  return S_ISDIR(type_);
}
bool Znode::is_regular() const noexcept {
  return S_ISREG(type_);
}

Result<ZnodeRef> Znode::load(SaRegistry& registry,
                             object::DnodeRef dnode) ZUSE_NO_THREAD_SAFETY_ANALYSIS {
  const auto about = [&](Error error) {
    return std::unexpected(std::move(error).within(dnode->objset().name() + ": object " +
                                                   std::to_string(dnode->object())));
  };
  if (!dnode->allocated()) {
    return about(Error(Errc::stale, "it has been freed"));
  }
  switch (dnode->bonus_type()) {
    case format::ObjectType::sa: {
      auto spill = dnode->spill();
      if (!spill) {
        return about(std::move(spill).error());
      }
      const std::vector<std::byte> bonus = dnode->bonus();
      auto values = AttributeSet::decode(*registry.tables(), bonus,
                                         *spill ? (*spill)->span() : std::span<const std::byte>{});
      if (!values) {
        return about(std::move(values).error());
      }
      auto fields = decode_fields(registry, *values);
      if (!fields) {
        return about(std::move(fields).error());
      }
      if (auto good = check_fields(*fields); !good) {
        return about(std::move(good).error());
      }
      return std::make_shared<Znode>(std::move(dnode), *std::move(fields), *std::move(values));
    }
    case format::ObjectType::znode: {
      auto old = decode_old_znode(*dnode);
      if (!old) {
        return about(std::move(old).error());
      }
      if (auto good = check_fields(old->fields); !good) {
        return about(std::move(good).error());
      }
      // Values wait in memory under the well-known numbers; save_locked() gives them a layout.
      AttributeSet values;
      const auto put = [&](Attr attribute, std::span<const std::byte> bytes) {
        if (const auto number = registry.number(attribute)) {
          values.put(*number, bytes);
        }
      };
      if (old->symlink) {
        put(Attr::symlink, *old->symlink);
      }
      if (old->scanstamp) {
        put(Attr::scanstamp, *old->scanstamp);
      }
      if (!old->aces.empty()) {
        put(Attr::dacl_aces, old->aces);
      }
      auto znode = std::make_shared<Znode>(std::move(dnode), old->fields, std::move(values));
      znode->old_form_ = true;
      znode->old_acl_ = old->external_acl;
      return znode;
    }
    default: return about(Error(Errc::stale, "it is not a file or directory"));
  }
}

Result<ZnodeRef> Znode::create(SaRegistry& registry, object::Tx& tx, object::DnodeRef dnode,
                               const ZnodeFields& fields, std::string_view symlink) {
  const TrivialAcl acl = trivial_acl(fields.mode);
  ZUSE_TRY(AttributeSet values, make_values(registry, tx, fields, acl.bytes(), acl.count));
  if (S_ISLNK(fields.mode)) {
    ZUSE_TRY(const std::uint16_t number, registry.number(tx, Attr::symlink));
    values.put(number, std::as_bytes(std::span(symlink)));
  }
  ZUSE_TRY_VOID(values.store(registry, tx, *dnode));
  return std::make_shared<Znode>(std::move(dnode), fields, std::move(values));
}

std::optional<std::vector<std::byte>> Znode::value_locked(const SaRegistry& registry,
                                                          Attr attribute) const {
  const auto number = registry.number(attribute);
  const auto value = number ? values_.find(*number) : std::nullopt;
  if (!value) {
    return std::nullopt;
  }
  return std::vector<std::byte>(value->begin(), value->end());
}

Result<void> Znode::put_locked(SaRegistry& registry, object::Tx& tx, Attr attribute,
                               std::span<const std::byte> value) {
  ZUSE_TRY(const std::uint16_t number, registry.number(tx, attribute));
  values_.put(number, value);
  return {};
}

void Znode::remove_locked(const SaRegistry& registry, Attr attribute) {
  if (const auto number = registry.number(attribute)) {
    values_.remove(*number);
  }
}

Result<void> Znode::put_acl_locked(SaRegistry& registry, object::Tx& tx) {
  const TrivialAcl acl = trivial_acl(fields.mode);
  ZUSE_TRY_VOID(put_locked(registry, tx, Attr::dacl_count, word_bytes(acl.count)));
  ZUSE_TRY_VOID(put_locked(registry, tx, Attr::dacl_aces, acl.bytes()));
  constexpr std::uint64_t kAboutAcl =
      0x3E;  // inheritable, trivial, object entries, protected, default
  fields.flags = (fields.flags & ~(kAboutAcl | kFlagNoExecsDenied)) | kFlagAclTrivial |
                 (everyone_executes(fields.mode) ? kFlagNoExecsDenied : 0);
  return {};
}

Result<void> Znode::put_fields_locked(SaRegistry& registry, object::Tx& tx) {
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::mode, word_bytes(fields.mode)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::size, word_bytes(fields.size)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::gen, word_bytes(fields.gen)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::uid, word_bytes(fields.uid)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::gid, word_bytes(fields.gid)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::parent, word_bytes(fields.parent)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::flags, word_bytes(fields.flags)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::atime, time_bytes(fields.atime)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::mtime, time_bytes(fields.mtime)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::ctime, time_bytes(fields.ctime)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::crtime, time_bytes(fields.crtime)));
  ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::links, word_bytes(fields.links)));
  if (fields.project) {
    ZUSE_TRY(const std::uint16_t links, registry.number(tx, Attr::links));
    ZUSE_TRY(const std::uint16_t project, registry.number(tx, Attr::projid));
    values_.put(project, word_bytes(*fields.project), links);
  }
  const auto xattr = registry.number(Attr::xattr);
  if (fields.xattr != 0 || (xattr && values_.find(*xattr))) {
    ZUSE_TRY_VOID(put_value(registry, tx, values_, Attr::xattr, word_bytes(fields.xattr)));
  }
  return {};
}

Result<void> Znode::save_locked(SaRegistry& registry, object::Tx& tx) {
  unlinked = fields.links == 0;
  if (!old_form_) {
    ZUSE_TRY_VOID(put_fields_locked(registry, tx));
    return values_.store(registry, tx, *dnode);
  }
  // The old record's list, if it can be kept, or else the mode's.
  std::vector<std::byte> aces =
      value_locked(registry, Attr::dacl_aces).value_or(std::vector<std::byte>{});
  auto count = count_aces(aces);
  if (aces.empty() || !count) {
    const TrivialAcl acl = trivial_acl(fields.mode);
    aces.assign(acl.bytes().begin(), acl.bytes().end());
    count = acl.count;
    fields.flags |= kFlagAclTrivial;
  }
  const auto symlink = value_locked(registry, Attr::symlink);
  const auto scanstamp = value_locked(registry, Attr::scanstamp);
  const auto xattrs = value_locked(registry, Attr::dxattr);
  ZUSE_TRY(values_, make_values(registry, tx, fields, aces, *count));
  if (fields.xattr != 0) {
    ZUSE_TRY_VOID(put_locked(registry, tx, Attr::xattr, word_bytes(fields.xattr)));
  }
  if (symlink) {
    ZUSE_TRY_VOID(put_locked(registry, tx, Attr::symlink, *symlink));
    ZUSE_TRY_VOID(dnode->free_range(tx, 0, object::kToEnd));
  }
  if (xattrs) {
    ZUSE_TRY_VOID(put_locked(registry, tx, Attr::dxattr, *xattrs));
  }
  if (scanstamp) {
    ZUSE_TRY_VOID(put_locked(registry, tx, Attr::scanstamp, *scanstamp));
  }
  ZUSE_TRY_VOID(dnode->set_bonus_type(tx, format::ObjectType::sa));
  ZUSE_TRY_VOID(values_.store(registry, tx, *dnode));
  old_form_ = false;
  if (old_acl_ != 0) {
    const std::uint64_t freed = std::exchange(old_acl_, 0);
    if (auto done = dnode->objset().free_object(tx, freed);
        !done && done.error().code() != Errc::not_found) {
      return done;
    }
  }
  return {};
}

Result<ZnodeRef> ZnodeTable::get(std::uint64_t object) {
  if (object == 0 || object > kObjectNumberMax) {
    return fail(Errc::stale, "object " + std::to_string(object) + " cannot be");
  }
  const auto find = [&]() -> std::optional<Result<ZnodeRef>> {
    const LockGuard lock(mutex_);
    const auto found = znodes_.find(object);
    if (found == znodes_.end()) {
      return std::nullopt;
    }
    Znode& znode = *found->second;
    if (znode.reaping_) {
      return fail(Errc::stale, "object " + std::to_string(object) + " is being freed");
    }
    if (znode.idle_) {
      idle_.splice(idle_.end(), idle_, znode.idle_position_);
    }
    return found->second;
  };
  if (auto found = find()) {
    return *std::move(found);
  }
  const LockGuard load(load_[object % kLoadLocks].mutex);
  if (auto found = find()) {
    return *std::move(found);
  }
  auto dnode = objset_.hold(object);
  if (!dnode) {
    if (dnode.error().code() == Errc::not_found || dnode.error().code() == Errc::exists) {
      return fail(Errc::stale, "object " + std::to_string(object) + " does not exist");
    }
    return std::unexpected(std::move(dnode).error());
  }
  ZUSE_TRY(ZnodeRef znode, Znode::load(registry_, *std::move(dnode)));
  insert(znode);
  return znode;
}

void ZnodeTable::insert(const ZnodeRef& znode) {
  std::vector<ZnodeRef> evicted;
  const LockGuard lock(mutex_);
  znodes_[znode->object] = znode;
  make_idle_locked(*znode, evicted);
}

// The caller holds `evicted` outside the lock's scope: dropping a znode may take the object layer's
// locks.
void ZnodeTable::make_idle_locked(Znode& znode, std::vector<ZnodeRef>& evicted) {
  idle_.push_back(&znode);
  znode.idle_position_ = std::prev(idle_.end());
  znode.idle_ = true;
  std::size_t looked_at = 0;
  for (auto it = idle_.begin(); idle_.size() > idle_max_ && it != idle_.end() && looked_at < 16;
       ++looked_at) {
    Znode& oldest = **it;
    const auto entry = znodes_.find(oldest.object);
    // Only the table can make new references, so a count of one stays one.
    if (entry->second.use_count() > 1 || oldest.reaping_ || oldest.unlinked) {
      ++it;
      continue;
    }
    it = idle_.erase(it);
    evicted.push_back(std::move(entry->second));
    znodes_.erase(entry);
  }
}

void ZnodeTable::add_lookup(Znode& znode) {
  const LockGuard lock(mutex_);
  ++znode.lookups_;
  if (znode.idle_) {
    idle_.erase(znode.idle_position_);
    znode.idle_ = false;
  }
}

void ZnodeTable::forget(std::uint64_t object, std::uint64_t count) {
  std::vector<ZnodeRef> evicted;
  const LockGuard lock(mutex_);
  const auto found = znodes_.find(object);
  if (found == znodes_.end()) {
    return;
  }
  Znode& znode = *found->second;
  const bool held = znode.lookups_ > 0;
  znode.lookups_ -= std::min(znode.lookups_, count);
  if (held && znode.lookups_ == 0) {
    make_idle_locked(znode, evicted);
  }
}

ZnodeRef ZnodeTable::claim_dead(std::uint64_t object) {
  const LockGuard lock(mutex_);
  const auto found = znodes_.find(object);
  if (found == znodes_.end() || found->second->lookups_ > 0 || found->second->reaping_ ||
      !found->second->unlinked) {
    return nullptr;
  }
  found->second->reaping_ = true;
  return found->second;
}

ZnodeRef ZnodeTable::claim_any_unlinked() {
  const LockGuard lock(mutex_);
  for (const auto& [object, znode] : znodes_) {
    if (znode->unlinked && !znode->reaping_) {
      znode->reaping_ = true;
      return znode;
    }
  }
  return nullptr;
}

void ZnodeTable::unclaim(Znode& znode) {
  const LockGuard lock(mutex_);
  znode.reaping_ = false;
}

void ZnodeTable::erase(std::uint64_t object) {
  ZnodeRef erased;
  const LockGuard lock(mutex_);
  const auto found = znodes_.find(object);
  if (found == znodes_.end()) {
    return;
  }
  if (found->second->idle_) {
    idle_.erase(found->second->idle_position_);
    found->second->idle_ = false;
  }
  erased = std::move(found->second);
  znodes_.erase(found);
}

std::vector<std::uint64_t> ZnodeTable::held() {
  const LockGuard lock(mutex_);
  std::vector<std::uint64_t> objects;
  for (const auto& [object, znode] : znodes_) {
    if (znode->lookups_ != 0) {
      objects.push_back(object);
    }
  }
  return objects;
}

}  // namespace zuse::posix
