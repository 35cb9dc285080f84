#include "tests/vdev/rig.h"

#include <gtest/gtest.h>

#include <string_view>

#include "vdev/base/units.h"
#include "vdev/label_area.h"

namespace zuse::vdev::test {

void FlakyDevice::start(IoRequest& request, IoBatch& batch) {
  bool fails = false;
  switch (request.op) {
    case IoOp::read:
      ++reads;
      fails = fails_reads;
      break;
    case IoOp::write:
      ++writes;
      fails = fails_writes;
      break;
    case IoOp::flush:
      ++flushes;
      fails = fails_flushes;
      break;
    case IoOp::discard: break;
  }
  if (is_gone) {
    request.finish(IoStatus::gone);
  } else if (fails) {
    request.finish(IoStatus::io_error);
  } else {
    inner_->start(request, batch);
  }
}

VdevConfig leaf_config(std::size_t leaf) {
  VdevConfig config;
  config.type = VdevType::file;
  config.guid = leaf_guid(leaf);
  config.path = "leaf" + std::to_string(leaf);
  return config;
}

VdevConfig top_config(const Shape& shape, std::uint64_t id, std::size_t first_leaf) {
  VdevConfig top;
  if (shape.type == VdevType::file) {
    top = leaf_config(first_leaf);
  } else {
    top.type = shape.type;
    top.guid = 1000 + id;
    top.parity = shape.parity;
    for (std::size_t i = 0; i < shape.children; ++i) {
      top.children.push_back(leaf_config(first_leaf + i));
      top.children.back().id = i;
    }
  }
  top.id = id;
  top.ashift = shape.ashift;
  const std::uint64_t one = allocatable_size(kLeafSize);
  top.asize =
      shape.type == VdevType::raidz ? round_down(one * shape.children, kLabelAreaUnit) : one;
  return top;
}

VdevConfig root_config(std::vector<VdevConfig> tops) {
  VdevConfig root;
  root.type = VdevType::root;
  root.guid = 1;
  root.children = std::move(tops);
  return root;
}

Rig::Rig(VdevConfig root, bool read_only) : root_(std::move(root)), read_only_(read_only) {
  reopen();
}

VdevTree::LeafOpener Rig::opener() {
  return [this](const VdevConfig& config) -> Result<std::unique_ptr<BlockDevice>> {
    const std::size_t index = config.guid - leaf_guid(0);
    if (leaves_.size() <= index) {
      leaves_.resize(index + 1);
    }
    MemoryImage image = index < images_.size() ? images_[index] : MemoryImage(kLeafSize);
    auto device = std::make_unique<FlakyDevice>(
        std::make_unique<MemoryDevice>(std::move(image), config.path));
    leaves_[index] = device.get();
    return device;
  };
}

void Rig::reopen() {
  images_ = images();
  leaves_.clear();
  if (tree_ != nullptr) {
    root_ = tree_->config();
  }
  auto tree = VdevTree::open(root_, opener(), read_only_);
  ASSERT_TRUE(tree) << tree.error().what();
  tree_ = *std::move(tree);
}

void Rig::corrupt(std::size_t leaf, std::uint64_t offset, std::uint64_t size) {
  MemoryImage image = this->leaf(leaf).memory().image();
  std::vector<std::byte> bytes(size);
  image.read(kDataStart + offset, bytes);
  for (std::size_t i = 0; i < size; i += 64) {
    bytes[i] ^= std::byte{0x5a};
  }
  image.write(kDataStart + offset, bytes);
  this->leaf(leaf).memory().set_image(std::move(image));
}

std::vector<MemoryImage> Rig::images() {
  std::vector<MemoryImage> images;
  for (FlakyDevice* const leaf : leaves_) {
    images.push_back(leaf == nullptr ? MemoryImage(kLeafSize) : leaf->memory().image());
  }
  return images;
}

VdevStatus Rig::leaf_status(std::size_t leaf) {
  const auto find = [&](const auto& self, const VdevStatus& status) -> const VdevStatus* {
    if (status.guid == leaf_guid(leaf)) {
      return &status;
    }
    for (const VdevStatus& child : status.children) {
      if (const VdevStatus* const found = self(self, child)) {
        return found;
      }
    }
    return nullptr;
  };
  const VdevStatus all = tree_->status();
  const VdevStatus* const found = find(find, all);
  EXPECT_NE(found, nullptr) << "leaf " << leaf;
  return found == nullptr ? VdevStatus{} : *found;
}

Dtl Rig::dtl(std::size_t leaf) {
  for (const VdevTree::LeafDtl& log : tree_->dtls(false)) {
    if (log.guid == leaf_guid(leaf)) {
      return log.missing;
    }
  }
  return {};
}

Block::Block(std::uint64_t at, std::size_t size, std::mt19937_64& rng, std::uint64_t born)
    : offset(at), bytes(size), txg(born) {
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(rng());
  }
}

Verifier Block::verifier() const {
  const auto hash = [](std::span<const std::byte> of) {
    return std::hash<std::string_view>{}({reinterpret_cast<const char*>(of.data()), of.size()});
  };
  return [want = hash(bytes), hash](std::span<const std::byte> got) { return hash(got) == want; };
}

Result<void> write(VdevTree& tree, const Block& block) {
  BlockWrite request;
  request.top = block.top;
  request.offset = block.offset;
  request.data = block.bytes;
  request.txg = block.txg;
  tree.write({&request, 1});
  return request.result;
}

Outcome read(VdevTree& tree, const Block& block, ReadMode mode, bool repair) {
  std::vector<std::byte> bytes(block.bytes.size(), std::byte{0xa5});
  BlockRead request;
  request.top = block.top;
  request.offset = block.offset;
  request.data = bytes;
  request.verify = block.verifier();
  request.birth_txg = block.txg;
  request.mode = mode;
  request.repair = repair;
  tree.read({&request, 1});
  return {request.result, bytes == block.bytes, request.bytes_repaired, request.errors_seen};
}

}  // namespace zuse::vdev::test
