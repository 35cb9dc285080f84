// fletcher2 and the SHA-2 hashes, and the rules of who is checksummed how. fletcher4, the one that
// nearly every block uses, has its kernels in fletcher4_*.cpp.
#include "fs/codec/checksum.h"

#include <openssl/evp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "fs/codec/fletcher4.h"
#include "vdev/base/on_disk.h"

namespace zuse::codec {
namespace {

using format::Checksum;

ChecksumWords fletcher2(std::span<const std::byte> data, ByteOrder order) {
  std::uint64_t a0 = 0;
  std::uint64_t a1 = 0;
  std::uint64_t b0 = 0;
  std::uint64_t b1 = 0;
  for (std::size_t at = 0; at + 16 <= data.size(); at += 16) {
    a0 += load_at<std::uint64_t>(data, at, order);
    a1 += load_at<std::uint64_t>(data, at + 8, order);
    b0 += a0;
    b1 += a1;
  }
  return {a0, a1, b0, b1};
}

ChecksumWords fletcher4(std::span<const std::byte> data, ByteOrder order) {
  ChecksumWords out{};
  fastest_fletcher4().sum(data.data(), data.size() / 4 * 4, order != kHostOrder, out.data());
  return out;
}

// A digest context of this thread. libcrypto keeps its memory from one use to the next as long as
// the algorithm stays the same, hence one for each.
class Digest {
 public:
  explicit Digest(const char* algorithm)
      : algorithm_(EVP_MD_fetch(nullptr, algorithm, nullptr)), context_(EVP_MD_CTX_new()) {
    ZUSE_CHECK(algorithm_ != nullptr && context_ != nullptr);
  }
  void begin() { ZUSE_CHECK(EVP_DigestInit_ex2(context_.get(), algorithm_.get(), nullptr) == 1); }
  void add(std::span<const std::byte> bytes) {
    ZUSE_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }
  ChecksumWords end(ByteOrder order) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned length = 0;
    ZUSE_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1);
    ZUSE_CHECK(length == sizeof(ChecksumWords));
    ChecksumWords out{};
    const auto bytes = std::as_bytes(std::span(digest));
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = load_at<std::uint64_t>(bytes, i * sizeof(std::uint64_t), order);
    }
    return out;
  }

 private:
  struct Free {
    void operator()(EVP_MD* md) const { EVP_MD_free(md); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD, Free> algorithm_;
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

Digest& sha256_digest() {
  thread_local Digest digest("SHA256");
  return digest;
}
Digest& sha512_256_digest() {
  thread_local Digest digest("SHA512-256");
  return digest;
}

ChecksumWords sha256(std::span<const std::byte> data) {
  Digest& digest = sha256_digest();
  digest.begin();
  digest.add(data);
  return digest.end(ByteOrder::big);  // the words are the digest read big-endian, whoever wrote it
}

ChecksumWords sha512_256(std::span<const std::byte> data, ByteOrder order) {
  Digest& digest = sha512_256_digest();
  digest.begin();
  digest.add(data);
  return digest.end(order);
}

std::array<std::byte, sizeof(ChecksumWords)> to_bytes(const ChecksumWords& words, ByteOrder order) {
  std::array<std::byte, sizeof(ChecksumWords)> out{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    store_at<std::uint64_t>(out, i * sizeof(std::uint64_t), words[i], order);
  }
  return out;
}

std::string mismatch(Checksum algorithm) {
  return std::string(to_string(algorithm)) + " checksum differs";
}

bool is_sealed_kind(Checksum kind) {
  return kind == Checksum::label || kind == Checksum::gang_header || kind == Checksum::zilog ||
         kind == Checksum::zilog2;
}

constexpr std::size_t kZilog2Unit = 4096;

// What a seal covers, and where in it the seal stands; an empty span: it cannot be.
struct Sealed {
  std::size_t size = 0;
  std::size_t seal_at = 0;
};
Sealed layout(Checksum kind, std::span<const std::byte> block, ByteOrder order) {
  if (kind != Checksum::zilog2) {
    return block.size() < kSealSize ? Sealed{} : Sealed{block.size(), block.size() - kSealSize};
  }
  if (block.size() < kZilog2SealOffset + kSealSize) {
    return {};
  }
  const auto used = load_at<std::uint64_t>(block, kZilog2UsedOffset, order);
  if (used > block.size() || used < kZilog2SealOffset + kSealSize) {
    return {};
  }
  return {std::min<std::size_t>((used + kZilog2Unit - 1) / kZilog2Unit * kZilog2Unit, block.size()),
          kZilog2SealOffset};
}

// The sum of `covered` as if its checksum field held the verifier.
ChecksumWords sealed_sum(Checksum kind, std::span<const std::byte> covered, std::size_t words_at,
                         const ChecksumWords& verifier, ByteOrder order) {
  const auto field = to_bytes(verifier, order);
  if (kind == Checksum::label || kind == Checksum::gang_header) {
    Digest& digest = sha256_digest();
    digest.begin();
    digest.add(covered.first(words_at));
    digest.add(field);
    digest.add(covered.subspan(words_at + field.size()));
    return digest.end(ByteOrder::big);
  }
  thread_local std::vector<std::byte> copy;
  copy.assign(covered.begin(), covered.end());
  std::ranges::copy(field, copy.begin() + static_cast<std::ptrdiff_t>(words_at));
  return kind == Checksum::zilog2 ? fletcher4(copy, order) : fletcher2(copy, order);
}

}  // namespace

std::span<const Fletcher4* const> fletcher4_implementations() noexcept {
  static const std::vector<const Fletcher4*> usable = [] {
    std::vector<const Fletcher4*> list{&kFletcher4Scalar};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse2") != 0) {
      list.push_back(&kFletcher4Sse2);
    }
    if (__builtin_cpu_supports("ssse3") != 0) {
      list.push_back(&kFletcher4Ssse3);
    }
    if (__builtin_cpu_supports("avx2") != 0) {
      list.push_back(&kFletcher4Avx2);
    }
    if (__builtin_cpu_supports("avx512f") != 0) {
      list.push_back(&kFletcher4Avx512);
    }
#endif
    return list;
  }();
  return usable;
}

