#include "tools/launch/frames.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "common/base/file.h"
#include "proto/launch.pb.h"

namespace tern::tools {
namespace {

using testing::HasSubstr;

class FramesTest : public testing::Test {
 protected:
  FramesTest() {
    signal(SIGPIPE, SIG_IGN);
    std::array<int, 2> fds{};
    EXPECT_EQ(pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK), 0);
    reader_end_.emplace(fds[0]);
    writer_end_.emplace(fds[1]);
  }
  void Write(std::string_view bytes) const {
    EXPECT_EQ(write(writer_end_->fd(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  static pb::FromHost Lines(const std::string& text) {
    pb::FromHost message;
    message.mutable_lines()->set_text(text);
    return message;
  }
  // The text of the next frame; "": none is there.
  std::string Next() {
    while (reader_.ReadFrom(reader_end_->fd()) > 0) {
    }
    pb::FromHost message;
    const Result<bool> is_there = reader_.Next(&message);
    EXPECT_TRUE(is_there.ok()) << is_there.status().message();
    return is_there.ok() && *is_there ? message.lines().text() : "";
  }

  std::optional<File> reader_end_, writer_end_;
  FrameReader reader_;
};

TEST_F(FramesTest, ArriveInOrderAndWhole) {
  EXPECT_TRUE(WriteFrame(writer_end_->fd(), Lines("one")).ok());
  EXPECT_TRUE(WriteFrame(writer_end_->fd(), Lines("two")).ok());
  const std::string third = std::string("\x05\0\0\0", 4) + "\x1a\x03\x1a";
  Write(third);
  EXPECT_EQ(Next(), "one");
  EXPECT_EQ(Next(), "two");
  EXPECT_EQ(Next(), "");
  Write(std::string("\x01x", 2));
  EXPECT_EQ(Next(), "x");
}

TEST_F(FramesTest, BeginBehindTheGreeting) {
  Write("Welcome to node0!");
  EXPECT_EQ(reader_.ReadFrom(reader_end_->fd()), 17);
  EXPECT_FALSE(reader_.SkipToGreeting());
  Write(kHostGreeting);
  EXPECT_TRUE(WriteFrame(writer_end_->fd(), Lines("one")).ok());
  EXPECT_GT(reader_.ReadFrom(reader_end_->fd()), 0);
  EXPECT_TRUE(reader_.SkipToGreeting());
  EXPECT_EQ(Next(), "one");
}

TEST_F(FramesTest, RefusesOtherBytes) {
  Write("Last login: today");
  EXPECT_GT(reader_.ReadFrom(reader_end_->fd()), 0);
  pb::FromHost message;
  const Result<bool> is_there = reader_.Next(&message);
  EXPECT_EQ(is_there.status().code(), Code::kMismatch);
  EXPECT_THAT(is_there.status().message(), HasSubstr("same version"));
}

TEST_F(FramesTest, SayWhyTheyCannotBeWritten) {
  EXPECT_EQ(WriteFrame(writer_end_->fd(), Lines(std::string(1 << 20, 'x'))).code(),
            Code::kInternal);
  reader_end_.reset();
  EXPECT_EQ(WriteFrame(writer_end_->fd(), Lines("x")).code(), Code::kPeerLost);
}

}  // namespace
}  // namespace tern::tools
