// The picture in the README stays true: every #include of our own headers points to the file's own
// layer or to one below it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace zuse {
namespace {

// What each layer may use beside itself, from the lowest up.
const std::map<std::string, std::set<std::string>>& allowed() {
  static const auto* const layers = [] {
    auto* const map = new std::map<std::string, std::set<std::string>>{
        {"raid", {}},
        {"vdev/base", {}},
        {"vdev", {"raid", "vdev/base"}},
        {"zinject", {"vdev", "vdev/base"}},
        {"fs/format", {"vdev/base"}},
        {"fs/codec", {"fs/format", "vdev/base"}},
    };
    std::set<std::string> below{"raid", "vdev", "vdev/base", "zinject", "fs/format", "fs/codec"};
    for (const char* layer :
         {"fs/pool", "fs/object", "fs/dataset", "fs/posix", "fs/fuse", "fs/control", "fs/cli"}) {
      (*map)[layer] = below;
      below.insert(layer);
    }
    return map;
  }();
  return *layers;
}

// The layer that a path from the project's root belongs to; empty: none of ours.
std::string layer_of(const std::string& path) {
  std::string best;
  for (const auto& [layer, below] : allowed()) {
    if (path.starts_with(layer + "/") && layer.size() > best.size()) {
      best = layer;
    }
  }
  return best;
}

TEST(Layers, EveryIncludePointsToTheSameLayerOrBelow) {
  const std::filesystem::path root = ZUSE_SOURCE_DIR;
  unsigned includes = 0;
  for (const char* top : {"raid", "vdev", "zinject", "fs"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") {
        continue;
      }
      const std::string name = std::filesystem::relative(entry.path(), root);
      const std::string layer = layer_of(name);
      ASSERT_FALSE(layer.empty()) << name << " is in no layer";
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("#include \"")) {
          continue;
        }
        const std::string target = line.substr(10, line.rfind('"') - 10);
        const std::string used = layer_of(target);
        ++includes;
        EXPECT_TRUE(used == layer || allowed().at(layer).contains(used))
            << name << " (" << layer << ") includes " << target;
      }
    }
  }
  EXPECT_GT(includes, 300U);
}

}  // namespace
}  // namespace zuse
