// What the tests of object sets share: a store, an owner, and object sets over them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "fs/object/objset.h"
#include "tests/object/owner.h"
#include "tests/object/walk.h"
#include "tests/support/memory_store.h"
#include "tests/support/seed.h"

namespace zuse::test {

#define ASSERT_OK(expression)                                              \
  do {                                                                     \
    const auto& answer_ = (expression);                                    \
    ASSERT_TRUE(answer_.has_value())                                       \
        << #expression << ": " << (answer_ ? "" : answer_.error().what()); \
  } while (false)

inline std::vector<std::byte> pattern(std::mt19937_64& rng, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(rng() | 1U);  // never zero
  }
  return bytes;
}

inline format::DnodePhys phys_of(const Walked& walked, std::uint64_t object) {
  const auto it = walked.dnodes.find(object);
  return it == walked.dnodes.end() ? format::DnodePhys{} : it->second;
}

class ObjsetTest : public testing::Test {
 protected:
  explicit ObjsetTest(MemoryStore::Options options = {}) : store_(options), owner_(store_) {
    policy_.hole_birth = options.hole_birth;
  }

  object::ObjsetContext context(bool read_only = false) {
    return {.store = store_,
            .owner = owner_,
            .id = id_,
            .name = "tank/test",
            .policy = policy_,
            .read_only = read_only,
            .on_dirty = {},
            .owner_of = owner_of_};
  }
  std::unique_ptr<object::Objset> create(format::ObjsetType type = format::ObjsetType::zfs) {
    return object::Objset::create(context(), type, 4);
  }
  // The object set as it is on disk, and the check that every number in it is right and that
  // nothing is lost or referenced twice.
  Walked check(const format::Blkptr& root) {
    Walked walked = walk(store_, root);
    EXPECT_THAT(walked.problems, testing::IsEmpty());
    EXPECT_THAT(owner_.problems(), testing::IsEmpty());
    EXPECT_THAT(store_.problems(), testing::IsEmpty());
    EXPECT_EQ(walked.addresses, store_.live());
    return walked;
  }
  Walked sync(object::Objset& objset, std::uint64_t txg, unsigned pass = 1) {
    auto root = objset.sync(txg, pass);
    if (!root) {
      ADD_FAILURE() << root.error().what();
      return {};
    }
    return check(*root);
  }

  const std::uint64_t seed_ = seed();
  std::mt19937_64 rng_{seed_};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, rerun()};
  MemoryStore store_;
  CountingOwner owner_;
  object::ObjsetPolicy policy_;
  object::OwnerOf owner_of_;
  std::uint64_t id_ = 54;
};

inline constexpr object::NewObject kFile{.type = format::ObjectType::plain_file,
                                         .block_size = 4096,
                                         .bonus_type = format::ObjectType::sa,
                                         .bonus_size = 0,
                                         .slots = 1,
                                         .object = 0,
                                         .indirect_shift = 12,
                                         .compression = 0};

}  // namespace zuse::test
