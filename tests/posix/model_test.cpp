// A file system against a model of it: random operations on both, with syncs, remounts and crashes
// between; every answer and, from time to time, every byte must be the same.
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <stdio.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "tests/posix/mounted_fs.h"
#include "tests/support/seed.h"

namespace zuse::test {
namespace {

using posix::Attributes;
using posix::Inode;

struct Node {
  Inode inode = 0;
  std::uint32_t mode = 0, uid = 0, gid = 0;
  std::uint64_t links = 0;
  std::string data;  // or a symbolic link's target
  std::map<std::string, std::string> xattrs;
  std::map<std::string, std::shared_ptr<Node>> children;
  bool is_directory() const { return S_ISDIR(mode); }
  bool is_regular() const { return S_ISREG(mode); }
};
using NodeRef = std::shared_ptr<Node>;

NodeRef clone(const NodeRef& from, std::map<const Node*, NodeRef>& done) {
  NodeRef& copy = done[from.get()];
  if (copy == nullptr) {
    copy = std::make_shared<Node>(*from);
    copy->children.clear();
    const NodeRef made = copy;
    for (const auto& [name, child] : from->children) {
      made->children[name] = clone(child, done);
    }
    return made;
  }
  return copy;
}
NodeRef clone(const NodeRef& from) {
  std::map<const Node*, NodeRef> done;
  return clone(from, done);
}

class Model : public MountedTest {
 protected:
  std::mt19937_64 random_{seed()};
  NodeRef top_ = std::make_shared<Node>();
  NodeRef synced_;

  std::uint64_t pick(std::uint64_t bound) { return random_() % bound; }

  void start(MemoryDatasetOptions options) {
    make(std::move(options));
    top_->inode = root;
    top_->mode = S_IFDIR | 0755;
    top_->links = 2;
    top_->uid = must(fs->attributes(root)).uid;
    top_->gid = must(fs->attributes(root)).gid;
    synced_ = clone(top_);
  }

  void gather(const NodeRef& at, std::vector<NodeRef>& all) {
    all.push_back(at);
    for (const auto& [name, child] : at->children) {
      if (child->is_directory() || std::find(all.begin(), all.end(), child) == all.end()) {
        gather(child, all);
      }
    }
  }
  NodeRef some(const std::function<bool(const Node&)>& wanted) {
    std::vector<NodeRef> all, fit;
    gather(top_, all);
    std::copy_if(all.begin(), all.end(), std::back_inserter(fit),
                 [&](const NodeRef& node) { return wanted(*node); });
    return fit.empty() ? nullptr : fit[pick(fit.size())];
  }
  NodeRef some_directory() {
    return some([](const Node& node) { return node.is_directory(); });
  }
  NodeRef some_file() {
    return some([](const Node& node) { return node.is_regular(); });
  }
  std::string some_name() {
    std::string name = "n" + std::to_string(pick(12));
    return pick(10) == 0 ? name + std::string(pick(200), 'l') : name;
  }
  std::string some_text(std::size_t length) {
    std::string text(length, '\0');
    const auto first = static_cast<char>('a' + pick(26));
    for (std::size_t i = 0; i < length; ++i) {
      text[i] = static_cast<char>(first + static_cast<char>(i % 7));
    }
    return text;
  }
  static bool below(const NodeRef& at, const NodeRef& wanted) {
    if (at == wanted) {
      return true;
    }
    return std::any_of(at->children.begin(), at->children.end(), [&](const auto& child) {
      return child.second->is_directory() && below(child.second, wanted);
    });
  }

  template <class T>
  void expect(const Result<T>& got, std::optional<Errc> wanted, const char* what) {
    if (wanted) {
      ASSERT_FALSE(got.has_value()) << what << " should have failed with " << to_string(*wanted);
      ASSERT_EQ(got.error().code(), *wanted) << what << ": " << got.error().what();
    } else {
      ASSERT_TRUE(got.has_value()) << what << ": " << got.error().what();
    }
  }

