// Tests of the answers to senders of invalid frames, and of the log lines about them.
#include "server/frame_refusals.h"

#include <glog/logging.h>
#include <gtest/gtest.h>

namespace tern::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Counts the lines that are logged while it lives.
class LogLines : public google::LogSink {
 public:
  LogLines() { google::AddLogSink(this); }
  ~LogLines() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity, const char*, const char*, int, const struct ::tm*, const char*,
            size_t) override {
    ++count_;
  }
  int count() const { return count_; }

 private:
  int count_ = 0;
};

const net::FrameError kFault{net::Fault::kDamaged,
                             Status(Code::kNotAllowed, "was damaged on its way")};

TEST(FrameRefusals, APeerThatReadsNothingGetsFewAnswers) {
  FrameRefusals refusals;
  const Time begin = seconds(100);
  EXPECT_TRUE(refusals.Answer(7, kFault, begin).has_value());
  EXPECT_FALSE(refusals.Answer(7, kFault, begin + milliseconds(999)).has_value()) << "too soon";
  EXPECT_TRUE(refusals.Answer(8, kFault, begin + milliseconds(999)).has_value()) << "another peer";
  int num_answers = 1;
  for (int i = 1; i < 100; ++i) {
    if (refusals.Answer(7, kFault, begin + seconds(i)).has_value()) ++num_answers;
  }
  EXPECT_EQ(num_answers, FrameRefusals::kMaxAnswers);
}

TEST(FrameRefusals, ADaemonOfAnotherVersionLeavesAndEveryOtherConnectsAgain) {
  FrameRefusals refusals;
  EXPECT_EQ(refusals.Answer(1, kFault, seconds(1))->head.refuse().then(), pb::Refuse::reconnect);
  const net::FrameError other_version{net::Fault::kOtherVersion,
                                      Status(Code::kMismatch, "wire version 3")};
  const auto answer = refusals.Answer(2, other_version, seconds(1));
  EXPECT_EQ(answer->head.refuse().then(), pb::Refuse::leave);
  EXPECT_EQ(answer->head.refuse().code(), 76u);
}

TEST(FrameRefusals, AFloodIsLoggedOnceASecond) {
  FrameRefusals refusals;
  const LogLines lines;
  for (int i = 0; i < 10000; ++i)
    refusals.Answer(static_cast<net::PeerId>(i + 1), kFault, milliseconds(i));
  EXPECT_GE(lines.count(), 10);
  EXPECT_LE(lines.count(), 13);
}

}  // namespace
}  // namespace tern::server
