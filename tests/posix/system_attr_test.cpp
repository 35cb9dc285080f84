// The worked examples of the format page, byte for byte, and the rules of placement.
#include "fs/posix/system_attr.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <random>

#include "fs/object/zap.h"
#include "fs/posix/acl.h"
#include "fs/posix/format.h"
#include "fs/posix/znode.h"
#include "tests/posix/mounted_fs.h"
#include "tests/support/seed.h"
#include "vdev/base/on_disk.h"

namespace zuse::posix {
namespace {

using test::must;

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  std::string digits;
  for (const char c : hex) {
    if (std::isxdigit(static_cast<unsigned char>(c)) != 0) {
      digits.push_back(c);
    }
  }
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// format page 08 section 5.8 (a): a regular file of layout 2, little-endian.
constexpr std::string_view kRegularFile = R"(
5a502f00 02041800 a4810000 00000000
d2040000 00000000 4d000000 00000000
e8030000 00000000 e8030000 00000000
22000000 00000000 04000000 08840000
00f15365 00000000 05000000 00000000
00f15365 00000000 05000000 00000000
00f15365 00000000 05000000 00000000
00f15365 00000000 05000000 00000000
01000000 00000000 00000000 00000000
03000000 00000000 00000010 9f011e00
00004020 89001200 00000040 89001200)";
const std::vector<std::uint16_t> kFileLayout{5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19};

SaTables tables_with(std::vector<std::vector<std::uint16_t>> stored) {
  SaTables tables = *SaRegistry::legacy()->tables();
  for (auto& layout : stored) {
    tables.layouts.push_back(std::move(layout));
  }
  return tables;
}

std::uint64_t word(const AttributeSet& set, std::uint16_t attribute) {
  const auto value = set.find(attribute);
  return value && value->size() >= 8 ? load_at<std::uint64_t>(*value, 0, kHostOrder)
                                     : ~std::uint64_t{0};
}

ZnodeFields example_fields() {
  ZnodeFields fields;
  fields.mode = S_IFREG | 0644;
  fields.size = 1234;
  fields.gen = 77;
  fields.uid = fields.gid = 1000;
  fields.parent = 34;
  fields.flags = 0x840800000004;
  fields.links = 1;
  fields.atime = fields.mtime = fields.ctime = fields.crtime = {1700000000, 5};
  fields.project = 0;
  return fields;
}

TEST(SystemAttributes, AFileOfTheFormatPageIsReadAsItSays) {
  const auto set = AttributeSet::decode(tables_with({kFileLayout}), from_hex(kRegularFile), {});
  ASSERT_TRUE(set.has_value()) << set.error().what();
  EXPECT_EQ(word(*set, 5), 0100644U);
  EXPECT_EQ(word(*set, 6), 1234U);
  EXPECT_EQ(word(*set, 4), 77U);
  EXPECT_EQ(word(*set, 12), 1000U);
  EXPECT_EQ(word(*set, 7), 34U);
  EXPECT_EQ(word(*set, 11), 0x840800000004U);
  EXPECT_EQ(word(*set, 1), 1700000000U);
  EXPECT_EQ(word(*set, 16), 3U);
  EXPECT_EQ(set->find(19)->size(), 24U);
  EXPECT_FALSE(set->find(17).has_value());
}

TEST(SystemAttributes, AFileOfTheOtherByteOrderHasTheSameValues) {
  std::vector<std::byte> foreign = from_hex(kRegularFile);
  const std::span<std::byte> all(foreign);
  swap_value(all.first(4), SwapKind::words32);
  swap_value(all.subspan(4, 4), SwapKind::words16);
  swap_value(all.subspan(8, 144), SwapKind::words64);
  for (std::size_t at = 152; at < all.size(); at += 8) {  // entries of 16, 16 and 32 bits
    swap_value(all.subspan(at, 4), SwapKind::words16);
    swap_value(all.subspan(at + 4, 4), SwapKind::words32);
  }
  ASSERT_NE(foreign, from_hex(kRegularFile));
  const auto set = AttributeSet::decode(tables_with({kFileLayout}), foreign, {});
  ASSERT_TRUE(set.has_value()) << set.error().what();
  EXPECT_EQ(word(*set, 5), 0100644U);
  EXPECT_EQ(word(*set, 21), 0U);
  const auto aces = set->find(19);
  const auto native = AttributeSet::decode(tables_with({kFileLayout}), from_hex(kRegularFile), {});
  EXPECT_TRUE(std::equal(aces->begin(), aces->end(), native->find(19)->begin()));
}

TEST(SystemAttributes, ASpillBlockOfTheFormatPageIsRead) {
  std::vector<std::byte> spill = from_hex("5a502f00 0304dc05 01010000 00000000 00000001");
  spill.resize(1536);
  const auto set =
      AttributeSet::decode(tables_with({kFileLayout, {20}}), from_hex(kRegularFile), spill);
  ASSERT_TRUE(set.has_value()) << set.error().what();
  ASSERT_TRUE(set->find(20).has_value());
  EXPECT_EQ(set->find(20)->size(), 1500U);
  EXPECT_EQ((*set->find(20))[0], std::byte{1});
}

TEST(SystemAttributes, DamagedBuffersAreRefusedAndNeverOverrun) {
  const SaTables tables = tables_with({kFileLayout});
  const std::vector<std::byte> good = from_hex(kRegularFile);
  for (std::size_t length = 1; length < good.size(); ++length) {
    const auto set = AttributeSet::decode(tables, std::span(good).first(length), {});
    EXPECT_FALSE(set.has_value()) << "cut to " << length;
  }
  std::vector<std::byte> wrong = good;
  wrong[0] = std::byte{0xFF};
  EXPECT_FAILS(AttributeSet::decode(tables, wrong, {}), corrupt);
  wrong = good;
  wrong[4] = std::byte{9};  // a layout that nobody has stored
  EXPECT_FAILS(AttributeSet::decode(tables, wrong, {}), corrupt);
  wrong = good;
  wrong[6] = std::byte{0xFF};  // the list of entries runs past the end
  EXPECT_FAILS(AttributeSet::decode(tables, wrong, {}), corrupt);
  wrong = good;
  wrong[5] = std::byte{0};  // no header
  EXPECT_FAILS(AttributeSet::decode(tables, wrong, {}), corrupt);
  std::mt19937_64 random(test::seed());
  SCOPED_TRACE(test::rerun());
  for (int i = 0; i < 20000; ++i) {
    wrong = good;
    for (int flips = 0; flips < 3; ++flips) {
      wrong[random() % wrong.size()] ^= static_cast<std::byte>(1U << (random() % 8));
    }
    (void)AttributeSet::decode(tables, wrong, wrong);
  }
}

TEST(TrivialAcl, IsThatOfTheFormatPage) {
  struct Ace {
    std::uint16_t type, flags;
    std::uint32_t mask;
    bool operator==(const Ace&) const = default;
  };
  const auto list = [](std::uint64_t mode) {
    const TrivialAcl acl = trivial_acl(mode);
    std::vector<Ace> aces;
    for (std::size_t i = 0; i < acl.count; ++i) {
      aces.push_back({load_at<std::uint16_t>(acl.entries, 8 * i, kHostOrder),
                      load_at<std::uint16_t>(acl.entries, 8 * i + 2, kHostOrder),
                      load_at<std::uint32_t>(acl.entries, 8 * i + 4, kHostOrder)});
    }
    return aces;
  };
  EXPECT_EQ(
      list(S_IFREG | 0644),
      (std::vector<Ace>{{0, 0x1000, 0x1E019F}, {0, 0x2040, 0x120089}, {0, 0x4000, 0x120089}}));
  EXPECT_EQ(
      list(S_IFDIR | 0755),
      (std::vector<Ace>{{0, 0x1000, 0x1E01FF}, {0, 0x2040, 0x1200A9}, {0, 0x4000, 0x1200A9}}));
  EXPECT_EQ(
      list(S_IFREG | 0600),
      (std::vector<Ace>{{0, 0x1000, 0x1E019F}, {0, 0x2040, 0x120088}, {0, 0x4000, 0x120088}}));
  EXPECT_EQ(
      list(S_IFREG | 0400),
      (std::vector<Ace>{{0, 0x1000, 0x1E0199}, {0, 0x2040, 0x120088}, {0, 0x4000, 0x120088}}));
}

TEST(TrivialAcl, GrantsEachClassExactlyItsBits) {
  // Reading the list by the rule of format page 08 section 7.2 ("first match wins").
  for (std::uint64_t mode = 0; mode < 01000; ++mode) {
    const TrivialAcl acl = trivial_acl(S_IFREG | mode);
    const std::array<std::uint16_t, 3> who{0x1000, 0x2040, 0x4000};
    std::uint64_t granted = 0;
    for (unsigned klass = 0; klass < 3; ++klass) {
      for (unsigned bit = 0; bit < 3; ++bit) {
        const std::uint32_t mask = bit == 2 ? 0x1 : bit == 1 ? 0x2 : 0x20;
        for (std::size_t i = 0; i < acl.count; ++i) {
          const auto type = load_at<std::uint16_t>(acl.entries, 8 * i, kHostOrder);
          const auto flags = load_at<std::uint16_t>(acl.entries, 8 * i + 2, kHostOrder);
          const auto entry_mask = load_at<std::uint32_t>(acl.entries, 8 * i + 4, kHostOrder);
          if ((flags == who[klass] || flags == 0x4000) && (entry_mask & mask) != 0) {
            granted |= type == 0 ? std::uint64_t{1} << (3 * (2 - klass) + bit) : 0;
            break;
          }
        }
      }
    }
    EXPECT_EQ(granted, mode) << std::oct << mode;
  }
}

// Encoding needs a registry, which lives in an object set.
class RegistryTest : public test::MountedTest {
 protected:
  void SetUp() override {
    make();
    const object::Zap master = must(object::Zap::open(dataset->objset(), kMasterNode));
    registry = must(SaRegistry::open(dataset->objset(), must(master.lookup("SA_ATTRS"))));
  }
  object::Tx tx() { return must(dataset->begin(0, false)); }
  std::unique_ptr<SaRegistry> registry;
};

TEST_F(RegistryTest, ANewFileSystemRegistersEveryAttributeUnderItsUsualNumber) {
  for (std::size_t i = 0; i + 1 < kAttrCount; ++i) {
    EXPECT_EQ(registry->number(static_cast<Attr>(i)), i);
  }
  EXPECT_FALSE(registry->number(Attr::seq).has_value());
  const object::Zap master = must(object::Zap::open(dataset->objset(), kMasterNode));
  const object::Zap sa =
      must(object::Zap::open(dataset->objset(), must(master.lookup("SA_ATTRS"))));
  const object::Zap stored =
      must(object::Zap::open(dataset->objset(), must(sa.lookup("REGISTRY"))));
  EXPECT_EQ(must(stored.count()), kAttrCount - 1);
  EXPECT_EQ(must(stored.lookup("ZPL_ATIME")), (std::uint64_t{16} << 24U));
  EXPECT_EQ(must(stored.lookup("ZPL_DACL_ACES")), (std::uint64_t{4} << 16U) | 19U);
  EXPECT_EQ(must(stored.lookup("ZPL_SCANSTAMP")),
            (std::uint64_t{32} << 24U) | (std::uint64_t{3} << 16U) | 18U);
  const object::Zap layouts =
      must(object::Zap::open(dataset->objset(), must(sa.lookup("LAYOUTS"))));
  const object::ZapValue layout = must(layouts.lookup_value("2"));
  EXPECT_EQ(layout.integer_size, 2U);
  EXPECT_EQ(layout.integers,
            (std::vector<std::uint64_t>{5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19}));
}

TEST_F(RegistryTest, ALaterAttributeGetsTheNextNumberAndSurvives) {
  {
    object::Tx open = tx();
    EXPECT_EQ(must(registry->number(open, Attr::seq)), kAttrCount - 1);
    EXPECT_EQ(must(registry->layout_for(open, std::array<std::uint16_t, 2>{20, 22})), 3U);
    EXPECT_EQ(must(registry->layout_for(open, std::array<std::uint16_t, 2>{22, 20})), 4U);
    EXPECT_EQ(must(registry->layout_for(open, std::array<std::uint16_t, 2>{20, 22})), 3U);
  }
  registry.reset();
  remount();
  const object::Zap master = must(object::Zap::open(dataset->objset(), kMasterNode));
  registry = must(SaRegistry::open(dataset->objset(), must(master.lookup("SA_ATTRS"))));
  EXPECT_EQ(registry->number(Attr::seq), kAttrCount - 1);
  object::Tx open = tx();
  EXPECT_EQ(must(registry->layout_for(open, std::array<std::uint16_t, 2>{22, 20})), 4U);
}

TEST_F(RegistryTest, AFileIsWrittenAsTheFormatPageShows) {
  object::Tx open = tx();
  object::NewObject spec;
  spec.type = format::ObjectType::plain_file;
  spec.bonus_type = format::ObjectType::sa;
  const object::DnodeRef dnode = must(dataset->objset().allocate(open, spec));
  ASSERT_TRUE(Znode::create(*registry, open, dnode, example_fields(), {}).has_value());
  std::vector<std::byte> expected = from_hex(kRegularFile);
  // Here the sequence with PROJID is the second layout stored, so its number is 3.
  expected[4] = std::byte{3};
  EXPECT_EQ(dnode->bonus(), expected);
}

TEST_F(RegistryTest, ASymbolicLinkIsWrittenAsTheFormatPageShows) {
  object::Tx open = tx();
  object::NewObject spec;
  spec.type = format::ObjectType::plain_file;
  spec.bonus_type = format::ObjectType::sa;
  const object::DnodeRef dnode = must(dataset->objset().allocate(open, spec));
  ZnodeFields fields = example_fields();
  fields.mode = S_IFLNK | 0777;
  fields.size = 11;
  ASSERT_TRUE(Znode::create(*registry, open, dnode, fields, "target/file").has_value());
  const std::vector<std::byte> bonus = dnode->bonus();
  ASSERT_EQ(bonus.size(), 195U);
  const std::vector<std::byte> head(bonus.begin(), bonus.begin() + 16);
  EXPECT_EQ(head, from_hex("5a502f00 03081800 0b000000 00000000"));
  EXPECT_EQ(test::text_of(std::span(bonus).subspan(184)), "target/file");
}

TEST_F(RegistryTest, WhatDoesNotFitTheBonusSpillsByTheRule) {
  std::mt19937_64 random(test::seed());
  SCOPED_TRACE(test::rerun());
  for (int round = 0; round < 300; ++round) {
    object::Tx open = tx();
    object::NewObject spec;
    spec.type = format::ObjectType::plain_file;
    spec.bonus_type = format::ObjectType::sa;
    const object::DnodeRef dnode = must(dataset->objset().allocate(open, spec));
    const ZnodeRef znode = must(Znode::create(*registry, open, dnode, example_fields(), {}));
    AttributeSet set = must(AttributeSet::decode(*registry->tables(), dnode->bonus(), {}));
    std::vector<std::byte> xattrs(random() % 3 == 0 ? random() % 60000 : random() % 400);
    std::vector<std::byte> link(random() % 200 + 1);
    for (auto* const value : {&xattrs, &link}) {
      for (std::byte& byte : *value) {
        byte = static_cast<std::byte>(random());
      }
    }
    set.put(20, xattrs);
    ASSERT_OK(set.store(*registry, open, *dnode));
    set.put(17, link);
    if (random() % 2 == 0) {
      xattrs.resize(random() % 300);
      set.put(20, xattrs);
    }
    ASSERT_OK(set.store(*registry, open, *dnode));
    const SharedBuffer spill = must(dnode->spill());
    const std::vector<std::byte> bonus = dnode->bonus();
    const AttributeSet back = must(AttributeSet::decode(
        *registry->tables(), bonus, spill ? spill->span() : std::span<const std::byte>{}));
    EXPECT_TRUE(std::ranges::equal(*back.find(20), xattrs));
    EXPECT_TRUE(std::ranges::equal(*back.find(17), link));
    EXPECT_EQ(word(back, 5), 0100644U);
    // The fixed beginning lies where accounting looks for it.
    const std::size_t header = 8 * (load_at<std::uint16_t>(bonus, 4, kHostOrder) >> 10U);
    EXPECT_EQ(load_at<std::uint64_t>(bonus, header + 24, kHostOrder), 1000U);
    const std::size_t all = sa_header_size(3) + back.total_bytes();
    EXPECT_EQ(spill == nullptr, all <= 320) << all;
    if (spill) {
      EXPECT_EQ(bonus.size(), 192U);
      EXPECT_EQ(spill->size() % 512, 0U);
    }
  }
}

}  // namespace
}  // namespace zuse::posix