  void create() {
    const NodeRef parent = some_directory();
    const std::string name = some_name();
    const bool taken = parent->children.contains(name);
    const auto wanted = taken ? std::optional(Errc::exists) : std::nullopt;
    const posix::Caller caller{static_cast<std::uint32_t>(pick(3)),
                               static_cast<std::uint32_t>(pick(3)), 0};
    auto node = std::make_shared<Node>();
    node->uid = caller.uid;
    node->gid = caller.gid;
    node->links = 1;
    Result<Attributes> got = fail(Errc::invalid);
    switch (pick(4)) {
      case 0:
        node->mode = S_IFDIR | static_cast<std::uint32_t>(pick(01000));
        node->links = 2;
        got = fs->make_directory(parent->inode, name, node->mode & 0777U, caller);
        break;
      case 1:
        node->mode = S_IFLNK | 0777U;
        node->data = some_text(pick(300) + 1);
        got = fs->make_symlink(parent->inode, name, node->data, caller);
        break;
      default:
        node->mode = S_IFREG | static_cast<std::uint32_t>(pick(01000));
        got = fs->create(parent->inode, name, node->mode, 0, 0, caller);
    }
    ASSERT_NO_FATAL_FAILURE(expect(got, wanted, "create"));
    if (!taken) {
      node->inode = got->inode;
      parent->children[name] = node;
      parent->links += node->is_directory() ? 1 : 0;
      fs->forget(got->inode, 1);
    }
  }

  void link() {
    const NodeRef parent = some_directory();
    const NodeRef node = some([](const Node&) { return true; });
    const std::string name = some_name();
    std::optional<Errc> wanted;
    if (node->is_directory()) {
      wanted = Errc::not_permitted;
    } else if (parent->children.contains(name)) {
      wanted = Errc::exists;
    }
    const auto got = fs->link(node->inode, parent->inode, name);
    ASSERT_NO_FATAL_FAILURE(expect(got, wanted, "link"));
    if (!wanted) {
      parent->children[name] = node;
      ++node->links;
      fs->forget(got->inode, 1);
    }
  }

  void remove() {
    const NodeRef parent = some_directory();
    const std::string name = some_name();
    const auto found = parent->children.find(name);
    std::optional<Errc> wanted;
    const bool as_directory = pick(3) == 0;
    if (found == parent->children.end()) {
      wanted = Errc::not_found;
    } else if (found->second->is_directory() != as_directory) {
      wanted = as_directory ? Errc::not_directory : Errc::is_directory;
    } else if (as_directory && !found->second->children.empty()) {
      wanted = Errc::not_empty;
    }
    const auto got = as_directory ? fs->remove_directory(parent->inode, name, kRoot)
                                  : fs->unlink(parent->inode, name, kRoot);
    ASSERT_NO_FATAL_FAILURE(expect(got, wanted, "remove"));
    if (!wanted) {
      drop(parent, name);
    }
  }
  static void drop(const NodeRef& parent, const std::string& name) {
    const NodeRef node = parent->children.at(name);
    parent->children.erase(name);
    parent->links -= node->is_directory() ? 1 : 0;
    --node->links;
  }

