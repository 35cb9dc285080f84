// The tables between kinds of errors and errno.
#include "fs/fuse/errno.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace zuse::fuse {
namespace {

constexpr unsigned kKinds = static_cast<unsigned>(Errc::stopped) + 1;

TEST(Errno, EveryKindHasANumberThatTheKernelTakes) {
  for (unsigned i = 0; i < kKinds; ++i) {
    const int number = to_errno(static_cast<Errc>(i));
    EXPECT_GT(number, 0) << i;
    EXPECT_LT(number, 512) << i;  // from there on, numbers are the kernel's own
    EXPECT_NE(number, ENOSYS) << "would make the kernel never ask again, for kind " << i;
  }
}

TEST(Errno, LostDataIsAnInputOutputError) {
  for (const Errc code : {Errc::io, Errc::gone, Errc::checksum, Errc::corrupt, Errc::stopped}) {
    EXPECT_EQ(to_errno(code), EIO);
  }
}

TEST(Errno, KindsThatProgramsTellApartComeBackFromTheirNumber) {
  for (unsigned i = 0; i < kKinds; ++i) {
    const auto code = static_cast<Errc>(i);
    if (to_errno(code) != EIO) {
      EXPECT_EQ(from_errno(to_errno(code)), code) << zuse::to_string(code);
    }
  }
}

TEST(Errno, SystemErrorsNameWhatFailedAndWhy) {
  const Error error = system_error(ENOENT, "opening '/x'");
  EXPECT_EQ(error.code(), Errc::not_found);
  EXPECT_EQ(error.what(), std::string("opening '/x': ") + std::strerror(ENOENT));
}

}  // namespace
}  // namespace zuse::fuse
