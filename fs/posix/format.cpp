// What OpenZFS puts into a new file system, in the order in which it does.
#include "fs/posix/format.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "fs/object/zap.h"
#include "fs/posix/acl.h"
#include "fs/posix/system_attr.h"
#include "fs/posix/znode.h"

namespace zuse::posix {

Result<void> format_file_system(object::Objset& objset, object::Tx& tx) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(now - seconds);
  FormatOptions options;
  options.uid = geteuid();
  options.gid = getegid();
  options.seconds = seconds.count();
  options.nanoseconds = static_cast<std::uint32_t>(rest.count());
  return format_file_system(objset, tx, options);
}

Result<void> format_file_system(object::Objset& objset, object::Tx& tx,
                                const FormatOptions& options) {
  object::NewObject spec;
  spec.type = format::ObjectType::master_node;
  spec.object = kMasterNode;
  ZUSE_TRY(object::Zap master, object::Zap::create(objset, tx, spec));
  ZUSE_TRY_VOID(master.add(tx, "VERSION", kZplVersion));
  ZUSE_TRY_VOID(master.add(tx, "normalization", 0));
  ZUSE_TRY_VOID(master.add(tx, "utf8only", 0));
  ZUSE_TRY_VOID(master.add(tx, "casesensitivity", 0));

  ZUSE_TRY(const std::uint64_t sa_master, SaRegistry::create_master(objset, tx));
  ZUSE_TRY_VOID(master.add(tx, "SA_ATTRS", sa_master));

  object::NewObject queue_spec;
  queue_spec.type = format::ObjectType::unlinked_set;
  ZUSE_TRY(const object::Zap queue, object::Zap::create(objset, tx, queue_spec));
  ZUSE_TRY_VOID(master.add(tx, "DELETE_QUEUE", queue.object()));

  object::NewObject root_spec;
  root_spec.type = format::ObjectType::directory;
  root_spec.bonus_type = format::ObjectType::sa;
  ZUSE_TRY(const object::Zap root, object::Zap::create(objset, tx, root_spec));
  ZUSE_TRY(const std::unique_ptr<SaRegistry> registry, SaRegistry::open(objset, sa_master));
  ZnodeFields fields;
  fields.mode = S_IFDIR | (options.mode & 07777U);
  fields.size = 2;
  fields.gen = tx.txg();
  fields.uid = options.uid;
  fields.gid = options.gid;
  fields.parent = root.object();
  fields.links = 2;
  fields.atime = fields.mtime = fields.ctime =
      fields.crtime = {options.seconds, options.nanoseconds};
  fields.flags = kFlagArchive | kFlagAvModified | kFlagAclTrivial | kFlagAclAutoInherit |
                 (everyone_executes(fields.mode) ? kFlagNoExecsDenied : 0);
  if (objset.policy().project_accounting) {
    fields.project = 0;
    fields.flags |= kFlagProject;
  }
  ZUSE_TRY_VOID(Znode::create(*registry, tx, root.dnode(), fields, {}));
  return master.add(tx, "ROOT", root.object());
}

}  // namespace zuse::posix
