#include "fs/codec/compress.h"

#define ZSTD_STATIC_LINKING_ONLY  // the magicless frame format
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "fs/codec/lzjb.h"
#include "vdev/base/on_disk.h"

namespace zuse::codec {
namespace {

using format::Compression;

constexpr std::size_t kLz4Head = 4;
constexpr std::size_t kZstdHead = 8;
constexpr std::uint8_t kZstdDefault = 3;

bool is_gzip(Compression algorithm) {
  return algorithm >= Compression::gzip1 && algorithm <= Compression::gzip9;
}

Bytef* bytes_of(std::byte* data) {
  return reinterpret_cast<Bytef*>(data);
}
const Bytef* bytes_of(const std::byte* data) {
  return reinterpret_cast<const Bytef*>(data);
}
const char* chars_of(const std::byte* data) {
  return reinterpret_cast<const char*>(data);
}
char* chars_of(std::byte* data) {
  return reinterpret_cast<char*>(data);
}

// A zlib stream for each direction, kept by its thread.
class Zlib {
 public:
  Zlib() { ready_ = inflateInit(&in_) == Z_OK; }
  ~Zlib() {
    inflateEnd(&in_);
    if (level_ != 0) {
      deflateEnd(&out_);
    }
  }
  Zlib(const Zlib&) = delete;
  Zlib& operator=(const Zlib&) = delete;

  std::size_t compress(int level, std::span<const std::byte> in, std::span<std::byte> out) {
    if (level != level_) {
      if (level_ != 0) {
        deflateEnd(&out_);
      }
      out_ = {};
      level_ = deflateInit(&out_, level) == Z_OK ? level : 0;
    } else {
      deflateReset(&out_);
    }
    if (level_ == 0) {
      return 0;
    }
    out_.next_in = const_cast<Bytef*>(bytes_of(in.data()));
    out_.avail_in = static_cast<uInt>(in.size());
    out_.next_out = bytes_of(out.data());
    out_.avail_out = static_cast<uInt>(out.size());
    return deflate(&out_, Z_FINISH) == Z_STREAM_END ? out.size() - out_.avail_out : 0;
  }

  bool decompress(std::span<const std::byte> in, std::span<std::byte> out) {
    if (!ready_ || inflateReset(&in_) != Z_OK) {
      return false;
    }
    in_.next_in = const_cast<Bytef*>(bytes_of(in.data()));
    in_.avail_in = static_cast<uInt>(in.size());
    in_.next_out = bytes_of(out.data());
    in_.avail_out = static_cast<uInt>(out.size());
    // The stream must end, checksum and all, just where the block does.
    return inflate(&in_, Z_FINISH) == Z_STREAM_END && in_.avail_out == 0;
  }

 private:
  z_stream in_{}, out_{};
  int level_ = 0;
  bool ready_ = false;
};

class Zstd {
 public:
  std::size_t compress(std::uint8_t on_disk, int level, std::span<const std::byte> in,
                       std::span<std::byte> out) {
    if (out.size() <= kZstdHead) {
      return 0;
    }
    if (!writer_) {
      writer_.reset(ZSTD_createCCtx());
      ZSTD_CCtx_setParameter(writer_.get(), ZSTD_c_format, ZSTD_f_zstd1_magicless);
      ZSTD_CCtx_setParameter(writer_.get(), ZSTD_c_checksumFlag, 0);
      ZSTD_CCtx_setParameter(writer_.get(), ZSTD_c_contentSizeFlag, 0);
    }
    ZSTD_CCtx_setParameter(writer_.get(), ZSTD_c_compressionLevel, level);
    const std::size_t length = ZSTD_compress2(writer_.get(), out.data() + kZstdHead,
                                              out.size() - kZstdHead, in.data(), in.size());
    if (ZSTD_isError(length) != 0) {
      return 0;
    }
    store_at<std::uint32_t>(out, 0, static_cast<std::uint32_t>(length), ByteOrder::big);
    store_at<std::uint32_t>(out, 4, std::uint32_t{on_disk} << 24U | ZSTD_VERSION_NUMBER,
                            ByteOrder::big);
    return kZstdHead + length;
  }

