// Nvlists: the vector of the format page byte for byte, every type through both encodings, and
// hostile bytes.
#include "fs/codec/nvlist.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/support/seed.h"
#include "vdev/base/on_disk.h"

namespace zuse::codec {
namespace {

using Bytes = std::vector<std::byte>;

// source: format page 01 section 2.2.
constexpr const char* kVector = R"(
01 01 00 00 00 00 00 00 00 00 00 01 00 00 00 24
00 00 00 20 00 00 00 07 76 65 72 73 69 6f 6e 00
00 00 00 08 00 00 00 01 00 00 00 00 00 00 13 88
00 00 00 20 00 00 00 20 00 00 00 04 6e 61 6d 65
00 00 00 09 00 00 00 01 00 00 00 04 74 61 6e 6b
00 00 00 18 00 00 00 18 00 00 00 01 66 00 00 00
00 00 00 01 00 00 00 00 00 00 00 48 00 00 00 30
00 00 00 04 74 72 65 65 00 00 00 13 00 00 00 01
00 00 00 00 00 00 00 01 00 00 00 20 00 00 00 20
00 00 00 02 69 64 00 00 00 00 00 08 00 00 00 01
00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00 00 00 58 00 00 00 58 00 00 00 01 63 00 00 00
00 00 00 14 00 00 00 02 00 00 00 00 00 00 00 01
00 00 00 20 00 00 00 20 00 00 00 02 69 64 00 00
00 00 00 08 00 00 00 01 00 00 00 00 00 00 00 01
00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
00 00 00 00 00 00 00 00 00 00 00 2c 00 00 00 28
00 00 00 01 68 00 00 00 00 00 00 10 00 00 00 02
00 00 00 02 00 00 00 00 00 00 00 07 00 00 00 00
00 00 00 09 00 00 00 00 00 00 00 00
)";

Bytes from_hex(const char* text) {
  std::istringstream in(text);
  Bytes out;
  for (unsigned value = 0; in >> std::hex >> value;) {
    out.push_back(static_cast<std::byte>(value));
  }
  return out;
}

NvList vector_list() {
  NvList list, tree, first, second;
  list.set_u64("version", 5000);
  list.set_string("name", "tank");
  list.set_boolean("f");
  tree.set_u64("id", 0);
  list.set_list("tree", tree);
  first.set_u64("id", 1);
  list.set_lists("c", {first, second});
  list.set_u64s("h", {7, 9});
  return list;
}

// A list with every type there is, filled at random.
NvList all_types(std::mt19937_64& random, unsigned depth) {
  NvList list;
  for (unsigned type = 1; type <= 27; ++type) {
    NvPair pair;
    pair.type = static_cast<NvType>(type);
    pair.name = "pair" + std::string(random() % 9, 'x') + std::to_string(type);
    const auto text = [&] {
      return std::string(random() % 20, static_cast<char>('a' + random() % 26));
    };
    const auto number = [&]() -> std::uint64_t {
      switch (pair.type) {
        case NvType::byte:
        case NvType::uint8:
        case NvType::uint8_array: return random() % 256;
        case NvType::uint16:
        case NvType::uint16_array: return random() % 65536;
        case NvType::uint32:
        case NvType::uint32_array: return random() % (std::uint64_t{1} << 32U);
        case NvType::int8:
        case NvType::int8_array:
          return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int8_t>(random())});
        case NvType::int16:
        case NvType::int16_array:
          return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int16_t>(random())});
        case NvType::int32:
        case NvType::int32_array:
          return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(random())});
        case NvType::boolean_value:
        case NvType::boolean_array: return random() % 2;
        default: return random();
      }
    };
    switch (pair.type) {
      case NvType::boolean: break;
      case NvType::real: pair.value = 0.25 * static_cast<double>(random() % 1000); break;
      case NvType::string: pair.value = text(); break;
      case NvType::string_array: pair.value = std::vector<std::string>{text(), text(), ""}; break;
      case NvType::byte_array: {
        Bytes bytes(random() % 13);
        std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
        pair.value = bytes;
        break;
      }
      case NvType::nvlist:
      case NvType::nvlist_array: {
        const std::size_t count = pair.type == NvType::nvlist ? 1 : random() % 4;
        std::vector<NvList> lists(count);
        for (NvList& below : lists) {
          below = depth == 0 ? NvList() : all_types(random, depth - 1);
        }
        pair.value = lists;
        break;
      }
      case NvType::int8_array:
      case NvType::uint8_array:
      case NvType::int16_array:
      case NvType::uint16_array:
      case NvType::int32_array:
      case NvType::uint32_array:
      case NvType::int64_array:
      case NvType::uint64_array:
      case NvType::boolean_array: {
        std::vector<std::uint64_t> numbers(random() % 6);
        std::ranges::generate(numbers, number);
        pair.value = numbers;
        break;
      }
      default: pair.value = number(); break;
    }
    list.pairs().push_back(std::move(pair));
  }
  return list;
}

