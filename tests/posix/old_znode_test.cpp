// Objects from before system attributes: read as they are, converted when they change.
#include "fs/posix/old_znode.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fs/object/zap.h"
#include "fs/posix/directory.h"
#include "tests/posix/mounted_fs.h"
#include "vdev/base/on_disk.h"

namespace zuse::test {
namespace {

using posix::Attributes;
using posix::Inode;

struct Record {
  std::uint64_t mode = S_IFREG | 0640, size = 0, uid = 7, gid = 8, links = 1, rdev = 0, flags = 4;
  std::string tail;             // behind the record
  std::string data;             // blocks
  std::vector<std::byte> aces;  // embedded, version 1
  std::uint64_t external_acl = 0;
  std::uint16_t acl_version = 1;
};

class OldZnodes : public MountedTest {
 protected:
  void SetUp() override { make(); }

  // Puts an old object into the root directory, behind the file system's back.
  Inode plant(const std::string& name, const Record& record, ByteOrder order) {
    std::vector<std::byte> bonus(264 + record.tail.size());
    const std::span<std::byte> into(bonus);
    const auto put = [&](std::size_t at, std::uint64_t value) {
      store_at<std::uint64_t>(into, at, value, order);
    };
    for (std::size_t i = 0; i < 4; ++i) {
      put(16 * i, 1000 + i);
      put(16 * i + 8, i);
    }
    put(64, 5);
    put(72, record.mode);
    put(80, record.size);
    put(88, root);
    put(96, record.links);
    put(112, record.rdev);
    put(120, record.flags);
    put(128, record.uid);
    put(136, record.gid);
    put(176, record.external_acl);
    store_at<std::uint32_t>(into, 184, static_cast<std::uint32_t>(record.aces.size()), order);
    store_at<std::uint16_t>(into, 188, record.acl_version, order);
    std::copy(record.aces.begin(), record.aces.end(), bonus.begin() + 192);
    const auto tail = bytes_of(record.tail);
    std::copy(tail.begin(), tail.end(), bonus.begin() + 264);
    object::Tx tx = must(dataset->begin(0, false));
    object::NewObject spec;
    spec.type = format::ObjectType::plain_file;
    spec.bonus_type = format::ObjectType::znode;
    spec.bonus_size = static_cast<std::uint16_t>(bonus.size());
    spec.block_size = 4096;
    const object::DnodeRef dnode = must(dataset->objset().allocate(tx, spec));
    EXPECT_OK(dnode->set_bonus(tx, bonus));
    EXPECT_OK(dnode->write(tx, 0, bytes_of(record.data)));
    object::Zap zap(must(dataset->objset().hold(root)));
    EXPECT_OK(zap.add(tx, name, posix::encode_entry(dnode->object(), record.mode)));
    return dnode->object();
  }
  format::ObjectType bonus_type(Inode inode) {
    return must(dataset->objset().hold(inode))->bonus_type();
  }
};

TEST_F(OldZnodes, AreReadInBothByteOrders) {
  Record record;
  record.size = 5;
  record.data = "hello";
  for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
    const Inode inode = plant(order == ByteOrder::little ? "little" : "big", record, order);
    const Attributes attributes = must(fs->attributes(inode));
    EXPECT_EQ(attributes.mode, S_IFREG | 0640U);
    EXPECT_EQ(attributes.size, 5U);
    EXPECT_EQ(attributes.uid, 7U);
    EXPECT_EQ(attributes.gid, 8U);
    EXPECT_EQ(attributes.generation, 5U);
    EXPECT_EQ(attributes.mtime, (posix::Time{1001, 1}));
    EXPECT_EQ(attributes.birth, (posix::Time{1003, 3}));
    EXPECT_EQ(get(inode), "hello");
  }
}

TEST_F(OldZnodes, BecomeSystemAttributesWhenTheyChange) {
  Record record;
  record.size = 5;
  record.data = "hello";
  const Inode inode = plant("f", record, ByteOrder::big);
  EXPECT_EQ(bonus_type(inode), format::ObjectType::znode);
  posix::AttributeChange change;
  change.mode = 0600;
  must(fs->set_attributes(inode, change, kRoot));
  EXPECT_EQ(bonus_type(inode), format::ObjectType::sa);
  EXPECT_OK(fs->set_xattr(inode, "user.a", bytes_of("value"), posix::FileSystem::XattrMode::any));
  remount();
  const Attributes attributes = must(fs->attributes(inode));
  EXPECT_EQ(attributes.mode, S_IFREG | 0600U);
  EXPECT_EQ(attributes.uid, 7U);
  EXPECT_EQ(attributes.birth, (posix::Time{1003, 3}));
  EXPECT_EQ(get(inode), "hello");
  EXPECT_EQ(text_of(must(fs->get_xattr(inode, "user.a"))), "value");
}

TEST_F(OldZnodes, KeepTheirSymbolicLinksAndLists) {
  Record inside;
  inside.mode = S_IFLNK | 0777;
  inside.tail = "near";
  inside.size = 4;
  const Inode near = plant("near", inside, kHostOrder);
  Record outside;
  outside.mode = S_IFLNK | 0777;
  outside.data = std::string(200, 'f');
  outside.size = 200;
  const Inode far = plant("far", outside, kHostOrder);
  EXPECT_EQ(must(fs->read_symlink(near)), "near");
  EXPECT_EQ(must(fs->read_symlink(far)), std::string(200, 'f'));

  // A list in an object of its own, of a named user; it goes over and the object goes away.
  std::uint64_t acl_object = 0;
  std::vector<std::byte> aces(16);
  store_at<std::uint32_t>(aces, 4, 0x1F, kHostOrder);
  store_at<std::uint64_t>(aces, 8, 1000, kHostOrder);
  {
    object::Tx tx = must(dataset->begin(0, false));
    object::NewObject spec;
    spec.type = format::ObjectType::acl;
    const object::DnodeRef acl = must(dataset->objset().allocate(tx, spec));
    acl_object = acl->object();
    EXPECT_OK(acl->write(tx, 0, aces));
  }
  Record listed;
  listed.external_acl = acl_object;
  listed.aces.resize(16);
  const Inode file_with_list = plant("listed", listed, kHostOrder);
  posix::AttributeChange touch;
  touch.mtime = posix::Time{5, 5};
  for (const Inode inode : {near, far, file_with_list}) {
    must(fs->set_attributes(inode, touch, kRoot));
    EXPECT_EQ(bonus_type(inode), format::ObjectType::sa);
  }
  remount();
  EXPECT_EQ(must(fs->read_symlink(near)), "near");
  EXPECT_EQ(must(fs->read_symlink(far)), std::string(200, 'f'));
  EXPECT_FAILS(dataset->objset().hold(acl_object), not_found);
  const std::vector<std::byte> bonus = must(dataset->objset().hold(file_with_list))->bonus();
  ASSERT_GE(bonus.size(), 16U);
  EXPECT_TRUE(std::equal(aces.begin(), aces.end(), bonus.end() - 16));
}

TEST_F(OldZnodes, ThatMakeNoSenseAreRefused) {
  Record record;
  record.mode = 0640;  // no type
  EXPECT_FAILS(fs->attributes(plant("a", record, kHostOrder)), corrupt);
  record.mode = S_IFLNK | 0777;
  record.size = 1 << 20;
  EXPECT_FAILS(fs->attributes(plant("b", record, kHostOrder)), corrupt);
  record.mode = S_IFREG | 0640;
  record.size = ~std::uint64_t{0};
  EXPECT_FAILS(fs->attributes(plant("c", record, kHostOrder)), corrupt);
  EXPECT_FAILS(fs->lookup(root, "c"), corrupt);
}

}  // namespace
}  // namespace zuse::test