namespace {

const Fletcher4& measure_fletcher4() {
  using Clock = std::chrono::steady_clock;
  std::vector<std::byte> block(16384);
  std::uint32_t state = 1;
  for (std::byte& one : block) {
    state = state * 1664525U + 1013904223U;
    one = static_cast<std::byte>(state >> 24U);
  }
  const auto all = fletcher4_implementations();
  ChecksumWords right{};
  all.front()->sum(block.data(), block.size(), false, right.data());
  const Fletcher4* fastest = all.front();
  auto best = Clock::duration::max();
  for (const Fletcher4* const one : all) {
    for (int attempt = 0; attempt < 8; ++attempt) {
      ChecksumWords out{};
      const auto start = Clock::now();
      one->sum(block.data(), block.size(), false, out.data());
      const auto took = Clock::now() - start;
      if (out == right && took < best) {
        best = took;
        fastest = one;
      }
    }
  }
  return *fastest;
}

}  // namespace

const Fletcher4& fastest_fletcher4() noexcept {
  static const Fletcher4& chosen = measure_fletcher4();
  return chosen;
}

Result<void> check_supported(format::Checksum algorithm) {
  switch (algorithm) {
    case Checksum::on:
    case Checksum::off:
    case Checksum::label:
    case Checksum::gang_header:
    case Checksum::zilog:
    case Checksum::fletcher2:
    case Checksum::fletcher4:
    case Checksum::sha256:
    case Checksum::zilog2:
    case Checksum::noparity:
    case Checksum::sha512: return {};
    default: break;
  }
  return fail(Errc::unsupported, std::string("checksum algorithm ") + to_string(algorithm) + " (" +
                                     std::to_string(static_cast<unsigned>(algorithm)) + ")");
}