TEST(NvList, TheFormatPagesListEncodesToItsBytesAndBack) {
  const Bytes wanted = from_hex(kVector);
  ASSERT_EQ(wanted.size(), 316U);
  EXPECT_EQ(vector_list().encode_xdr(ByteOrder::little), wanted);
  const auto decoded = NvList::decode(wanted);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().what();
  EXPECT_EQ(*decoded, vector_list());
}

TEST(NvList, EveryTypeSurvivesBothEncodings) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 100; ++round) {
    const NvList list = all_types(random, round % 3 == 0 ? 1 : 0);
    const auto xdr = NvList::decode(list.encode_xdr());
    ASSERT_TRUE(xdr.has_value()) << xdr.error().what();
    EXPECT_EQ(*xdr, list);
    const auto native = NvList::decode(list.encode_native());
    ASSERT_TRUE(native.has_value()) << native.error().what();
    EXPECT_EQ(*native, list);
  }
}

TEST(NvList, NativePairsLieAsTheFormatPageDrawsThem) {
  NvList list;
  list.set_u64("history txg", 0x1122334455667788);
  list.set_string("dsname", "tank");
  const Bytes bytes = list.encode_native();
  // head 4, version and flags 8, then a pair: 16 + align8("history txg" and NUL) + 8
  ASSERT_EQ(bytes.size(), 4U + 8 + (32 + 8) + (24 + 8) + 4);
  EXPECT_EQ(bytes[0], std::byte{0});
  const std::span<const std::byte> pair = std::span(bytes).subspan(12);
  EXPECT_EQ(load_at<std::uint32_t>(pair, 0, kHostOrder), 40U);
  EXPECT_EQ(load_at<std::uint16_t>(pair, 4, kHostOrder), 12U);
  EXPECT_EQ(load_at<std::uint32_t>(pair, 8, kHostOrder), 1U);
  EXPECT_EQ(load_at<std::uint32_t>(pair, 12, kHostOrder), 8U);
  EXPECT_EQ(load_at<std::uint64_t>(pair, 32, kHostOrder), 0x1122334455667788U);
}

TEST(NvList, GettersNameWhatIsMissingOrOfAnotherType) {
  const NvList list = vector_list();
  EXPECT_EQ(*list.u64("version"), 5000U);
  EXPECT_EQ(*list.string("name"), "tank");
  EXPECT_EQ(*(*list.list("tree"))->u64("id"), 0U);
  EXPECT_EQ(list.lists("c")->size(), 2U);
  EXPECT_EQ((*list.u64s("h"))[1], 9U);
  EXPECT_TRUE(list.has("f"));
  EXPECT_EQ(list.u64("absent").error().code(), Errc::not_found);
  EXPECT_NE(list.u64("absent").error().what().find("absent"), std::string::npos);
  EXPECT_EQ(list.u64("name").error().code(), Errc::corrupt);
  EXPECT_EQ(list.u64_or("name", 7), 7U);
  EXPECT_EQ(list.string_or("version", "x"), "x");
}

TEST(NvList, SettingReplacesInPlaceAndErasingRemoves) {
  NvList list = vector_list();
  list.set_string("version", "other");
  EXPECT_EQ(list.pairs()[0].name, "version");
  EXPECT_EQ(*list.string("version"), "other");
  EXPECT_TRUE(list.erase("tree"));
  EXPECT_FALSE(list.erase("tree"));
  EXPECT_EQ(list.pairs().size(), 5U);
}

TEST(NvList, ListsNestedTooDeepAreRefused) {
  NvList list;
  for (int depth = 0; depth < 100; ++depth) {
    NvList outer;
    outer.set_list("l", std::move(list));
    list = std::move(outer);
  }
  EXPECT_EQ(NvList::decode(list.encode_xdr()).error().code(), Errc::corrupt);
  EXPECT_EQ(NvList::decode(list.encode_native()).error().code(), Errc::corrupt);
}

TEST(NvList, HostileBytesEndInAnErrorOrAListButNeverInHarm) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = round % 2 == 0 ? vector_list().encode_xdr() : vector_list().encode_native();
    for (auto flips = 1 + random() % 6; flips > 0; --flips) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0: bytes[at] = static_cast<std::byte>(random()); break;
        case 1: bytes[at] = std::byte{0xff}; break;
        default: bytes[at] ^= static_cast<std::byte>(1U << (random() % 8)); break;
      }
    }
    if (random() % 3 == 0) {
      bytes.resize(random() % (bytes.size() + 1));
    }
    if (const auto list = NvList::decode(bytes)) {
      (void)to_text(*list);
      const auto again = NvList::decode(list->encode_xdr());
      ASSERT_TRUE(again.has_value()) << again.error().what();
    }
  }
  EXPECT_FALSE(NvList::decode({}).has_value());
  EXPECT_EQ(NvList::decode(from_hex("07 01 00 00 00 00 00 00")).error().code(), Errc::unsupported);
}

TEST(NvList, TextShowsNestedListsIndented) {
  const std::string text = to_text(vector_list());
  EXPECT_NE(text.find("name: 'tank'"), std::string::npos);
  EXPECT_NE(text.find("    id: 1"), std::string::npos);
}

}  // namespace
}  // namespace zuse::codec
