// One image file or block device as a leaf. Spoken to directly (O_DIRECT) where the backing allows
// it at the sector size asked for, else through the page cache. Opening takes a lock on the file,
// so that neither a second process nor a second name of the same image can have it too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "vdev/block_device.h"

namespace zuse::vdev {

struct FileDeviceOptions {
  bool read_only = false;  // O_RDONLY, and a lock that other readers share
  bool direct = true;      // try O_DIRECT
  // log2 of the smallest write that will come, 9 at least. A backing that cannot write so little
  // directly is opened through the page cache; a block device with larger sectors reports them.
  unsigned smallest_write_shift = 9;
};

// Thread-safe. The file is closed, and with it the lock released, when the device dies.
class FileDevice final : public BlockDevice {
 public:
  // errors: busy (in use: by another process, mounted, or open here already), not_found, access,
  // invalid (neither a regular file nor a block device), read_only, gone, io. All name the path.
  static Result<std::unique_ptr<FileDevice>> open(const std::string& path,
                                                  const FileDeviceOptions& options = {});
  ~FileDevice() override;

  const std::string& name() const override { return path_; }
  std::uint64_t size() const override { return size_; }
  unsigned sector_shift() const override { return sector_shift_; }
  bool read_only() const override { return read_only_; }
  void start(IoRequest& request, IoBatch& batch) override;

  // Whether I/O bypasses the page cache.
  bool direct() const noexcept { return access_.offset_alignment > 1; }
  bool uncached() const override { return direct(); }
  bool is_block_device() const noexcept { return is_block_device_; }

 private:
  explicit FileDevice(std::string path) : path_(std::move(path)) {}
  Result<void> open_file(const FileDeviceOptions& options);
  Result<void> measure();
  void try_direct(const FileDeviceOptions& options);

  std::string path_;
  FileAccess access_;
  std::uint64_t size_ = 0;
  unsigned sector_shift_ = 9;
  bool read_only_ = false;
  bool is_block_device_ = false;
};

}  // namespace zuse::vdev
