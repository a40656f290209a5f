// Tests of what `tern doctor` says about figures, without looking at the machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/doctor/cores.h"
#include "tools/doctor/disk.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/limits.h"
#include "tools/doctor/links.h"
#include "tools/doctor/load.h"
#include "tools/doctor/tcp.h"

namespace tern::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kGigabyte = 1'000'000'000;

TEST(Findings, AreLinesWithTheFirstBadOneAsTheStatus) {
  const Findings findings = {Good("a", "fine"), Warning("b", "saw 1, expected 2"),
                             Bad(Code::kAddress, "c", "saw 3"),
                             Bad(Code::kCannotWrite, "d", "saw 4")};
  EXPECT_EQ(FormatFindings(findings),
            "good  a: fine\nwarn  b: saw 1, expected 2\nbad   c: saw 3\nbad   d: saw 4\n");
  EXPECT_EQ(StatusOf(findings).code(), Code::kAddress);
  EXPECT_EQ(StatusOf(findings).message(),
            "the job cannot run here: c: saw 3 (and 1 more, see above)");
  EXPECT_TRUE(StatusOf({findings[0], findings[1]}).ok());
}

TEST(Judgement, OfOpenFiles) {
  EXPECT_EQ(JudgeOpenFiles(300, 300).grade, Grade::kGood);
  const Finding finding = JudgeOpenFiles(256, 300);
  EXPECT_EQ(finding.grade, Grade::kBad);
  EXPECT_THAT(finding.sentence,
              AllOf(HasSubstr("a limit of 256, expected at least 300"), HasSubstr("ulimit -Hn")));
}

TEST(Judgement, OfTcp) {
  EXPECT_EQ(JudgeTcp({false, 4 << 20, 6 << 20}).grade, Grade::kGood);
  EXPECT_EQ(JudgeTcp({false, 0, 0}).grade, Grade::kGood) << "the kernel does not say";
  const Finding slow_start = JudgeTcp({true, 4 << 20, 6 << 20});
  EXPECT_EQ(slow_start.grade, Grade::kWarning);
  EXPECT_THAT(slow_start.sentence,
              AllOf(HasSubstr("saw net.ipv4.tcp_slow_start_after_idle = 1, expected 0"),
                    HasSubstr("sysctl -w net.ipv4.tcp_slow_start_after_idle=0 on all hosts"),
                    testing::Not(HasSubstr("wmem"))));
  EXPECT_THAT(JudgeTcp({false, 1 << 20, 6 << 20}).sentence,
              AllOf(HasSubstr("net.ipv4.tcp_wmem = ... 1048576"),
                    HasSubstr("sysctl -w net.ipv4.tcp_wmem='4096 131072 4194304'")));
  EXPECT_THAT(JudgeTcp({false, 4 << 20, 1 << 20}).sentence, HasSubstr("tcp_rmem = ... 1048576"));
}

TEST(Judgement, OfMemory) {
  EXPECT_EQ(JudgeMemory(2 * kGigabyte, false, kGigabyte).grade, Grade::kGood);
  const Finding finding = JudgeMemory(kGigabyte, true, 2 * kGigabyte);
  EXPECT_EQ(finding.grade, Grade::kWarning);
  EXPECT_THAT(finding.sentence, HasSubstr("saw 1.0 GB allowed by the control group, expected 2.0 "
                                          "GB for the daemons here"));
}

TEST(Judgement, OfThreads) {
  EXPECT_EQ(JudgeThreads(4, 4, std::nullopt).grade, Grade::kGood);
  EXPECT_EQ(JudgeThreads(4, 4, 8.0).grade, Grade::kGood);
  EXPECT_THAT(JudgeThreads(5, 4, std::nullopt).sentence,
              HasSubstr("saw 5 threads that compute in the workers here, expected at most the "
                        "usable cores, 4; "));
  const Finding of_quota = JudgeThreads(2, 4, 1.5);
  EXPECT_EQ(of_quota.grade, Grade::kWarning);
  EXPECT_THAT(of_quota.sentence,
              HasSubstr("cores, 1.5 (the CPU quota of the control group) of 4; "));
}

TEST(Judgement, OfTheProcessor) {
  EXPECT_EQ(JudgeProcessor(true, true, true).grade, Grade::kGood);
  EXPECT_THAT(JudgeProcessor(true, false, false).sentence, HasSubstr("with AVX-512"));
  EXPECT_EQ(JudgeProcessor(false, false, false).grade, Grade::kWarning);
  const Finding no_bf16 = JudgeProcessor(true, false, true);
  EXPECT_EQ(no_bf16.grade, Grade::kBad);
  EXPECT_EQ(no_bf16.code, Code::kBadJob);
}