  void rename() {
    const NodeRef from = some_directory(), to = some_directory();
    const std::string old_name = some_name(), new_name = some_name();
    const unsigned flags = pick(3) == 0 ? RENAME_NOREPLACE : pick(3) == 0 ? RENAME_EXCHANGE : 0;
    const auto source = from->children.find(old_name);
    const auto target = to->children.find(new_name);
    const bool has_target = target != to->children.end();
    std::optional<Errc> wanted;
    bool nothing = false;
    if (source == from->children.end() || (flags == RENAME_EXCHANGE && !has_target)) {
      wanted = Errc::not_found;
    } else if (has_target && flags == RENAME_NOREPLACE) {
      wanted = Errc::exists;
    } else if (has_target && target->second == source->second) {
      nothing = true;
    } else {
      const bool directory = source->second->is_directory();
      const bool over_directory = has_target && target->second->is_directory();
      if (has_target && flags == 0 && directory != over_directory) {
        wanted = directory ? Errc::not_directory : Errc::is_directory;
      } else if (from != to &&
                 ((directory && below(source->second, to)) ||
                  (flags == RENAME_EXCHANGE && over_directory && below(target->second, from)))) {
        wanted = Errc::invalid;
      } else if (over_directory && flags == 0 && !target->second->children.empty()) {
        wanted = Errc::not_empty;
      }
    }
    const auto got = fs->rename(from->inode, old_name, to->inode, new_name, flags, kRoot);
    ASSERT_NO_FATAL_FAILURE(expect(got, wanted, "rename"));
    if (wanted || nothing) {
      return;
    }
    const NodeRef node = source->second;
    if (flags == RENAME_EXCHANGE) {
      const NodeRef other = target->second;
      from->children[old_name] = other;
      to->children[new_name] = node;
      const std::uint64_t a = node->is_directory() ? 1 : 0, b = other->is_directory() ? 1 : 0;
      from->links += b - a;
      to->links += a - b;
      return;
    }
    if (has_target) {
      drop(to, new_name);
    }
    from->children.erase(old_name);
    to->children[new_name] = node;
    from->links -= node->is_directory() ? 1 : 0;
    to->links += node->is_directory() ? 1 : 0;
  }

  void write() {
    const NodeRef node = some_file();
    if (node == nullptr) {
      return;
    }
    const std::size_t near = node->data.size();
    const std::size_t offset =
        pick(3) == 0 ? near : pick(near + (pick(10) == 0 ? 400000 : 2000) + 1);
    const std::string text = some_text(pick(20) == 0 ? pick(1500000) + 1 : pick(5000) + 1);
    ASSERT_OK(fs->write(node->inode, offset, bytes_of(text), kRoot));
    node->data.resize(std::max(node->data.size(), offset + text.size()));
    node->data.replace(offset, text.size(), text);
  }
  void resize() {
    const NodeRef node = some_file();
    if (node == nullptr) {
      return;
    }
    const std::size_t to = pick(node->data.size() + (pick(5) == 0 ? 500000 : 1000) + 1);
    posix::AttributeChange change;
    change.size = to;
    ASSERT_OK(fs->set_attributes(node->inode, change, kRoot));
    node->data.resize(to);
  }
  void punch() {
    const NodeRef node = some_file();
    if (node == nullptr) {
      return;
    }
    const std::size_t size = node->data.size();
    const std::size_t offset = pick(size + 1000), length = pick(size + 1000) + 1;
    const bool zero = pick(2) == 0, keep = !zero || pick(2) == 0;
    const int mode =
        (zero ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE) | (keep ? FALLOC_FL_KEEP_SIZE : 0);
    ASSERT_OK(fs->allocate(node->inode, mode, offset, length, kRoot));
    if (!keep) {
      node->data.resize(std::max(size, offset + length));
    }
    const std::size_t end = std::min(offset + length, node->data.size());
    if (offset < end) {
      std::fill(node->data.begin() + static_cast<std::ptrdiff_t>(offset),
                node->data.begin() + static_cast<std::ptrdiff_t>(end), '\0');
    }
  }
  void read() {
    const NodeRef node = some_file();
    if (node == nullptr) {
      return;
    }
    const std::size_t offset = pick(node->data.size() + 100), length = pick(300000) + 1;
    const std::string wanted =
        offset < node->data.size() ? node->data.substr(offset, length) : std::string();
    ASSERT_TRUE(get(node->inode, offset, length) == wanted) << "object " << node->inode;
  }
  void change_attributes() {
    const NodeRef node = some([](const Node& each) { return !S_ISLNK(each.mode); });
    posix::AttributeChange change;
    change.mode = static_cast<std::uint32_t>(pick(010000));
    change.uid = static_cast<std::uint32_t>(pick(5));
    ASSERT_OK(fs->set_attributes(node->inode, change, kRoot));
    // Set-group-id directories hand down groups, which the model leaves out.
    if (node->is_directory()) {
      change.mode = *change.mode & ~std::uint32_t{S_ISGID};
      ASSERT_OK(fs->set_attributes(node->inode, change, kRoot));
    }
    node->mode = (node->mode & S_IFMT) | *change.mode;
    node->uid = *change.uid;
  }
  void xattr() {
    const NodeRef node = some([](const Node&) { return true; });
    const std::string name = (pick(2) == 0 ? "user.x" : "security.y") + std::to_string(pick(6));
    if (pick(3) == 0) {
      const auto wanted = node->xattrs.contains(name) ? std::nullopt : std::optional(Errc::no_data);
      ASSERT_NO_FATAL_FAILURE(expect(fs->remove_xattr(node->inode, name), wanted, "remove_xattr"));
      node->xattrs.erase(name);
      return;
    }
    const std::string value = some_text(pick(6) == 0 ? pick(65000) : pick(300));
    ASSERT_OK(fs->set_xattr(node->inode, name, bytes_of(value), posix::FileSystem::XattrMode::any));
    node->xattrs[name] = value;
  }

