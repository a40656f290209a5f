// Tests of the lines in a pipe whose reader stands still.
#include "common/base/line_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

namespace tern {
namespace {

class LinePipe : public testing::Test {
 protected:
  LinePipe() { EXPECT_EQ(pipe2(fds_.data(), O_CLOEXEC | O_NONBLOCK), 0); }
  ~LinePipe() override {
    for (const int fd : fds_) close(fd);
  }
  // All that is in the pipe.
  std::string Take() const {
    std::string text;
    std::array<char, 4096> bytes{};
    for (ssize_t n = 0; (n = read(fds_[0], bytes.data(), bytes.size())) > 0;)
      text.append(bytes.data(), static_cast<size_t>(n));
    return text;
  }
  int writer() const { return fds_[1]; }

 private:
  std::array<int, 2> fds_{};
};

// Of a page of 4096 bytes, lines of 2049 use half.
TEST_F(LinePipe, PassingLinesLeaveHalfOfItToALastingOne) {
  const auto capacity = static_cast<size_t>(fcntl(writer(), F_GETPIPE_SZ));
  for (const size_t size : {100u, 1500u, 2048u, 2049u, 6200u}) {
    const std::string passing(size, 'p'), lasting(capacity / 2 - 1, 'l');
    size_t num_written = 0;
    for (size_t i = 0; i < 2000; ++i)
      if (WriteLine(writer(), passing, LineValue::kPassing)) ++num_written;
    EXPECT_GT(num_written, 0u);
    EXPECT_TRUE(WriteLine(writer(), lasting, LineValue::kLasting)) << size;
    std::string expected;
    for (size_t i = 0; i < num_written; ++i) expected += passing + "\n";
    EXPECT_TRUE(Take() == expected + lasting + "\n") << size;
  }
}

TEST_F(LinePipe, AnEmptyOneTakesALongLine) {
  const auto capacity = static_cast<size_t>(fcntl(writer(), F_GETPIPE_SZ));
  const std::string line(capacity / 2 - 1, 'p');
  EXPECT_TRUE(WriteLine(writer(), line, LineValue::kPassing));
  EXPECT_FALSE(WriteLine(writer(), "p", LineValue::kPassing));
  EXPECT_TRUE(Take() == line + "\n");
  EXPECT_FALSE(WriteLine(writer(), line + "p", LineValue::kPassing));
  EXPECT_EQ(Take(), "");
}

TEST(LineFile, HasRoomForAll) {
  const std::string path = testing::TempDir() + "tern_line_file";
  const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(WriteLine(fd, std::string(5000, 'p'), LineValue::kPassing));
  EXPECT_EQ(lseek(fd, 0, SEEK_END), 100 * 5001);
  close(fd);
  unlink(path.c_str());
}

}  // namespace
}  // namespace tern
