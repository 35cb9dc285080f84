#include "fs/dataset/features.h"

#include "fs/format/feature.h"

namespace zuse::dataset {

Result<Features> Features::load(object::Objset& mos, std::uint64_t read_zap,
                                std::uint64_t write_zap, std::uint64_t descriptions) {
  Features features;
  features.read_zap_ = read_zap;
  features.write_zap_ = write_zap;
  features.descriptions_ = descriptions;
  for (const std::uint64_t object : {read_zap, write_zap}) {
    if (object == 0) {
      continue;
    }
    ZUSE_TRY(const object::Zap zap, object::Zap::open(mos, object));
    ZUSE_TRY_VOID(zap.for_each([&](const object::ZapEntry& entry) -> Result<void> {
      if (entry.value.integers.empty()) {
        return fail(Errc::corrupt, "feature " + entry.name + " has no count");
      }
      features.counts_[entry.name] = entry.value.integers[0];
      features.in_write_zap_[entry.name] = object == write_zap;
      return {};
    }));
  }
  return features;
}

std::uint64_t Features::count(std::string_view guid) const {
  const auto it = counts_.find(guid);
  return it == counts_.end() ? 0 : it->second;
}

std::vector<std::string> Features::label_features() const {
  std::vector<std::string> names;
  for (const auto& [guid, count] : counts_) {
    const format::Feature* const info = format::find_feature(guid);
    if (count != 0 && info != nullptr && info->mos) {
      names.push_back(guid);
    }
  }
  return names;
}

Result<void> Features::check_readable() const {
  for (const auto& [guid, count] : counts_) {
    if (count != 0 && !format::pool_may_read(guid, in_write_zap_.at(guid))) {
      return fail(Errc::unsupported,
                  "the pool uses feature " + guid + ", which this version cannot read");
    }
  }
  return {};
}

Result<void> Features::check_writable() const {
  ZUSE_TRY_VOID(check_readable());
  for (const auto& [guid, count] : counts_) {
    if (count != 0 && !format::pool_may_write(guid)) {
      return fail(Errc::unsupported,
                  "the pool uses feature " + guid +
                      ", which this version cannot write; import it with -o readonly=on");
    }
  }
  return {};
}

std::uint64_t Features::zap_of(std::string_view guid) const {
  const auto it = in_write_zap_.find(guid);
  if (it != in_write_zap_.end()) {
    return it->second ? write_zap_ : read_zap_;
  }
  const format::Feature* const info = format::find_feature(guid);
  ZUSE_CHECK(info != nullptr);
  return info->read_only_compatible ? write_zap_ : read_zap_;
}

Result<void> Features::enable(object::Objset& mos, object::Tx& tx, std::string_view guid) {
  const format::Feature* const info = format::find_feature(guid);
  if (info == nullptr) {
    return fail(Errc::unsupported, "unknown feature " + std::string(guid));
  }
  const std::uint64_t object = zap_of(guid);
  ZUSE_TRY(object::Zap zap, object::Zap::open(mos, object));
  ZUSE_TRY(object::Zap texts, object::Zap::open(mos, descriptions_));
  const std::uint64_t count = info->activate_on_enable ? 1 : 0;
  ZUSE_TRY_VOID(zap.add(tx, guid, count));
  ZUSE_TRY_VOID(texts.add_value(tx, guid, object::ZapValue::string(info->description)));
  counts_[std::string(guid)] = count;
  in_write_zap_[std::string(guid)] = object == write_zap_;
  return {};
}

Result<void> Features::adjust(object::Objset& mos, object::Tx& tx, std::string_view guid,
                              std::int64_t by) {
  const auto it = counts_.find(guid);
  if (it == counts_.end()) {
    return fail(Errc::unsupported, "feature " + std::string(guid) + " is not enabled on this pool");
  }
  if (by < 0 && it->second < static_cast<std::uint64_t>(-by)) {
    return fail(Errc::corrupt,
                "the count of feature " + std::string(guid) + " would fall below zero");
  }
  it->second += static_cast<std::uint64_t>(by);
  ZUSE_TRY(object::Zap zap, object::Zap::open(mos, zap_of(guid)));
  return zap.update(tx, guid, it->second);
}

}  // namespace zuse::dataset