  void compare(const NodeRef& node, const NodeRef& parent) {
    const Attributes attributes = must(fs->attributes(node->inode), "attributes");
    ASSERT_EQ(attributes.mode, node->mode) << node->inode;
    ASSERT_EQ(attributes.links, node->links) << node->inode;
    ASSERT_EQ(attributes.uid, node->uid) << node->inode;
    ASSERT_EQ(attributes.gid, node->gid) << node->inode;
    auto names = must(fs->list_xattrs(node->inode), "list_xattrs");
    std::sort(names.begin(), names.end());
    std::vector<std::string> wanted_names;
    for (const auto& [name, value] : node->xattrs) {
      wanted_names.push_back(name);
      ASSERT_TRUE(text_of(must(fs->get_xattr(node->inode, name), "get_xattr")) == value) << name;
    }
    ASSERT_EQ(names, wanted_names) << node->inode;
    if (node->is_regular()) {
      ASSERT_EQ(attributes.size, node->data.size());
      ASSERT_TRUE(get(node->inode, 0, node->data.size() + 10) == node->data)
          << "object " << node->inode;
      return;
    }
    if (S_ISLNK(node->mode)) {
      ASSERT_EQ(must(fs->read_symlink(node->inode)), node->data);
      return;
    }
    ASSERT_EQ(attributes.size, node->children.size() + 2);
    ASSERT_EQ(must(fs->lookup(node->inode, "..")).inode, parent->inode);
    fs->forget(parent->inode, 1);
    std::map<std::string, Inode> listed;
    for (const auto& entry : list(node->inode, pick(20) + 1)) {
      ASSERT_TRUE(listed.emplace(entry.name, entry.inode).second) << entry.name << " twice";
      const auto child = node->children.find(entry.name);
      ASSERT_NE(child, node->children.end()) << entry.name;
      ASSERT_EQ(entry.type, child->second->mode >> 12U);
      ASSERT_EQ(entry.inode, child->second->inode);
      ASSERT_EQ(must(fs->lookup(node->inode, entry.name)).inode, entry.inode);
      fs->forget(entry.inode, 1);
    }
    ASSERT_EQ(listed.size(), node->children.size());
    for (const auto& [name, child] : node->children) {
      ASSERT_NO_FATAL_FAILURE(compare(child, node)) << name;
    }
  }
  void compare_all() {
    ASSERT_NO_FATAL_FAILURE(compare(top_, top_));
    std::vector<NodeRef> all;
    gather(top_, all);
    // Nothing is left behind: every object is in the tree or belongs to the file system itself.
    ASSERT_OK(dataset->sync());
    synced_ = clone(top_);
    std::uint64_t objects = 0;
    std::uint64_t files = 0;
    for (auto next = dataset->objset().next_object(0); next;
         next = dataset->objset().next_object(*next)) {
      ++objects;
      const object::DnodeRef dnode = must(dataset->objset().hold(*next));
      files += dnode->bonus_type() == format::ObjectType::sa ? 1 : 0;
    }
    ASSERT_EQ(objects, dataset->objset().object_count());
    std::set<const Node*> distinct;
    bool any_xattr = false;
    for (const NodeRef& node : all) {
      distinct.insert(node.get());
      any_xattr = any_xattr || !node->xattrs.empty();
    }
    ASSERT_GE(files, distinct.size());
    if (!any_xattr && !had_xattrs_) {
      ASSERT_EQ(files, distinct.size());
    }
    had_xattrs_ = had_xattrs_ || any_xattr;
  }
  bool had_xattrs_ = false;

