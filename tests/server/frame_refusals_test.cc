// Tests of the answers to senders of invalid frames, and of the log lines about them.
#include "server/frame_refusals.h"

#include <gtest/gtest.h>

#include "common/base/log_sink.h"

namespace tern::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Counts the lines that are logged while it lives.
class LogLines {
 public:
  LogLines() : old_sink_(SetLogSink([](const LogRecord&) { ++count_; })) { count_ = 0; }
  ~LogLines() { SetLogSink(old_sink_); }
  int count() const { return count_; }

 private:
  inline static int count_ = 0;
  const LogSink old_sink_;
};

const net::FrameError kFault{net::Fault::kDamaged,
                             Status(Code::kNotAllowed, "was damaged on its way")};

TEST(FrameRefusals, ADaemonOfAnotherVersionLeavesAndEveryOtherConnectsAgain) {
  FrameRefusals refusals;
  EXPECT_EQ(refusals.Answer(kFault, seconds(1)).head.refuse().then(), pb::Refuse::reconnect);
  const net::FrameError other_version{net::Fault::kOtherVersion,
                                      Status(Code::kMismatch, "wire version 3")};
  const protocol::Message answer = refusals.Answer(other_version, seconds(1));
  EXPECT_EQ(answer.head.refuse().then(), pb::Refuse::leave);
  EXPECT_EQ(answer.head.refuse().code(), 76u);
}

TEST(FrameRefusals, AFloodIsLoggedOnceASecond) {
  FrameRefusals refusals;
  const LogLines lines;
  for (int i = 0; i < 10000; ++i) refusals.Answer(kFault, milliseconds(i));
  EXPECT_GE(lines.count(), 10);
  EXPECT_LE(lines.count(), 13);
}

}  // namespace
}  // namespace tern::server
