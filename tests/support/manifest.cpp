#include "tests/support/manifest.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "fs/object/zap.h"

namespace zuse::test {
namespace {

constexpr std::uint64_t kSparseAbove = std::uint64_t{1} << 30;
constexpr std::uint64_t kPiece = 1 << 20;

class Digest {
 public:
  Digest() { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Digest() { EVP_MD_CTX_free(context_); }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void add(std::span<const std::byte> bytes) {
    EVP_DigestUpdate(context_, bytes.data(), bytes.size());
  }
  std::string hex() {
    std::array<unsigned char, 32> digest{};
    EVP_DigestFinal_ex(context_, digest.data(), nullptr);
    std::string text;
    for (const unsigned char byte : digest) {
      std::array<char, 3> pair{};
      std::snprintf(pair.data(), pair.size(), "%02x", byte);
      text += pair.data();
    }
    return text;
  }

 private:
  EVP_MD_CTX* context_ = EVP_MD_CTX_new();
};

// Length of the UTF-8 sequence at the start of `text`; 0: it is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : (first & 0xf0) == 0xe0        ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > text.size()) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90)) {
    return 0;
  }
  return length;
}

std::string escape(std::string_view text, bool in_list = false) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text[0];
    if (length == 0) {
      std::array<char, 8> hex{};
      std::snprintf(hex.data(), hex.size(), "\\x%02x", static_cast<unsigned char>(c));
      out += hex.data();
      text.remove_prefix(1);
      continue;
    }
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\n') {
      out += "\\n";
    } else if (in_list && c == ',') {
      out += "\\x2c";
    } else if (in_list && c == '=') {
      out += "\\x3d";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

Result<std::string> file_digest(posix::FileSystem& files, const posix::Attributes& attributes) {
  Digest digest;
  const bool sparse = attributes.size > kSparseAbove;
  std::uint64_t at = sparse ? attributes.size - kPiece : 0;
  while (at < attributes.size) {
    ZUSE_TRY(const auto pieces, files.read(attributes.inode, at, kPiece));
    if (pieces.empty()) {
      return fail(Errc::corrupt, "the file ends early");
    }
    for (const object::Piece& piece : pieces) {
      digest.add(piece.bytes);
      at += piece.bytes.size();
    }
  }
  return (sparse ? "sparse-" : "") + digest.hex();
}

Result<std::string> xattr_column(posix::FileSystem& files, posix::Inode inode) {
  ZUSE_TRY(std::vector<std::string> names, files.list_xattrs(inode));
  std::ranges::sort(names);
  std::string column;
  for (const std::string& name : names) {
    if (name.starts_with("security.")) {
      continue;
    }
    ZUSE_TRY(const std::vector<std::byte> value, files.get_xattr(inode, name));
    column += (column.empty() ? "" : ",") + escape(name, true) + "=";
    for (const std::byte byte : value) {
      std::array<char, 3> pair{};
      std::snprintf(pair.data(), pair.size(), "%02x", static_cast<unsigned>(byte));
      column += pair.data();
    }
  }
  return column.empty() ? std::string("-") : column;
}

Result<std::string> row_of(posix::FileSystem& files, const posix::Attributes& attributes,
                           const std::string& label, const std::string& path) {
  std::string type, target = "-", digest = "-", xattrs = "-";
  switch (attributes.mode & S_IFMT) {
    case S_IFREG: type = "f"; break;
    case S_IFDIR: type = "d"; break;
    case S_IFLNK: type = "l"; break;
    case S_IFIFO: type = "p"; break;
    case S_IFCHR: type = "c"; break;
    case S_IFBLK: type = "b"; break;
    case S_IFSOCK: type = "s"; break;
    default: return fail(Errc::corrupt, "mode without a type");
  }
  if (type == "l") {
    ZUSE_TRY(const std::string link, files.read_symlink(attributes.inode));
    target = escape(link);
  } else if (type == "c" || type == "b") {
    target = std::to_string(attributes.rdev_major) + "," + std::to_string(attributes.rdev_minor);
  } else if (type == "f") {
    ZUSE_TRY(digest, file_digest(files, attributes));
  }
  if (type == "f" || type == "d") {
    ZUSE_TRY(xattrs, xattr_column(files, attributes.inode));
  }
  std::array<char, 8> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", attributes.mode & 07777U);
  const auto nanoseconds = static_cast<std::int64_t>(attributes.mtime.seconds) * 1000000000 +
                           attributes.mtime.nanoseconds;
  std::string row = label;
  for (const std::string& column :
       {escape(path), type, std::string(mode.data()), std::to_string(attributes.uid),
        std::to_string(attributes.gid), std::to_string(attributes.size),
        std::to_string(nanoseconds), std::to_string(attributes.links), target, digest, xattrs}) {
    row += "\t" + column;
  }
  return row;
}

Result<void> walk(posix::FileSystem& files, const posix::Attributes& directory,
                  const std::string& label, const std::string& path,
                  std::map<std::string, std::string>& rows) {
  auto row = row_of(files, directory, label, path);
  if (!row) {
    return std::unexpected(std::move(row).error().within(label + " " + path));
  }
  rows[path] = *row;
  std::uint64_t offset = 0;
  for (;;) {
    ZUSE_TRY(const auto entries, files.read_directory(directory.inode, offset, 500));
    if (entries.empty()) {
      return {};
    }
    for (const posix::DirectoryEntry& entry : entries) {
      offset = entry.next_offset;
      if (entry.name == "." || entry.name == "..") {
        continue;
      }
      const std::string below = path == "." ? entry.name : path + "/" + entry.name;
      auto attributes = files.lookup(directory.inode, entry.name);
      if (!attributes) {
        return std::unexpected(std::move(attributes).error().within(label + " " + below));
      }
      if (S_ISDIR(attributes->mode)) {
        ZUSE_TRY_VOID(walk(files, *attributes, label, below, rows));
      } else {
        row = row_of(files, *attributes, label, below);
        if (!row) {
          return std::unexpected(std::move(row).error().within(label + " " + below));
        }
        rows[below] = *row;
      }
      files.forget(attributes->inode, 1);
    }
  }
}

}  // namespace

Result<std::map<std::string, std::string>> manifest_of(posix::FileSystem& files,
                                                       const std::string& label) {
  std::map<std::string, std::string> rows;
  ZUSE_TRY(const posix::Attributes root, files.attributes(files.root()));
  ZUSE_TRY_VOID(walk(files, root, label, ".", rows));
  return rows;
}

Result<std::string> volume_row(dataset::Dataset& dataset, const std::string& label) {
  constexpr std::uint64_t kData = 1, kProperties = 2;
  ZUSE_TRY(const object::Zap properties, object::Zap::open(dataset.objset(), kProperties));
  ZUSE_TRY(const std::uint64_t size, properties.lookup("size"));
  ZUSE_TRY(const object::DnodeRef data, dataset.objset().hold(kData));
  Digest digest;
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kPiece, size - at));
    ZUSE_TRY_VOID(data->read(at, piece));
    digest.add(piece);
  }
  return label + "\t-\tzvol\t-\t-\t-\t" + std::to_string(size) + "\t-\t-\t-\t" + digest.hex() +
         "\t-";
}

}  // namespace zuse::test