  void run(int steps) {
    SCOPED_TRACE(rerun());
    for (int step = 0; step < steps && !HasFatalFailure(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      switch (pick(20)) {
        case 0:
        case 1:
        case 2:
        case 3: create(); break;
        case 4: link(); break;
        case 5:
        case 6: remove(); break;
        case 7:
        case 8: rename(); break;
        case 9:
        case 10:
        case 11:
        case 12: write(); break;
        case 13: resize(); break;
        case 14: punch(); break;
        case 15: read(); break;
        case 16: change_attributes(); break;
        case 17: xattr(); break;
        case 18:
          if (pick(3) == 0) {
            ASSERT_OK(dataset->sync());
            synced_ = clone(top_);
          }
          break;
        default:
          if (pick(12) == 0) {
            compare_all();
            ASSERT_FALSE(HasFatalFailure());
            remount();
          } else if (pick(12) == 0) {
            crash();
            top_ = clone(synced_);
            ASSERT_NO_FATAL_FAILURE(compare(top_, top_));
          }
      }
    }
    if (!HasFatalFailure()) {
      compare_all();
      remount();
      compare_all();
    }
  }
};

TEST_F(Model, TheFileSystemIsItsModelWithAttributesAmongSystemAttributes) {
  MemoryDatasetOptions options;
  options.policy.user_accounting = options.policy.project_accounting = true;
  start(std::move(options));
  run(3000);
}

TEST_F(Model, TheFileSystemIsItsModelWithAttributeDirectoriesAndSmallRecords) {
  MemoryDatasetOptions options;
  options.properties["xattr"] = 1;
  options.policy.record_size = 4096;
  start(std::move(options));
  run(3000);
}

TEST_F(Model, TheFileSystemIsItsModelWithLargeDnodes) {
  MemoryDatasetOptions options;
  options.properties["dnodesize"] = 1;
  options.policy.large_dnode = true;
  options.policy.record_size = 16384;
  start(std::move(options));
  run(1500);
}

// Threads, each in a directory of its own and all in a shared one, while groups come and go.
TEST_F(Model, ManyThreadsAtOnceLoseNothing) {
  MemoryDatasetOptions options;
  options.interval = std::chrono::milliseconds(3);
  make(std::move(options));
  const Inode shared = directory(root, "shared").inode;
  constexpr int kThreads = 4, kRounds = 150;
  const Inode common = file(shared, "common").inode;
  std::vector<std::thread> threads;
  std::array<std::atomic<int>, kThreads> created{};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed() + static_cast<std::uint64_t>(t));
      const Inode own = directory(root, "own" + std::to_string(t)).inode;
      for (int i = 0; i < kRounds; ++i) {
        const std::string name = std::to_string(t) + "-" + std::to_string(i);
        const Attributes f = file(shared, name);
        const std::string text(random() % 9000 + 1, static_cast<char>('a' + t));
        put(f.inode, 0, text);
        put(common, static_cast<std::uint64_t>(t) * 100000 + static_cast<std::uint64_t>(i) * 100,
            std::string(100, static_cast<char>('A' + t)));
        EXPECT_TRUE(get(f.inode) == text);
        EXPECT_OK(
            fs->set_xattr(f.inode, "user.t", bytes_of(name), posix::FileSystem::XattrMode::any));
        switch (random() % 4) {
          case 0: EXPECT_OK(fs->unlink(shared, name, kRoot)); break;
          case 1: EXPECT_OK(fs->rename(shared, name, own, name, 0, kRoot)); break;
          case 2:
            (void)fs->rename(shared, name, shared, "contended", 0, kRoot);
            (void)fs->unlink(shared, "contended", kRoot);
            break;
          default: ++created[static_cast<std::size_t>(t)];
        }
        fs->forget(f.inode, 1);
        (void)must(fs->read_directory(shared, 0, 50));
        if (random() % 50 == 0) {
          EXPECT_OK(fs->fsync(common));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  remount();
  std::size_t left = 1;  // "common"
  for (const auto& count : created) {
    left += static_cast<std::size_t>(count.load());
  }
  const auto entries = list(shared);
  std::size_t found = 0;
  for (const auto& entry : entries) {
    found += entry.name == "contended" ? 0 : 1;
  }
  EXPECT_EQ(found, left);
  EXPECT_EQ(must(fs->attributes(shared)).size, entries.size() + 2);
  const std::string all = get(common);
  for (int t = 0; t < kThreads; ++t) {
    const auto at = static_cast<std::size_t>(t) * 100000;
    EXPECT_TRUE(all.substr(at, kRounds * 100) ==
                std::string(kRounds * 100, static_cast<char>('A' + t)));
  }
}

// Two directories that are each moved below the other: one of the moves must fail, always.
TEST_F(Model, DirectoriesNeverFormALoop) {
  make();
  const Inode a = directory(root, "a").inode, b = directory(root, "b").inode;
  for (int round = 0; round < 200; ++round) {
    std::array<bool, 2> moved{};
    std::thread one([&] { moved[0] = fs->rename(root, "a", b, "a", 0, kRoot).has_value(); });
    std::thread two([&] { moved[1] = fs->rename(root, "b", a, "b", 0, kRoot).has_value(); });
    one.join();
    two.join();
    ASSERT_NE(moved[0], moved[1]) << "round " << round;
    if (moved[0]) {
      ASSERT_OK(fs->rename(b, "a", root, "a", 0, kRoot));
    } else {
      ASSERT_OK(fs->rename(a, "b", root, "b", 0, kRoot));
    }
  }
}

// Half-done changes never show: a rename is before or after it, wherever the power is cut.
TEST_F(Model, ACutBetweenGroupsShowsWholeOperations) {
  SCOPED_TRACE(rerun());
  MemoryDatasetOptions options;
  options.interval = std::chrono::milliseconds(1);
  make(std::move(options));
  Inode d = directory(root, "d").inode;
  put(file(root, "x").inode, 0, "x");
  put(file(root, "y").inode, 0, "yy");
  ASSERT_OK(dataset->sync());
  for (int round = 0; round < 30; ++round) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(seed() + static_cast<std::uint64_t>(100 * round + t));
        while (!stop) {
          const std::string name = t == 0 ? "x" : "y";
          switch (t) {
            case 0:
              (void)fs->rename(root, "x", d, "x", 0, kRoot);
              (void)fs->rename(d, "x", root, "x", 0, kRoot);
              break;
            case 1: {
              const auto y = fs->lookup(root, "y");
              if (y) {
                (void)fs->link(y->inode, d, "y" + std::to_string(random() % 5));
                (void)fs->unlink(d, "y" + std::to_string(random() % 5), kRoot);
              }
              break;
            }
            default: {
              const auto f = fs->create(d, "f", S_IFREG | 0600, 0, 0, kRoot);
              (void)fs->unlink(d, "f", kRoot);
              if (f) {
                fs->forget(f->inode, 1);
              }
            }
          }
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(pick(20)));
    dataset->cut_power();
    stop = true;
    for (std::thread& thread : threads) {
      thread.join();
    }
    reopen();
    // The file x has one name, y as many as its count says, sizes and links agree with the entries.
    const bool at_root = fs->lookup(root, "x").has_value();
    const bool in_d = fs->lookup(d, "x").has_value();
    ASSERT_NE(at_root, in_d) << "round " << round;
    std::map<Inode, std::uint64_t> names;
    for (const Inode directory_inode : {root, d}) {
      const auto entries = list(directory_inode);
      ASSERT_EQ(must(fs->attributes(directory_inode)).size, entries.size() + 2);
      for (const auto& entry : entries) {
        ++names[entry.inode];
      }
    }
    for (const auto& [inode, count] : names) {
      if (inode != d) {
        ASSERT_EQ(must(fs->attributes(inode)).links, count) << "object " << inode;
      }
    }
  }
}

}  // namespace
}  // namespace zuse::test