  bool decompress(std::span<const std::byte> frame, std::span<std::byte> out) {
    if (!reader_) {
      reader_.reset(ZSTD_createDCtx());
      ZSTD_DCtx_setParameter(reader_.get(), ZSTD_d_format, ZSTD_f_zstd1_magicless);
    }
    const std::size_t length =
        ZSTD_decompressDCtx(reader_.get(), out.data(), out.size(), frame.data(), frame.size());
    return ZSTD_isError(length) == 0 && length == out.size();
  }

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> writer_;
  std::unique_ptr<ZSTD_DCtx, Free> reader_;
};

Zlib& zlib() {
  thread_local Zlib streams;
  return streams;
}
Zstd& zstd() {
  thread_local Zstd contexts;
  return contexts;
}

std::size_t lz4_compress(std::span<const std::byte> in, std::span<std::byte> out) {
  if (out.size() <= kLz4Head) {
    return 0;
  }
  thread_local std::unique_ptr<char[]> state =
      std::make_unique<char[]>(static_cast<std::size_t>(LZ4_sizeofState()));
  const int length = LZ4_compress_fast_extState(
      state.get(), chars_of(in.data()), chars_of(out.data()) + kLz4Head,
      static_cast<int>(in.size()), static_cast<int>(out.size() - kLz4Head), 1);
  if (length <= 0) {
    return 0;
  }
  store_at<std::uint32_t>(out, 0, static_cast<std::uint32_t>(length), ByteOrder::big);
  return kLz4Head + static_cast<std::size_t>(length);
}

Result<void> lz4_decompress(std::span<const std::byte> in, std::span<std::byte> out) {
  if (in.size() < kLz4Head) {
    return fail(Errc::corrupt, "lz4: the block is too short");
  }
  const auto length = load_at<std::uint32_t>(in, 0, ByteOrder::big);
  if (length > in.size() - kLz4Head) {
    return fail(Errc::corrupt, "lz4: the stream is longer than its block");
  }
  const int got = LZ4_decompress_safe(chars_of(in.data()) + kLz4Head, chars_of(out.data()),
                                      static_cast<int>(length), static_cast<int>(out.size()));
  if (got < 0 || static_cast<std::size_t>(got) != out.size()) {
    return fail(Errc::corrupt, "lz4: the stream is damaged");
  }
  return {};
}

Result<void> zstd_decompress(std::span<const std::byte> in, std::span<std::byte> out) {
  if (in.size() < kZstdHead) {
    return fail(Errc::corrupt, "zstd: the block is too short");
  }
  const auto length = load_at<std::uint32_t>(in, 0, ByteOrder::big);
  if (length > in.size() - kZstdHead) {
    return fail(Errc::corrupt, "zstd: the stream is longer than its block");
  }
  // The level stands first, or - in old big-endian pools - last; its place tells itself by a zero
  // byte.
  const auto first = static_cast<std::uint8_t>(in[4]), last = static_cast<std::uint8_t>(in[7]);
  ZUSE_TRY_VOID(zstd_level(first != 0 ? first : last));
  if (!zstd().decompress(in.subspan(kZstdHead, length), out)) {
    return fail(Errc::corrupt, "zstd: the stream is damaged");
  }
  return {};
}

}  // namespace

Result<int> zstd_level(std::uint8_t on_disk) {
  const int level = on_disk;
  if (level >= 1 && level <= 19) {
    return level;
  }
  if (level >= 103 && level <= 112) {
    return -(level - 102);
  }
  if (level >= 113 && level <= 120) {
    return -(level - 111) * 10;
  }
  switch (level) {
    case 121: return -100;
    case 122: return -500;
    case 123: return -1000;
    default: return fail(Errc::corrupt, "zstd: there is no level " + std::to_string(level));
  }
}

Result<void> check_supported(Compression algorithm) {
  if (algorithm == Compression::lzjb || algorithm == Compression::zle ||
      algorithm == Compression::lz4 || algorithm == Compression::zstd ||
      algorithm == Compression::off || algorithm == Compression::on || is_gzip(algorithm)) {
    return {};
  }
  return fail(Errc::unsupported, "compression " + std::string(format::to_string(algorithm)) + " (" +
                                     std::to_string(static_cast<unsigned>(algorithm)) +
                                     ") is not known");
}

Result<std::size_t> compress(format::CompressionChoice choice, std::span<const std::byte> in,
                             std::span<std::byte> out) {
  switch (choice.algorithm) {
    case Compression::lzjb: return lzjb_compress(in, out);
    case Compression::zle: return zle_compress(in, out);
    case Compression::on:
    case Compression::lz4: return lz4_compress(in, out);
    case Compression::zstd: {
      const std::uint8_t on_disk = choice.level == 0 ? kZstdDefault : choice.level;
      ZUSE_TRY(const int level, zstd_level(on_disk));
      return zstd().compress(on_disk, level, in, out);
    }
    default: break;
  }
  if (is_gzip(choice.algorithm)) {
    const int level = static_cast<int>(choice.algorithm) - static_cast<int>(Compression::gzip1) + 1;
    return zlib().compress(level, in, out);
  }
  return fail(Errc::unsupported,
              "nothing compresses with " + std::string(format::to_string(choice.algorithm)));
}

Result<void> decompress(Compression algorithm, std::span<const std::byte> in,
                        std::span<std::byte> out) {
  switch (algorithm) {
    case Compression::lzjb: return lzjb_decompress(in, out);
    case Compression::zle: return zle_decompress(in, out);
    case Compression::lz4: return lz4_decompress(in, out);
    case Compression::zstd: return zstd_decompress(in, out);
    case Compression::off:
      if (in.size() < out.size()) {
        return fail(Errc::corrupt, "a block is shorter than it says");
      }
      std::memcpy(out.data(), in.data(), out.size());
      return {};
    default: break;
  }
  if (is_gzip(algorithm)) {
    return zlib().decompress(in, out) ? Result<void>()
                                      : fail(Errc::corrupt, "gzip: the stream is damaged");
  }
  return fail(Errc::unsupported, "compression " + std::to_string(static_cast<unsigned>(algorithm)) +
                                     " cannot be read");
}

bool all_zero(std::span<const std::byte> bytes) noexcept {
  // Most blocks show it in their first word; the rest compares the block with itself, shifted.
  if (bytes.empty()) {
    return true;
  }
  return bytes[0] == std::byte{0} &&
         (bytes.size() == 1 || std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace zuse::codec
