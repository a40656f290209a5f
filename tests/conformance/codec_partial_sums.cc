// The tests of the suite that codec_conformance.h declares for partial sums: hosts add up codes of
// their workers, and servers add up what hosts send.
#include <algorithm>
#include <numeric>
#include <random>

#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

using Ranks = std::vector<int>;

Round RoundOfNormals(const Codec& codec, size_t n, int workers) {
  std::vector<std::vector<float>> gradients;
  for (int rank = 0; rank < workers; ++rank) gradients.push_back(SomeGradient(n, 31 * n + rank));
  return MakeRound(codec, std::move(gradients), n % 13);
}

std::vector<uint8_t> PartialSum(const Codec& codec, const Round& round, const Ranks& ranks) {
  const auto sum = codec.NewAccumulator({0, 0, round.count()}, round.workers());
  for (const int rank : ranks) EXPECT_TRUE(sum->Add(rank, round.payloads[rank]).ok());
  std::vector<uint8_t> bytes;
  sum->EncodePartial(&bytes);
  EXPECT_LE(bytes.size(), codec.MaxSumSize({0, 0, round.count()}, static_cast<int>(ranks.size())));
  return bytes;
}

// The sum of these sets, which arrive in this order. A set of one rank is its code.
std::vector<uint8_t> SumOfSets(const Codec& codec, const Round& round,
                               const std::vector<Ranks>& sets) {
  const auto sum = codec.NewAccumulator({0, 0, round.count()}, round.workers());
  for (const Ranks& ranks : sets) {
    const std::vector<uint8_t> bytes =
        ranks.size() == 1 ? round.payloads[ranks[0]] : PartialSum(codec, round, ranks);
    std::vector<uint8_t> longer = bytes;
    longer.insert(longer.end(), 9, 0xFF);
    const Result<size_t> used =
        ranks.size() == 1 ? sum->Add(ranks[0], longer) : sum->AddPartial(ranks, longer);
    EXPECT_TRUE(used.ok()) << used.status().message();
    EXPECT_EQ(used.ok() ? *used : 0, bytes.size());
  }
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  return bytes;
}

}  // namespace

TEST_P(CodecConformance, PartialSumsAddUpToTheSum) {
  if (!codec_->adds_partial_sums()) GTEST_SKIP() << "its codes cannot be added up in steps";
  for (size_t n : {0, 1, 7, 8, 70, 1025, 5000, 20000}) {
    const Round round = RoundOfNormals(*codec_, n, 7);
    std::vector<Ranks> sets = {{0, 3}, {1}, {2, 4, 5}, {6}};
    const std::vector<uint8_t> first = SumOfSets(*codec_, round, sets);
    if (codec_->shares_scaler()) {
      ASSERT_EQ(first, Sum(*codec_, round)) << n;
    }
    std::sort(sets.begin(), sets.end());
    do {
      ASSERT_EQ(SumOfSets(*codec_, round, sets), first) << n;
    } while (n < 100 && std::next_permutation(sets.begin(), sets.end()));
    ASSERT_EQ(SumOfSets(*codec_, round, {{0, 1, 2, 3, 4, 5, 6}}), Sum(*codec_, round)) << n;
  }
}

TEST_P(CodecConformance, TruncatedPartialSumsAreRejectedAndLeaveTheSumUnchanged) {
  if (!codec_->adds_partial_sums()) GTEST_SKIP() << "its codes cannot be added up in steps";
  for (size_t n : {1, 9, 70, 300}) {
    const Round round = RoundOfNormals(*codec_, n, 3);
    const auto sum = codec_->NewAccumulator({0, 0, n}, 3);
    ASSERT_TRUE(sum->Add(0, round.payloads[0]).ok());
    const std::vector<uint8_t> partial = PartialSum(*codec_, round, {1, 2});
    for (size_t size = 0; size < partial.size(); ++size) {
      const Result<size_t> used = sum->AddPartial(Ranks{1, 2}, std::span(partial).first(size));
      ASSERT_FALSE(used.ok()) << size << " of " << partial.size() << " bytes were taken";
      ASSERT_EQ(used.status().code(), Code::kMismatch);
    }
    ASSERT_TRUE(sum->AddPartial(Ranks{1, 2}, partial).ok());
    std::vector<uint8_t> bytes;
    sum->EncodeSum(&bytes);
    EXPECT_EQ(bytes, SumOfSets(*codec_, round, {{0}, {1, 2}}));
  }
}

// All codes are the largest, so that three of them are more than two workers can add up to.
TEST_P(CodecConformance, PartialSumsBeyondTheirContributorsAreRejected) {
  if (!codec_->adds_partial_sums() || !codec_->shares_scaler())
    GTEST_SKIP() << "its sums have no bound";
  for (size_t n : {1, 70, 300}) {
    Round round = RoundOfNormals(*codec_, n, 4);
    for (int rank = 0; rank < 4; ++rank) {
      for (size_t i = 0; i < n; ++i) round.values[rank][i] = i % 3 == 0 ? 2.f : -2.f;
    }
    for (int rank = 0; rank < 4; ++rank) {
      EncodeParams params = round.encode_params[rank];
      params.scaler = 2;
      params.clip = 2;
      round.payloads[rank].clear();
      codec_->Encode(round.values[rank].data(), {2, 0, n}, params, {}, &round.payloads[rank]);
    }
    const std::vector<uint8_t> of_three = PartialSum(*codec_, round, {0, 1, 2});
    const auto sum = codec_->NewAccumulator({0, 0, n}, 4);
    const Result<size_t> used = sum->AddPartial(Ranks{0, 1}, of_three);
    EXPECT_TRUE(!used.ok() || *used != of_three.size()) << n;
    const auto right_sum = codec_->NewAccumulator({0, 0, n}, 4);
    EXPECT_TRUE(right_sum->AddPartial(Ranks{0, 1, 2}, of_three).ok()) << n;
  }
}

TEST_P(CodecConformance, RandomBytesAsPartialSumsNeverBreakTheSum) {
  if (!codec_->adds_partial_sums()) GTEST_SKIP() << "its codes cannot be added up in steps";
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    const size_t n = random() % 70;
    std::vector<uint8_t> bytes(random() % 90);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    if (!bytes.empty() && random() % 2 == 0) bytes[0] %= 3;  // a format of entropy-coded sums
    const auto sum = codec_->NewAccumulator({0, 0, n}, 5);
    const Result<size_t> used = sum->AddPartial(Ranks{1, 4}, bytes);
    ASSERT_TRUE(!used.ok() || *used <= bytes.size());
    if (!used.ok()) {
      ASSERT_EQ(used.status().code(), Code::kMismatch);
      continue;
    }
    std::vector<uint8_t> out;
    sum->EncodeSum(&out);
    ASSERT_LE(out.size(), codec_->MaxSumSize({0, 0, n}, 2));
  }
}

}  // namespace tern::codec
