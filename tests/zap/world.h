// An object set over memory for ZAP tests: transactions, syncs, re-opening.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "fs/object/objset.h"
#include "fs/object/zap.h"
#include "tests/object/owner.h"
#include "tests/support/memory_store.h"

namespace zuse::test {

class World {
 public:
  World() : objset_(object::Objset::create(context(), format::ObjsetType::zfs, txg_)) {}

  object::Objset& objset() { return *objset_; }
  MemoryStore& store() { return store_; }
  object::Tx tx() const { return object::Tx::syncing(txg_); }

  void sync() {
    const auto root = objset_->sync(txg_, 1);
    ASSERT_TRUE(root) << root.error().what();
    ++txg_;
  }
  // As after a restart: nothing remembered, nothing cached.
  void reopen() {
    sync();
    const auto root = objset_->root();
    objset_.reset();
    store_.drop_cache();
    auto opened = object::Objset::open(context(), root);
    ASSERT_TRUE(opened) << opened.error().what();
    objset_ = *std::move(opened);
  }
  object::Zap make(std::uint64_t normalization = 0,
                   format::ObjectType type = format::ObjectType::directory) {
    object::NewObject spec;
    spec.type = type;
    auto now = tx();
    auto zap = object::Zap::create(*objset_, now, spec, normalization);
    EXPECT_TRUE(zap) << zap.error().what();
    return *std::move(zap);
  }
  object::Zap open(std::uint64_t object) {
    auto zap = object::Zap::open(*objset_, object);
    EXPECT_TRUE(zap) << zap.error().what();
    return *std::move(zap);
  }

 private:
  object::ObjsetContext context() {
    return {.store = store_,
            .owner = owner_,
            .id = 54,
            .name = "tank/test",
            .policy = {},
            .read_only = false,
            .on_dirty = {},
            .owner_of = {}};
  }
  MemoryStore store_;
  CountingOwner owner_{store_};
  std::uint64_t txg_ = pool::kFirstTxg;
  std::unique_ptr<object::Objset> objset_;
};

}  // namespace zuse::test
