// Parsing of vdev specifications.
#include "fs/cli/vdev_spec.h"

#include <array>
#include <boost/filesystem.hpp>
#include <optional>
#include <set>

namespace zuse::cli {
namespace {

struct Group {
  vdev::VdevType type;
  unsigned parity;
};

std::optional<Group> group_word(const std::string& word) {
  if (word == "mirror") {
    return Group{vdev::VdevType::mirror, 0};
  }
  if (word == "raidz" || word == "raidz1") {
    return Group{vdev::VdevType::raidz, 1};
  }
  if (word == "raidz2" || word == "raidz3") {
    return Group{vdev::VdevType::raidz, word == "raidz2" ? 2U : 3U};
  }
  return std::nullopt;
}

bool is_refused_word(const std::string& word) {
  static constexpr std::array<const char*, 5> kWords{"log", "cache", "spare", "special", "dedup"};
  for (const char* const refused : kWords) {
    if (word == refused) {
      return true;
    }
  }
  return word.starts_with("draid") && !boost::filesystem::exists(word);
}

bool is_block_device(const boost::filesystem::path& path) {
  boost::system::error_code error;
  return boost::filesystem::status(path, error).type() == boost::filesystem::block_file;
}

Result<std::string> device_path(const std::string& word) {
  boost::system::error_code error;
  boost::filesystem::path path(word);
  if (!boost::filesystem::exists(path, error) && word.find('/') == std::string::npos) {
    const boost::filesystem::path in_dev = boost::filesystem::path("/dev") / word;
    if (is_block_device(in_dev)) {
      path = in_dev;
    }
  }
  if (!boost::filesystem::exists(path, error)) {
    return fail(Errc::not_found, "cannot open '" + word + "': no such device or image");
  }
  return boost::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

Result<std::vector<dataset::VdevSpec>> parse_vdevs(const std::vector<std::string>& words,
                                                   bool force) {
  std::vector<dataset::VdevSpec> vdevs;
  std::set<std::string> seen;
  bool in_group = false;
  for (const std::string& word : words) {
    if (const auto group = group_word(word)) {
      vdevs.push_back({group->type, group->parity, {}});
      in_group = true;
      continue;
    }
    if (is_refused_word(word)) {
      return fail(Errc::unsupported, "vdevs of type '" + word + "' are not supported");
    }
    ZUSE_TRY(const std::string path, device_path(word));
    if (!seen.insert(path).second) {
      return fail(Errc::invalid, "'" + word + "' is given twice");
    }
    if (in_group) {
      vdevs.back().paths.push_back(path);
    } else {
      const bool disk = is_block_device(path);
      vdevs.push_back({disk ? vdev::VdevType::disk : vdev::VdevType::file, 0, {path}});
    }
  }
  if (vdevs.empty()) {
    return fail(Errc::invalid, "no devices given");
  }
  for (const dataset::VdevSpec& vdev : vdevs) {
    if (vdev.type == vdev::VdevType::mirror && vdev.paths.size() < 2) {
      return fail(Errc::invalid, "a mirror takes at least 2 devices");
    }
    if (vdev.type == vdev::VdevType::raidz && vdev.paths.size() < vdev.parity + 1) {
      return fail(Errc::invalid, "raidz" + std::to_string(vdev.parity) + " takes at least " +
                                     std::to_string(vdev.parity + 1) + " devices");
    }
    const auto redundancy = [](const dataset::VdevSpec& v) {
      return v.type == vdev::VdevType::raidz    ? v.parity
             : v.type == vdev::VdevType::mirror ? static_cast<unsigned>(v.paths.size()) - 1
                                                : 0U;
    };
    if (!force &&
        (redundancy(vdev) != redundancy(vdevs.front()) ||
         (vdev.type == vdev::VdevType::raidz) != (vdevs.front().type == vdev::VdevType::raidz))) {
      return fail(Errc::invalid,
                  "the vdevs differ in redundancy (mismatched replication level); use -f to create "
                  "the pool all the same");
    }
  }
  return vdevs;
}

}  // namespace zuse::cli
