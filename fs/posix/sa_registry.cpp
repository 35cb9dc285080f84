// The registry of attributes and the table of layouts of one file system: read whole at mount,
// extended in memory and on disk together. Numbers must stay dense and layouts contiguous, since
// readers size their arrays by the count.
#include <algorithm>
#include <charconv>

#include "fs/object/zap.h"
#include "fs/posix/system_attr.h"
#include "vdev/base/units.h"

namespace zuse::posix {
namespace {

struct KnownAttribute {
  std::string_view name;
  std::uint16_t length;
  SwapKind swap;
};

// In the order of Attr. source: format page 08 section 5.2.
constexpr std::array<KnownAttribute, kAttrCount> kKnown{{
    {"ZPL_ATIME", 16, SwapKind::words64},     {"ZPL_MTIME", 16, SwapKind::words64},
    {"ZPL_CTIME", 16, SwapKind::words64},     {"ZPL_CRTIME", 16, SwapKind::words64},
    {"ZPL_GEN", 8, SwapKind::words64},        {"ZPL_MODE", 8, SwapKind::words64},
    {"ZPL_SIZE", 8, SwapKind::words64},       {"ZPL_PARENT", 8, SwapKind::words64},
    {"ZPL_LINKS", 8, SwapKind::words64},      {"ZPL_XATTR", 8, SwapKind::words64},
    {"ZPL_RDEV", 8, SwapKind::words64},       {"ZPL_FLAGS", 8, SwapKind::words64},
    {"ZPL_UID", 8, SwapKind::words64},        {"ZPL_GID", 8, SwapKind::words64},
    {"ZPL_PAD", 32, SwapKind::words64},       {"ZPL_ZNODE_ACL", 88, SwapKind::bytes},
    {"ZPL_DACL_COUNT", 8, SwapKind::words64}, {"ZPL_SYMLINK", 0, SwapKind::bytes},
    {"ZPL_SCANSTAMP", 32, SwapKind::bytes},   {"ZPL_DACL_ACES", 0, SwapKind::acl},
    {"ZPL_DXATTR", 0, SwapKind::bytes},       {"ZPL_PROJID", 8, SwapKind::words64},
    {"ZPL_SEQ", 8, SwapKind::words64},
}};

constexpr std::size_t kAttributesMax = 4096;  // far above what any release registers
// A new registry has all but SEQ, which only the newest releases know.
constexpr std::size_t kRegisteredAtStart = kAttrCount - 1;

std::uint64_t registry_value(std::size_t number, const KnownAttribute& attribute) {
  return with_bits(with_bits(number, 16, 8, static_cast<std::uint64_t>(attribute.swap)), 24, 16,
                   attribute.length);
}

std::vector<std::vector<std::uint16_t>> implicit_layouts() {
  std::vector<std::vector<std::uint16_t>> layouts(2);
  for (std::uint16_t i = 0; i < kAttrLegacyCount; ++i) {
    layouts[0].push_back(i);
  }
  return layouts;
}

}  // namespace

SaRegistry::SaRegistry(object::Objset* objset, std::uint64_t master)
    : objset_(objset), master_(master) {
  for (auto& number : numbers_) {
    number = -1;
  }
  SaTables tables;
  tables.layouts = implicit_layouts();
  publish(std::move(tables));
}

void SaRegistry::publish(SaTables tables) {
  auto shared = std::make_shared<const SaTables>(std::move(tables));
  const LockGuard lock(mutex_);
  tables_ = std::move(shared);
}

std::shared_ptr<const SaTables> SaRegistry::tables() const {
  const LockGuard lock(mutex_);
  return tables_;
}

std::optional<std::uint16_t> SaRegistry::number(Attr attribute) const noexcept {
  const int number = numbers_[static_cast<std::size_t>(attribute)].load();
  if (number < 0) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(number);
}

std::unique_ptr<SaRegistry> SaRegistry::legacy() {
  std::unique_ptr<SaRegistry> registry(new SaRegistry(nullptr, 0));
  SaTables tables;
  tables.layouts = implicit_layouts();
  for (std::size_t i = 0; i < kAttrCount; ++i) {
    tables.attributes.push_back({kKnown[i].length, kKnown[i].swap});
    registry->numbers_[i] = static_cast<int>(i);
  }
  registry->publish(std::move(tables));
  return registry;
}

Result<std::uint64_t> SaRegistry::create_master(object::Objset& objset, object::Tx& tx) {
  object::NewObject spec;
  spec.type = format::ObjectType::sa_master_node;
  ZUSE_TRY(const object::Zap master, object::Zap::create(objset, tx, spec));
  return master.object();
}

Result<std::unique_ptr<SaRegistry>> SaRegistry::open(object::Objset& objset, std::uint64_t master) {
  std::unique_ptr<SaRegistry> registry(new SaRegistry(&objset, master));
  if (auto read = registry->read(); !read) {
    return std::unexpected(std::move(read).error().within("system attributes"));
  }
  return registry;
}

Result<void> SaRegistry::read() {
  const LockGuard lock(write_mutex_);
  ZUSE_TRY(const object::Zap master, object::Zap::open(*objset_, master_));
  const auto registry = master.lookup("REGISTRY");
  const auto layouts = master.lookup("LAYOUTS");
  if (!registry && !layouts && registry.error().code() == Errc::not_found &&
      layouts.error().code() == Errc::not_found) {
    return {};  // a new file system: nothing has been written yet
  }
  if (!registry) {
    return std::unexpected(registry.error());
  }
  if (!layouts) {
    return std::unexpected(layouts.error());
  }
  SaTables tables;
  tables.layouts = implicit_layouts();

  ZUSE_TRY(const object::Zap registered, object::Zap::open(*objset_, *registry));
  ZUSE_TRY(const std::uint64_t count, registered.count());
  if (count < kAttrLegacyCount || count > kAttributesMax) {
    return fail(Errc::corrupt, "the registry has " + std::to_string(count) + " attributes");
  }
  tables.attributes.resize(count);
  std::vector<bool> seen(count);
  ZUSE_TRY_VOID(registered.for_each([&](const object::ZapEntry& entry) -> Result<void> {
    if (entry.value.integer_size != 8 || entry.value.integers.size() != 1) {
      return fail(Errc::corrupt, "the registry's entry for " + entry.name + " is malformed");
    }
    const std::uint64_t value = entry.value.integers[0];
    const std::uint64_t number = bits(value, 0, 16);
    const std::uint64_t swap = bits(value, 16, 8);
    if (number >= count || seen[number]) {
      return fail(Errc::corrupt, "attribute numbers are not dense");
    }
    if (swap > static_cast<std::uint64_t>(SwapKind::acl)) {
      return fail(Errc::unsupported, "attribute " + entry.name + " has an unknown byte-swap kind");
    }
    seen[number] = true;
    tables.attributes[number] = {static_cast<std::uint16_t>(bits(value, 24, 16)),
                                 static_cast<SwapKind>(swap)};
    for (std::size_t i = 0; i < kAttrCount; ++i) {
      if (kKnown[i].name == entry.name) {
        if (kKnown[i].length != tables.attributes[number].length) {
          return fail(Errc::corrupt, "attribute " + entry.name + " has an unexpected length");
        }
        numbers_[i] = static_cast<int>(number);
      }
    }
    return {};
  }));

  ZUSE_TRY(const object::Zap stored, object::Zap::open(*objset_, *layouts));
  ZUSE_TRY(const std::uint64_t stored_count, stored.count());
  if (stored_count + 2 > kSaLayoutsMax) {
    return fail(Errc::corrupt, "there are too many attribute layouts");
  }
  tables.layouts.resize(stored_count + 2);
  ZUSE_TRY_VOID(stored.for_each([&](const object::ZapEntry& entry) -> Result<void> {
    std::size_t number = 0;
    const char* const end = entry.name.data() + entry.name.size();
    const auto parsed = std::from_chars(entry.name.data(), end, number);
    if (parsed.ec != std::errc{} || parsed.ptr != end || number < 2 ||
        number >= tables.layouts.size() || !tables.layouts[number].empty() ||
        entry.value.integers.empty()) {
      return fail(Errc::corrupt, "attribute layout \"" + entry.name + "\" is malformed");
    }
    for (const std::uint64_t attribute : entry.value.integers) {
      if (attribute >= tables.attributes.size()) {
        return fail(Errc::corrupt, "layout " + entry.name + " names an unknown attribute");
      }
      tables.layouts[number].push_back(static_cast<std::uint16_t>(attribute));
    }
    return {};
  }));
  registry_ = *registry;
  layouts_ = *layouts;
  publish(std::move(tables));
  return {};
}

// Registry and layouts appear together, at the first attribute that is written.
Result<void> SaRegistry::create_registry_locked(object::Tx& tx) {
  if (objset_ == nullptr) {
    return fail(Errc::unsupported, "this file system is older than system attributes");
  }
  if (registry_ != 0) {
    return {};
  }
  object::NewObject spec;
  spec.type = format::ObjectType::sa_attr_registration;
  ZUSE_TRY(object::Zap registry, object::Zap::create(*objset_, tx, spec));
  spec.type = format::ObjectType::sa_attr_layouts;
  ZUSE_TRY(const object::Zap layouts, object::Zap::create(*objset_, tx, spec));
  SaTables changed = *tables();
  for (std::size_t i = 0; i < kRegisteredAtStart; ++i) {
    ZUSE_TRY_VOID(registry.add(tx, kKnown[i].name, registry_value(i, kKnown[i])));
    changed.attributes.push_back({kKnown[i].length, kKnown[i].swap});
  }
  ZUSE_TRY(object::Zap master, object::Zap::open(*objset_, master_));
  ZUSE_TRY_VOID(master.add(tx, "REGISTRY", registry.object()));
  ZUSE_TRY_VOID(master.add(tx, "LAYOUTS", layouts.object()));
  registry_ = registry.object();
  layouts_ = layouts.object();
  publish(std::move(changed));
  for (std::size_t i = 0; i < kRegisteredAtStart; ++i) {
    numbers_[i] = static_cast<int>(i);
  }
  return {};
}

Result<std::uint16_t> SaRegistry::number(object::Tx& tx, Attr attribute) {
  if (const auto known = number(attribute)) {
    return *known;
  }
  const LockGuard lock(write_mutex_);
  ZUSE_TRY_VOID(create_registry_locked(tx));
  if (const auto known = number(attribute)) {
    return *known;
  }
  const KnownAttribute& about = kKnown[static_cast<std::size_t>(attribute)];
  SaTables changed = *tables();
  const std::size_t added = changed.attributes.size();
  ZUSE_TRY(object::Zap registry, object::Zap::open(*objset_, registry_));
  ZUSE_TRY_VOID(registry.add(tx, about.name, registry_value(added, about)));
  changed.attributes.push_back({about.length, about.swap});
  publish(std::move(changed));
  numbers_[static_cast<std::size_t>(attribute)] = static_cast<int>(added);
  return static_cast<std::uint16_t>(added);
}

Result<std::uint16_t> SaRegistry::layout_for(object::Tx& tx,
                                             std::span<const std::uint16_t> attributes) {
  const auto find = [&](const SaTables& among) -> std::optional<std::uint16_t> {
    for (std::size_t i = 1; i < among.layouts.size(); ++i) {
      if (std::ranges::equal(among.layouts[i], attributes)) {
        return static_cast<std::uint16_t>(i);
      }
    }
    return std::nullopt;
  };
  if (const auto known = find(*tables())) {
    return *known;
  }
  const LockGuard lock(write_mutex_);
  ZUSE_TRY_VOID(create_registry_locked(tx));
  SaTables changed = *tables();
  if (const auto known = find(changed)) {
    return *known;
  }
  const std::size_t added = changed.layouts.size();
  if (added >= kSaLayoutsMax) {
    return fail(Errc::too_large, "this file system has used up its 1024 attribute layouts");
  }
  ZUSE_TRY(object::Zap layouts, object::Zap::open(*objset_, layouts_));
  object::ZapValue value{2, {}};
  value.integers.assign(attributes.begin(), attributes.end());
  ZUSE_TRY_VOID(layouts.add_value(tx, std::to_string(added), value));
  changed.layouts.emplace_back(attributes.begin(), attributes.end());
  publish(std::move(changed));
  return static_cast<std::uint16_t>(added);
}

}  // namespace zuse::posix
