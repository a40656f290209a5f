// Whether workers or servers form DC-ASGD's term, for all codecs. Validation must agree with what
// servers and workers do.
#include <gmock/gmock.h>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "common/protocol/plan/codec_options.h"
#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using ::testing::HasSubstr;

// The exchange section of a job, and whether its pushes are the gradients themselves, at most
// rounded.
struct Case {
  std::vector<std::string> keys;
  bool values;
};

std::vector<Case> EveryCodec() {
  std::vector<Case> cases;
  for (const std::string& name : codec::CodecNames()) {
    const bool is_float = name == "fp32" || name == "fp16" || name == "bf16";
    cases.push_back({{"exchange.codec=" + name}, is_float});
    // One rule that matches a tensor, and one that matches none.
    for (const char* tensors : {"ip2.weight", "nothing"}) {
      cases.push_back({{"exchange.codec=fp32", "exchange.rules=[{tensors: " + std::string(tensors) +
                                                   ", codec: " + name + "}]"},
                       is_float});
    }
    const auto codec = codec::MakeCodec(name, {});
    if (codec.ok() && (*codec)->stochastic()) continue;  // this codec refuses error_feedback
    cases.push_back({{"exchange.codec=" + name, "exchange.error_feedback=true"}, name == "fp32"});
  }
  return cases;
}

Result<std::unique_ptr<Setup>> JobOf(const Case& c, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"train.algorithm=dcasgd_a"};
  all.insert(all.end(), c.keys.begin(), c.keys.end());
  all.insert(all.end(), more.begin(), more.end());
  return MakeSetup(SmallJobFile().path(), all);
}

TEST(DelayCompensation, WorkersFormItUnlessEveryCodecSendsTheGradientItself) {
  for (const Case& c : EveryCodec()) {
    SCOPED_TRACE(testing::PrintToString(c.keys));
    const auto job = JobOf(c);
    ASSERT_TRUE(job.ok()) << job.status().message();
    EXPECT_EQ(protocol::WorkersFormTerm((*job)->job), !c.values);
    const auto told = JobOf(c, {"train.dcasgd_a.compensation=on_worker"});
    ASSERT_TRUE(told.ok()) << told.status().message();
    EXPECT_TRUE(protocol::WorkersFormTerm((*told)->job));
  }
}

TEST(DelayCompensation, ServersMayFormItExactlyWhenThatIsTheDefault) {
  for (const Case& c : EveryCodec()) {
    SCOPED_TRACE(testing::PrintToString(c.keys));
    const auto job = JobOf(c, {"train.dcasgd_a.compensation=on_server"});
    ASSERT_EQ(job.ok(), c.values) << job.status().message();
    if (c.values) {
      EXPECT_FALSE(protocol::WorkersFormTerm((*job)->job));
    } else {
      EXPECT_THAT(job.status().message(), HasSubstr("train.dcasgd_a.compensation: saw on_server"));
    }
  }
}

TEST(DelayCompensation, MeanSquareIsGlobalOnlyIfServersFormIt) {
  for (const Case& c : EveryCodec()) {
    SCOPED_TRACE(testing::PrintToString(c.keys));
    const auto job = JobOf(c, {"train.dcasgd_a.mean_square_scope=global"});
    ASSERT_EQ(job.ok(), c.values) << job.status().message();
    if (!c.values) {
      EXPECT_THAT(job.status().message(),
                  HasSubstr("train.dcasgd_a.mean_square_scope: saw global"));
    }
    EXPECT_FALSE(JobOf(c, {"train.dcasgd_a.mean_square_scope=global",
                           "train.dcasgd_a.compensation=on_worker"})
                     .ok());
  }
}

}  // namespace
}  // namespace tern::setup
