// The fields of the kernel's messages that are read and written past libfuse.
#include "fs/fuse/set_id_bits.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

namespace zuse::fuse {
namespace {

template <class T>
std::vector<std::byte> request(std::uint32_t opcode, const T& argument) {
  fuse_in_header header{};
  header.opcode = opcode;
  std::vector<std::byte> bytes(sizeof header + sizeof argument);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &argument, sizeof argument);
  return bytes;
}

TEST(RequestMarks, AWriteSaysWhetherBitsGo) {
  fuse_write_in write{};
  EXPECT_FALSE(marks_of(request(FUSE_WRITE, write)).clears_set_id);
  write.write_flags = FUSE_WRITE_KILL_SUIDGID | FUSE_WRITE_CACHE;
  EXPECT_TRUE(marks_of(request(FUSE_WRITE, write)).clears_set_id);
}

TEST(RequestMarks, SoDoesATruncation) {
  fuse_setattr_in change{};
  change.valid = FATTR_SIZE;
  EXPECT_FALSE(marks_of(request(FUSE_SETATTR, change)).clears_set_id);
  change.valid |= FATTR_KILL_SUIDGID;
  EXPECT_TRUE(marks_of(request(FUSE_SETATTR, change)).clears_set_id);
}

TEST(RequestMarks, WhoAllocatesIsKnownByNumberOnly) {
  fuse_in_header header{};
  header.opcode = FUSE_FALLOCATE;
  EXPECT_FALSE(marks_of(std::as_bytes(std::span(&header, 1))).clears_set_id);
  header.uid = 1000;
  EXPECT_TRUE(marks_of(std::as_bytes(std::span(&header, 1))).clears_set_id);
}

TEST(RequestMarks, TheSameBitsInOtherRequestsMeanNothing) {
  fuse_write_in write{};
  write.write_flags = ~0U;
  EXPECT_FALSE(marks_of(request(FUSE_READ, write)).clears_set_id);
  EXPECT_FALSE(marks_of(request(FUSE_READ, write)).offers_promise);
}

TEST(RequestMarks, ShortRequestsHaveNone) {
  fuse_write_in write{};
  write.write_flags = ~0U;
  const std::vector<std::byte> whole = request(FUSE_WRITE, write);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(marks_of(std::span(whole).first(size)).clears_set_id) << size;
  }
}

TEST(Promise, IsPutIntoTheAnswerBesideWhatIsThere) {
  fuse_init_in init{};
  EXPECT_FALSE(marks_of(request(FUSE_INIT, init)).offers_promise);
  init.flags = FUSE_HANDLE_KILLPRIV_V2;
  EXPECT_TRUE(marks_of(request(FUSE_INIT, init)).offers_promise);

  fuse_out_header header{};
  fuse_init_out answer{};
  answer.flags = FUSE_WRITEBACK_CACHE;
  answer.max_write = 1U << 20U;
  const std::array<iovec, 2> reply{{{&header, sizeof header}, {&answer, sizeof answer}}};
  EXPECT_TRUE(add_promise(reply));
  EXPECT_EQ(answer.flags,
            static_cast<std::uint32_t>(FUSE_WRITEBACK_CACHE | FUSE_HANDLE_KILLPRIV_V2));
  EXPECT_EQ(answer.max_write, 1U << 20U);
}

TEST(Promise, FailuresAndShortAnswersStayAsTheyAre) {
  fuse_out_header header{};
  header.error = -EPROTO;
  fuse_init_out answer{};
  const std::array<iovec, 2> failed{{{&header, sizeof header}, {&answer, sizeof answer}}};
  EXPECT_FALSE(add_promise(failed));
  header.error = 0;
  const std::array<iovec, 2> shortened{{{&header, sizeof header}, {&answer, 24}}};
  EXPECT_FALSE(add_promise(shortened));
  EXPECT_FALSE(add_promise(std::span(failed).first(1)));
  EXPECT_EQ(answer.flags, 0U);
}

}  // namespace
}  // namespace zuse::fuse