TEST(Judgement, OfTheLoad) {
  EXPECT_EQ(JudgeLoad({0.1, ""}, 2, 2).grade, Grade::kGood);
  EXPECT_EQ(JudgeLoad({1, "stress (process 7)"}, 4, 2).grade, Grade::kGood);
  EXPECT_EQ(JudgeLoad({0.1, ""}, 2, 8).grade, Grade::kGood) << "that is the finding of cores";
  const Finding finding = JudgeLoad({1, "stress (process 7)"}, 2, 2);
  EXPECT_EQ(finding.grade, Grade::kWarning);
  EXPECT_THAT(finding.sentence,
              HasSubstr("saw that 1.0 of 2 CPUs are busy with other programs, most of all with "
                        "stress (process 7), expected 2 free for the 2 threads that compute"));
}

TEST(Judgement, OfTheClock) {
  EXPECT_EQ(JudgeClock(true, false).grade, Grade::kGood);
  EXPECT_EQ(JudgeClock(false, true).grade, Grade::kGood) << "one machine has one clock";
  EXPECT_EQ(JudgeClock(std::nullopt, false).grade, Grade::kGood);
  const Finding finding = JudgeClock(false, false);
  EXPECT_EQ(finding.grade, Grade::kWarning);
  EXPECT_THAT(finding.sentence, HasSubstr("saw a clock that is not synchronized"));
}

TEST(Judgement, OfFreeSpace) {
  EXPECT_EQ(JudgeFreeSpace(2 * kGigabyte, kGigabyte).grade, Grade::kGood);
  const Finding finding = JudgeFreeSpace(kGigabyte, 2 * kGigabyte);
  EXPECT_EQ(finding.grade, Grade::kBad);
  EXPECT_EQ(finding.code, Code::kCannotWrite);
  EXPECT_THAT(finding.sentence,
              AllOf(HasSubstr("saw 1.0 GB free, expected about 2.0 GB"), HasSubstr("keep")));
}

// 100 MB/s write checkpoints of 1 GB in 10 s.
TEST(Judgement, OfTheDisksSpeed) {
  const auto judge = [](uint64_t every_steps, std::optional<double> step_s, double timeout_s) {
    return JudgeDiskSpeed(1e8, kGigabyte, every_steps, step_s, timeout_s);
  };
  EXPECT_EQ(judge(1000, 1.0, 60).grade, Grade::kGood);
  EXPECT_EQ(judge(100, std::nullopt, 60).grade, Grade::kGood) << "the step is not known";
  EXPECT_THAT(JudgeDiskSpeed(1e8, 0, 0, 1.0, 60).sentence, HasSubstr("no checkpoints"));
  const Finding often = judge(100, 1.0, 60);
  EXPECT_EQ(often.grade, Grade::kWarning);
  EXPECT_THAT(often.sentence,
              HasSubstr("saw 100.0 MB/s, so the checkpoints of the daemons here, 1.0 GB, take 10.0 "
                        "s every 1m 40s of computing (100 steps), expected at most 5 % of the "
                        "time; raise checkpoints.every_steps"));
  const Finding slow = judge(1000, 1.0, 5);
  EXPECT_EQ(slow.grade, Grade::kBad);
  EXPECT_THAT(slow.sentence, HasSubstr("expected less than 5.0 s, after which a worker that waits "
                                       "for its disk counts as lost"));
}

TEST(Judgement, OfARoute) {
  EXPECT_EQ(JudgeRoute("link", {"eth0", 1500, 1000}, 900).grade, Grade::kGood);
  EXPECT_EQ(JudgeRoute("link", {"veth0", 1500, std::nullopt}, 1e6).grade, Grade::kGood)
      << "the rate is not known";
  const Finding small = JudgeRoute("link", {"tun0", 1400, std::nullopt}, std::nullopt);
  EXPECT_EQ(small.grade, Grade::kWarning);
  EXPECT_THAT(small.sentence, HasSubstr("saw tun0, MTU 1400, its rate is not known, expected an "
                                        "MTU of 1500 or more"));
  const Finding slow = JudgeRoute("link", {"eth0", 1500, 100}, 91);
  EXPECT_EQ(slow.grade, Grade::kWarning);
  EXPECT_THAT(slow.sentence, HasSubstr("saw eth0, MTU 1500, 100 Mbit/s, expected 91 Mbit/s"));
}

TEST(Judgement, OfAnAnswer) {
  EXPECT_THAT(JudgeAnswer("server 0", "a:1", {Answer::kServer, 0.0005, ""}).sentence,
              AllOf(HasSubstr("a server answers at a:1"), HasSubstr("round trip took 500 us"),
                    HasSubstr("rate is not measured")));
  EXPECT_EQ(JudgeAnswer("server 0", "a:1", {Answer::kNobody, 0.0005, ""}).grade, Grade::kGood);
  for (const auto kind : {Answer::kOther, Answer::kSilent, Answer::kUnknown}) {
    const Finding finding = JudgeAnswer("server 0", "a:1", {kind, 0, "the reason"});
    EXPECT_EQ(finding.grade, Grade::kBad);
    EXPECT_EQ(finding.code, Code::kAddress);
    EXPECT_THAT(finding.sentence, AllOf(HasSubstr("a:1"), HasSubstr("expected")));
  }
}

}  // namespace
}  // namespace tern::tools