ChecksumWords compute(format::Checksum algorithm, std::span<const std::byte> data,
                      ByteOrder order) {
  switch (algorithm) {
    case Checksum::off:
    case Checksum::noparity: return {};
    case Checksum::zilog:
    case Checksum::fletcher2: return fletcher2(data, order);
    case Checksum::on:
    case Checksum::zilog2:
    case Checksum::fletcher4: return fletcher4(data, order);
    case Checksum::label:
    case Checksum::gang_header:
    case Checksum::sha256: return sha256(data);
    case Checksum::sha512: return sha512_256(data, order);
    default: break;
  }
  check_failed("compute() of a checksum that check_supported() refuses", __FILE__, __LINE__);
}

Result<void> verify(format::Checksum algorithm, std::span<const std::byte> data, ByteOrder order,
                    const ChecksumWords& expected) {
  ZUSE_TRY_VOID(check_supported(algorithm));
  if (algorithm == Checksum::off || algorithm == Checksum::noparity) {
    return {};
  }
  return compute(algorithm, data, order) == expected ? Result<void>{}
                                                     : fail(Errc::checksum, mismatch(algorithm));
}

Result<void> verify_block(const format::Blkptr& blkptr, std::span<const std::byte> data) {
  const Checksum algorithm = blkptr.checksum_type;
  if (!blkptr.encrypted || blkptr.type == format::ObjectType::objset) {
    return verify(algorithm, data, blkptr.order, blkptr.checksum);
  }
  // Half of the words belong to the message authentication code; a plain sum is folded into the
  // other half, a strong hash is cut.
  ZUSE_TRY_VOID(check_supported(algorithm));
  ChecksumWords sum = compute(algorithm, data, blkptr.order);
  if (algorithm != Checksum::sha256 && algorithm != Checksum::sha512) {
    sum[0] ^= sum[2];
    sum[1] ^= sum[3];
  }
  return sum[0] == blkptr.checksum[0] && sum[1] == blkptr.checksum[1]
             ? Result<void>{}
             : fail(Errc::checksum, mismatch(algorithm));
}

void seal(format::Checksum kind, std::span<std::byte> block, const ChecksumWords& verifier,
          ByteOrder order) {
  ZUSE_CHECK(is_sealed_kind(kind));
  const Sealed where = layout(kind, block, order);
  ZUSE_CHECK(where.size != 0);
  const std::size_t words_at = where.seal_at + sizeof kSealMagic;
  store_at<std::uint64_t>(block, where.seal_at, kSealMagic, order);
  const auto sum = sealed_sum(kind, block.first(where.size), words_at, verifier, order);
  std::ranges::copy(to_bytes(sum, order), block.begin() + static_cast<std::ptrdiff_t>(words_at));
}

Result<ByteOrder> verify_sealed(format::Checksum kind, std::span<const std::byte> block,
                                const ChecksumWords& verifier) {
  ZUSE_CHECK(is_sealed_kind(kind));
  for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
    const Sealed where = layout(kind, block, order);
    if (where.size == 0 || load_at<std::uint64_t>(block, where.seal_at, order) != kSealMagic) {
      continue;
    }
    const std::size_t words_at = where.seal_at + sizeof kSealMagic;
    const auto sum = sealed_sum(kind, block.first(where.size), words_at, verifier, order);
    const auto stored = block.subspan(words_at, sizeof(ChecksumWords));
    if (std::ranges::equal(to_bytes(sum, order), stored)) {
      return order;
    }
    return fail(Errc::checksum, mismatch(kind));
  }
  return fail(Errc::checksum, std::string(to_string(kind)) + " checksum: no magic number");
}

}  // namespace zuse::codec
