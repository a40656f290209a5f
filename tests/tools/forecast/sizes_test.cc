// Tests of the predicted number of bytes that a round sends. A chunk is a piece of the model that
// is encoded and sent by itself. A segment is the elements of one tensor in one chunk.
#include "tools/forecast/sizes.h"

#include <gtest/gtest.h>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"
#include "tools/forecast/forecast.h"

namespace tern::tools {
namespace {

constexpr double kNumParameters = 431080;  // of LeNet

RoundTotals TotalsFor(const std::vector<std::string>& overrides, uint32_t workers = 2) {
  e2e::TestJob job({.workers = workers});
  const auto setup = setup::MakeSetup(job.job_file(), overrides);
  EXPECT_TRUE(setup.ok()) << setup.status().message();
  const auto sizes = SizesOf((*setup)->plan);
  EXPECT_TRUE(sizes.ok()) << sizes.status().message();
  return TotalsOf(*sizes);
}

// Seven chunks (of 64 Ki elements): four bytes per element and seven headers in each direction.
TEST(Sizes, FloatsTakeFourBytesAndHeaders) {
  const RoundTotals totals = TotalsFor({"exchange.codec=fp32"});
  EXPECT_GT(totals.up, 4 * kNumParameters + 7 * 20);
  EXPECT_LT(totals.up, 4 * kNumParameters + 7 * 80);
  EXPECT_GT(totals.down, 4 * kNumParameters + 7 * 20);
  EXPECT_LT(totals.down, 4 * kNumParameters + 7 * 80);
}

TEST(Sizes, EveryChunkHasAHeader) {
  const RoundTotals few_chunk_totals = TotalsFor({"exchange.codec=fp32"});
  const RoundTotals many_chunk_totals = TotalsFor({"exchange.codec=fp32", "exchange.chunk_kib=64"});
  EXPECT_GT(many_chunk_totals.up, few_chunk_totals.up + 20 * 20);
  EXPECT_LT(many_chunk_totals.up, few_chunk_totals.up + 20 * 80);
}

// docs/ALGORITHMS.md, section 5: 31.8 % of the codes of a Gaussian clipped at 2.5 sigma are not
// zero, so a code has one mask bit per element and one sign bit per 1 in the mask: 1.318 bits per
// element. The sum of 2 workers takes 3 bits per element, of 8 workers 5.
TEST(Sizes, TernaryCodesHaveTheSizeForGaussians) {
  const RoundTotals two_worker_totals = TotalsFor({"exchange.codec=ternary"});
  EXPECT_NEAR(two_worker_totals.up * 8 / kNumParameters, 1.318, 0.015);
  EXPECT_NEAR(two_worker_totals.down * 8 / kNumParameters, 3, 0.01);
  EXPECT_NEAR(TotalsFor({"exchange.codec=ternary"}, 8).down * 8 / kNumParameters, 5, 0.01);
}

// A sum of two workers' ternary codes has 3 bits an element, and the codes 1.318 each.
// Entropy-coded, the sum has 1.72 bits, and the codes 1.219 each. Floats stay floats.
TEST(Sizes, AHostSendsOneSumAndReceivesOne) {
  const auto ratios_of = [](const std::string& codec) {
    e2e::TestJob job({.workers = 4});
    const auto setup = setup::MakeSetup(job.job_file(), {"exchange.codec=" + codec});
    const auto sizes = SizesOf((*setup)->plan, 2);
    const RoundTotals without = TotalsOfHost(*sizes, 2, false),
                      with = TotalsOfHost(*sizes, 2, true);
    EXPECT_NEAR(with.down / without.down, 0.5, 0.01) << codec;
    return with.up / without.up;
  };
  EXPECT_NEAR(ratios_of("fp32"), 0.5, 0.01);
  EXPECT_NEAR(ratios_of("ternary"), 3 / (2 * 1.318), 0.02);
  EXPECT_NEAR(ratios_of("ternary_ans"), 1.72 / (2 * 1.219), 0.03);
  e2e::TestJob job({.workers = 4});
  const auto setup = setup::MakeSetup(job.job_file(), {"exchange.codec=qsgd"});
  EXPECT_TRUE((*SizesOf((*setup)->plan, 2))[0].host_push_bytes.empty());
}

// An element's code has an entropy of 1.219 bits, and the sum of 4 workers' codes 2.219 bits; an
// entropy coder comes close.
TEST(Sizes, EntropyCodesComeNearTheEntropy) {
  const RoundTotals four_worker_totals = TotalsFor({"exchange.codec=ternary_ans"}, 4);
  EXPECT_NEAR(four_worker_totals.up * 8 / kNumParameters, 1.219, 0.05);
  EXPECT_NEAR(four_worker_totals.down * 8 / kNumParameters, 2.219, 0.1);
}

// docs/ALGORITHMS.md, section 14: the sums of N workers' codes of 4 bits have 2 * 7 N + 1 values.
// Entropy-coded they take less, though the norm is that of the whole tensor.
TEST(Sizes, CodesWithSharedNormsTakeTheirBits) {
  for (const auto& [workers, sum_bits] : {std::pair{2u, 5.0}, {4u, 6.0}, {8u, 7.0}}) {
    const RoundTotals totals = TotalsFor({"exchange.codec=qsgd_shared"}, workers);
    EXPECT_NEAR(totals.up * 8 / kNumParameters, 4, 0.02) << workers;
    EXPECT_NEAR(totals.down * 8 / kNumParameters, sum_bits, 0.02) << workers;
  }
  const RoundTotals coded_totals = TotalsFor({"exchange.codec=qsgd_shared_ans"}, 4);
  EXPECT_LT(coded_totals.up * 8 / kNumParameters, 3);
  EXPECT_LT(coded_totals.down * 8 / kNumParameters, 4);
  const RoundTotals two_bit_totals =
      TotalsFor({"exchange.codec=qsgd_shared", "exchange.qsgd_shared.bits=2"});
  EXPECT_NEAR(two_bit_totals.up * 8 / kNumParameters, 2, 0.02);
}

// Means of QSGD's codes come back as codes of the same bits, or as floats.
TEST(Sizes, ExactSumsOfQsgdAreFloats) {
  const RoundTotals coded_totals = TotalsFor({"exchange.codec=qsgd"});
  const RoundTotals exact_totals = TotalsFor({"exchange.codec=qsgd", "exchange.qsgd.sums=exact"});
  EXPECT_EQ(coded_totals.up, exact_totals.up);
  EXPECT_NEAR(coded_totals.down * 8 / kNumParameters, 4 + 32.0 / 512, 0.05);
  EXPECT_NEAR(exact_totals.down * 8 / kNumParameters, 32, 0.02);
}

// Of a long segment only a sample is coded, and the size of the sample's code is extrapolated. The
// same elements in many shorter segments have another size because of headers and tables, but by
// less than 2 %.
TEST(Sizes, LongSegmentsAreExtrapolated) {
  const RoundTotals one_segment_totals =
      TotalsFor({"exchange.codec=ternary_ans", "exchange.chunk_kib=4096"});
  const RoundTotals cut_segment_totals =
      TotalsFor({"exchange.codec=ternary_ans", "exchange.chunk_kib=128"});
  EXPECT_NEAR(one_segment_totals.up / cut_segment_totals.up, 1, 0.02);
  EXPECT_NEAR(one_segment_totals.down / cut_segment_totals.down, 1, 0.02);
}

// With `scaler: previous` there is no round trip for scalers: they travel with the codes.
TEST(Sizes, PreviousScalersTravelWithTheCodes) {
  e2e::TestJob job;
  const auto sizes_with_scaler = [&](const std::string& scaler) {
    const auto setup = setup::MakeSetup(job.job_file(), {"exchange.scaler=" + scaler});
    EXPECT_TRUE(setup.ok()) << setup.status().message();
    return SizesOf((*setup)->plan);
  };
  const auto shared_sizes = sizes_with_scaler("shared"),
             previous_sizes = sizes_with_scaler("previous");
  ASSERT_TRUE(shared_sizes.ok() && previous_sizes.ok());
  EXPECT_GT((*shared_sizes)[0].scale_bytes, 8 * 4);
  EXPECT_EQ((*previous_sizes)[0].scale_bytes, 0);
  EXPECT_NEAR((*previous_sizes)[0].push_bytes[0], (*shared_sizes)[0].push_bytes[0] + 8 * 4, 1);
  EXPECT_NEAR((*previous_sizes)[0].sum_bytes[0], (*shared_sizes)[0].sum_bytes[0] + 8 * 4, 1);
}

// After its warm-up, in which it sends more, topk sends 1 element in 1000, with a few bytes each.
TEST(Sizes, SparseCodesAreMeasuredAfterTheirWarmUp) {
  const RoundTotals totals = TotalsFor({"exchange.codec=topk", "exchange.topk.warmup_rounds=100"});
  EXPECT_LT(totals.up, kNumParameters / 1000 * 10 + 500);
  EXPECT_GT(totals.up, kNumParameters / 1000 * 4);
}

TEST(Sizes, CentralParametersTravelDownInThePullCodec) {
  const RoundTotals totals = TotalsFor({"exchange.codec=ternary", "train.parameters=central",
                                        "exchange.pull_codec=fp16", "exchange.scaler=per_worker"});
  EXPECT_LT(totals.up, kNumParameters / 5);
  EXPECT_NEAR(totals.down, 2 * kNumParameters, 400);  // with a header for each of a few chunks
}

TEST(Sizes, WorkersThatFormTheTermReceiveTheWeightsTwice) {
  const auto totals_of = [](const std::string& codec) {
    return TotalsFor({"train.algorithm=dcasgd_a", "exchange.codec=" + codec});
  };
  EXPECT_NEAR(totals_of("fp32").down, 4 * kNumParameters, 400);
  EXPECT_NEAR(totals_of("ternary").down, 2 * 4 * kNumParameters, 800);
  EXPECT_GT(totals_of("ternary").up, TotalsFor({"train.algorithm=asgd"}).up + 20)
      << "with its requests";
}

// The server's answer is one code of the changes, and not a sum of the workers' codes. No value
// reaches the threshold, so the code is only a mask with 1 bit per element.
TEST(Sizes, ChangesHaveTheSizeOfOneCode) {
  const RoundTotals totals = TotalsFor({"exchange.codec=fp32", "train.parameters=central",
                                        "exchange.pull=changes", "exchange.pull_codec=threshold"});
  EXPECT_NEAR(totals.down * 8 / kNumParameters, 1, 0.01);
}

// qsgd_shared_ans has its keys in the section of qsgd_shared.
TEST(Forecaster, KeepsTheKeysOfTheEntropyCodedForm) {
  e2e::TestJob job({.yaml = "exchange: {codec: qsgd_shared, qsgd_shared: {bits: 6}}\n"});
  auto forecaster = Forecaster::Make(job.job_file(), {});
  ASSERT_TRUE(forecaster.ok()) << forecaster.status().message();
  const auto coded_setup = (*forecaster)->SetupOf({"ssgd", "qsgd_shared_ans"}, 2);
  ASSERT_TRUE(coded_setup.ok()) << coded_setup.status().message();
  EXPECT_EQ((*coded_setup)->job.exchange().qsgd_shared().bits(), 6u);
  EXPECT_EQ((*coded_setup)->job.exchange().clip(), pb::Exchange::none);
}

TEST(Forecaster, MakesOtherVariantsOfTheJob) {
  e2e::TestJob job({.yaml = "exchange: {codec: qsgd, qsgd: {bits: 8}}\n"});
  auto forecaster = Forecaster::Make(job.job_file(), {});
  ASSERT_TRUE(forecaster.ok()) << forecaster.status().message();
  const auto own_setup = (*forecaster)->SetupOf((*forecaster)->own_variant(), 4);
  ASSERT_TRUE(own_setup.ok()) << own_setup.status().message();
  EXPECT_EQ((*own_setup)->plan.workers, 4u);
  EXPECT_EQ((*own_setup)->job.exchange().qsgd().bits(), 8u);
  const auto fp32_setup = (*forecaster)->SetupOf({"ssgd", "fp32"}, 2);
  EXPECT_TRUE(fp32_setup.ok()) << "keys of qsgd must not stop another codec: "
                               << fp32_setup.status().message();
  const auto shared_setup = (*forecaster)->SetupOf({"ssgd", "qsgd_shared_ans"}, 2);
  EXPECT_TRUE(shared_setup.ok()) << shared_setup.status().message();
  const auto asgd_setup = (*forecaster)->SetupOf({"asgd", "ternary"}, 2);
  ASSERT_TRUE(asgd_setup.ok()) << asgd_setup.status().message();
  EXPECT_TRUE((*asgd_setup)->plan.is_central);
  EXPECT_FALSE((*forecaster)->SetupOf({"psgd", "ternary"}, 2).ok());
}

TEST(Forecaster, CountsTheBytesOfOneFragment) {
  const auto totals_with = [](const std::string& fragments) {
    e2e::TestJob job;
    auto forecaster = Forecaster::Make(
        job.job_file(), {"train.algorithm=pqasgd", "train.pqasgd.fragments=" + fragments});
    EXPECT_TRUE(forecaster.ok()) << forecaster.status().message();
    const auto totals = (*forecaster)->BytesOf((*forecaster)->own_variant(), 2);
    EXPECT_TRUE(totals.ok()) << totals.status().message();
    return *totals;
  };
  const RoundTotals whole = totals_with("1"), fragment = totals_with("4");
  EXPECT_NEAR(fragment.up / whole.up, 0.25, 0.01);
  EXPECT_NEAR(fragment.down / whole.down, 0.25, 0.01);
}

TEST(Forecaster, FindsTheBreakEvenRate) {
  e2e::TestJob job;
  auto forecaster = Forecaster::Make(job.job_file(), {});
  ASSERT_TRUE(forecaster.ok()) << forecaster.status().message();
  Profile profile;
  profile.parameters = static_cast<uint64_t>(kNumParameters);
  profile.need_shares.assign(8, 0);
  profile.ready_shares.assign(8, 1);
  profile.codecs["fp32"] = {};
  profile.codecs["fp16"] = {.encode_s = 1 / kNumParameters};
  (*forecaster)->UseProfile(profile);
  const auto break_even =
      (*forecaster)->FindBreakEven({"ssgd", "fp16"}, {"ssgd", "fp32"}, 2, 8, {});
  ASSERT_TRUE(break_even.ok()) << break_even.status().message();
  ASSERT_TRUE(break_even->mbit.has_value());
  // The server receives a chunk from both workers while it sends them the sum of the chunk before.
  // So fp32, in 7 equal chunks, takes the time of 1 + 1/7 times all bytes of one direction.
  // Encoding as fp16 takes a second, longer than the link has for the chunks; then the last of 4
  // chunks travels up and down. The steps are equally long if
  //   (1 + 1/7) * 4 * 2 * kNumParameters / rate = 1 + (1/4 + 1/4) * 2 * 2 * kNumParameters / rate.
  const double bytes_per_s = ((1 + 1.0 / 7) * 8 - (1.0 / 4 + 1.0 / 4) * 4) * kNumParameters;
  const double mbit = bytes_per_s * 8 / 1e6 / kPayloadShare;
  EXPECT_NEAR(*break_even->mbit / mbit, 1, 0.01);
  const auto no_break_even =
      (*forecaster)->FindBreakEven({"ssgd", "fp32"}, {"ssgd", "fp16"}, 2, 8, {});
  ASSERT_TRUE(no_break_even.ok());
  EXPECT_FALSE(no_break_even->mbit.has_value());
  EXPECT_FALSE(no_break_even->is_shorter_at_every_rate);
}

}  // namespace
}  // namespace tern::tools
