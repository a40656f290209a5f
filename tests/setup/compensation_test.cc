// Tests, for all codecs, whether workers or servers compute DC-ASGD's compensation of delayed
// gradients, and that the validation of jobs refuses a setting that would contradict this.
#include <gmock/gmock.h>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "common/protocol/plan/codec_options.h"
#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using ::testing::HasSubstr;

// A job's settings of codecs, and whether its pushes are the gradients themselves, at most rounded
// to 16 bits.
struct CodecCase {
  std::vector<std::string> overrides;
  bool sends_gradients;
};

std::vector<CodecCase> MakeCasesOfEveryCodec() {
  std::vector<CodecCase> cases;
  for (const std::string& name : codec::CodecNames()) {
    if (!codec::CanDecodeAlone(name)) continue;  // Algorithms without rounds refuse it.
    const bool is_float = name == "fp32" || name == "fp16" || name == "bf16";
    cases.push_back({{"exchange.codec=" + name}, is_float});
    cases.push_back(
        {{"exchange.codec=fp32", "exchange.rules=[{tensors: fc3.weight, codec: " + name + "}]"},
         is_float});
    const auto codec = codec::MakeCodec(name, {});
    if (codec.ok() && (*codec)->is_stochastic()) continue;  // This codec refuses error_feedback.
    cases.push_back({{"exchange.codec=" + name, "exchange.error_feedback=true"}, name == "fp32"});
  }
  return cases;
}

Result<std::unique_ptr<Setup>> MakeJob(const CodecCase& c,
                                       const std::vector<std::string>& extra_overrides = {}) {
  std::vector<std::string> overrides = {"train.algorithm=dcasgd_a"};
  overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
  overrides.insert(overrides.end(), extra_overrides.begin(), extra_overrides.end());
  return MakeSetup(SmallJobFile().path(), overrides);
}

TEST(DelayCompensation, IsDoneByWorkersUnlessEveryCodecSendsTheGradientItself) {
  for (const CodecCase& c : MakeCasesOfEveryCodec()) {
    SCOPED_TRACE(testing::PrintToString(c.overrides));
    const auto job = MakeJob(c);
    ASSERT_TRUE(job.ok()) << job.status().message();
    EXPECT_EQ(protocol::WorkersFormTerm((*job)->job), !c.sends_gradients);
    EXPECT_EQ((*job)->plan.pulls_first, !c.sends_gradients);
    const auto explicit_job = MakeJob(c, {"train.dcasgd_a.compensation=on_worker"});
    ASSERT_TRUE(explicit_job.ok()) << explicit_job.status().message();
    EXPECT_TRUE(protocol::WorkersFormTerm((*explicit_job)->job));
  }
}

TEST(DelayCompensation, MayBeDoneByServersOnlyIfThatIsTheDefault) {
  for (const CodecCase& c : MakeCasesOfEveryCodec()) {
    SCOPED_TRACE(testing::PrintToString(c.overrides));
    const auto job = MakeJob(c, {"train.dcasgd_a.compensation=on_server"});
    ASSERT_EQ(job.ok(), c.sends_gradients) << job.status().message();
    if (c.sends_gradients) {
      EXPECT_FALSE(protocol::WorkersFormTerm((*job)->job));
    } else {
      EXPECT_THAT(job.status().message(), HasSubstr("train.dcasgd_a.compensation: saw on_server"));
    }
  }
}

TEST(DelayCompensation, MayUseAGlobalMeanSquareOnlyIfServersDoIt) {
  for (const CodecCase& c : MakeCasesOfEveryCodec()) {
    SCOPED_TRACE(testing::PrintToString(c.overrides));
    const auto job = MakeJob(c, {"train.dcasgd_a.mean_square_scope=global"});
    ASSERT_EQ(job.ok(), c.sends_gradients) << job.status().message();
    if (!c.sends_gradients) {
      EXPECT_THAT(job.status().message(),
                  HasSubstr("train.dcasgd_a.mean_square_scope: saw global"));
    }
    EXPECT_FALSE(MakeJob(c, {"train.dcasgd_a.mean_square_scope=global",
                             "train.dcasgd_a.compensation=on_worker"})
                     .ok());
  }
}

}  // namespace
}  // namespace tern::setup
