// The tests of the suite that codec_conformance.h declares, which every codec must pass.
#include "tests/conformance/codec_conformance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

namespace tern::codec {
namespace {

// Numbers of elements: 0 to 70, and the powers of 2 from 128 to 16384 with their neighbours.
std::vector<size_t> TestedLengths() {
  std::vector<size_t> lengths(71);
  std::iota(lengths.begin(), lengths.end(), 0);
  for (size_t power = 128; power <= 16384; power *= 2) {
    lengths.insert(lengths.end(), {power - 1, power, power + 1});
  }
  return lengths;
}

// A round of random gradients of n elements.
Round SomeRound(const Codec& codec, size_t n, int workers) {
  std::vector<std::vector<float>> gradients;
  for (int rank = 0; rank < workers; ++rank) gradients.push_back(SomeGradient(n, 100 * n + rank));
  return MakeRound(codec, std::move(gradients), n % 13);
}

void ExpectSize(size_t size, size_t max_size, const CodecCase& c) {
  EXPECT_LE(size, max_size);
  if (!c.sizes_vary) {
    EXPECT_EQ(size, max_size);
  }
}

TEST_P(CodecConformance, OneWorkersGradientRoundTrips) {
  for (size_t n : TestedLengths()) {
    const Round round = SomeRound(*codec_, n, 1);
    const std::vector<float> mean = Mean(*codec_, round);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_TRUE(GetParam().is_plausible(round.gradients[0][i], round.scaler, mean[i]))
          << round.gradients[0][i] << " came back as " << mean[i] << " at " << i << " of " << n;
    }
  }
}

TEST_P(CodecConformance, MeanEqualsThatOfEachWorkersValues) {
  for (size_t n : TestedLengths()) {
    const int workers = 1 + static_cast<int>(n % 9);
    const Round round = SomeRound(*codec_, n, workers);
    std::vector<double> expected(n);
    for (int rank = 0; rank < workers; ++rank) {
      Round single_round;
      single_round.gradients = {round.gradients[rank]};
      single_round.payloads = {round.payloads[rank]};
      single_round.scaler = round.scaler;
      const std::vector<float> decoded = Mean(*codec_, single_round);
      for (size_t i = 0; i < n; ++i) expected[i] += static_cast<double>(decoded[i]) / workers;
    }
    const std::vector<float> mean = Mean(*codec_, round);
    double largest = 0;
    for (double v : expected) largest = std::max(largest, std::abs(v));
    const double recoding_tolerance = workers == 1 ? 0 : GetParam().max_recoding_error * largest;
    for (size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(
          mean[i], expected[i],
          std::abs(expected[i]) * GetParam().max_rounding_error + recoding_tolerance + 1e-6);
    }
  }
}

TEST_P(CodecConformance, OrderOfArrivalDoesNotMatter) {
  std::vector<int> order = {0, 1, 2, 3};
  for (size_t n : {1, 70, 1025}) {
    const Round round = SomeRound(*codec_, n, 4);
    const std::vector<uint8_t> expected = Sum(*codec_, round);
    do {
      ASSERT_EQ(Sum(*codec_, round, order), expected);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_P(CodecConformance, EveryTruncationIsRejectedAndLeavesTheSumUnchanged) {
  for (size_t n : {1, 8, 9, 70, 300}) {
    const Round round = SomeRound(*codec_, n, 2);
    const auto sum = codec_->NewAccumulator({0, 0, n}, 2);
    for (int rank : {1, 0}) {
      const std::vector<uint8_t>& payload = round.payloads[rank];
      for (size_t size = 0; size < payload.size(); ++size) {
        const Result<size_t> bytes_used = sum->Add(rank, std::span(payload).first(size));
        ASSERT_FALSE(bytes_used.ok()) << size << " of " << payload.size() << " bytes were taken";
        ASSERT_EQ(bytes_used.status().code(), Code::kMismatch);
        ASSERT_FALSE(bytes_used.status().message().empty());
      }
      ASSERT_TRUE(sum->Add(rank, payload).ok());
    }
    std::vector<uint8_t> bytes;
    sum->EncodeSum(&bytes);
    EXPECT_EQ(bytes, Sum(*codec_, round));
  }
}

TEST_P(CodecConformance, DecodeAloneEqualsTheSumOfOneWorker) {
  if (codec_->shares_scaler())
    GTEST_SKIP() << "DecodeSingleCode is not used for codecs that share a scaler";
  for (size_t n : TestedLengths()) {
    const Round round = SomeRound(*codec_, n, 1);
    std::vector<uint8_t> longer_code = round.payloads[0];
    longer_code.insert(longer_code.end(), 9, 0xFF);
    std::vector<float> values(n, 7.f);
    const Result<size_t> bytes_used =
        codec_->DecodeSingleCode(longer_code, {0, 0, n}, values.data());
    ASSERT_TRUE(bytes_used.ok()) << bytes_used.status().message();
    EXPECT_EQ(*bytes_used, round.payloads[0].size());
    EXPECT_EQ(values, Mean(*codec_, round)) << n;  // This comparison treats -0 as equal to 0.
    for (size_t size = 0; size < round.payloads[0].size() && n < 100; ++size) {
      const auto truncated_size =
          codec_->DecodeSingleCode(std::span(longer_code).first(size), {0, 0, n}, values.data());
      ASSERT_EQ(truncated_size.status().code(), Code::kMismatch) << size << " bytes were taken";
    }
    if (!codec_->SingleCodeIsSum() || n == 0) continue;
    std::vector<float> values_of_code(n);
    ASSERT_TRUE(
        codec_->Decode(round.payloads[0], {0, 0, n}, 1, 0, 0, n, values_of_code.data()).ok());
    EXPECT_EQ(values_of_code, Mean(*codec_, round));
  }
}

TEST_P(CodecConformance, AddReadsOnlyTheBytesOfItsSegment) {
  const Round round = SomeRound(*codec_, 70, 1);
  std::vector<uint8_t> longer_code = round.payloads[0];
  longer_code.insert(longer_code.end(), 50, 0xFF);
  const auto sum = codec_->NewAccumulator({0, 0, 70}, 1);
  const Result<size_t> bytes_used = sum->Add(0, longer_code);
  ASSERT_TRUE(bytes_used.ok()) << bytes_used.status().message();
  EXPECT_EQ(*bytes_used, round.payloads[0].size());
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  EXPECT_EQ(bytes, Sum(*codec_, round));
}

TEST_P(CodecConformance, UnusedBitsMustBeZero) {
  for (size_t n = 1; n <= 70; ++n) {
    const Round round = SomeRound(*codec_, n, 1);
    const auto sum = codec_->NewAccumulator({0, 0, n}, 1);
    for (size_t bit : GetParam().unused_bits(round.payloads[0], n)) {
      std::vector<uint8_t> changed_code = round.payloads[0];
      changed_code[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
      const Result<size_t> bytes_used = sum->Add(0, changed_code);
      ASSERT_FALSE(bytes_used.ok()) << "bit " << bit << " of " << n << " elements";
      ASSERT_EQ(bytes_used.status().code(), Code::kMismatch);
    }
    ASSERT_TRUE(sum->Add(0, round.payloads[0]).ok());
    std::vector<uint8_t> bytes;
    sum->EncodeSum(&bytes);
    EXPECT_EQ(bytes, Sum(*codec_, round));
  }
}

TEST_P(CodecConformance, AnyRangeDecodesAsPartOfTheWhole) {
  for (size_t n : {1, 37, 70}) {
    const Round round = SomeRound(*codec_, n, 3);
    const std::vector<uint8_t> sum = Sum(*codec_, round);
    const std::vector<float> all_means = Mean(*codec_, round);
    for (size_t first = 0; first <= n; ++first) {
      for (size_t length = 0; first + length <= n; ++length) {
        std::vector<float> range_means(length + 1, 77);
        ASSERT_TRUE(
            codec_->Decode(sum, {0, 0, n}, 3, round.scaler, first, length, range_means.data())
                .ok());
        ASSERT_EQ(range_means.back(), 77) << "wrote beyond the range";
        range_means.pop_back();
        ASSERT_EQ(range_means, std::vector<float>(all_means.begin() + first,
                                                  all_means.begin() + first + length));
      }
    }
    float no_value = 0;
    EXPECT_FALSE(codec_->Decode(sum, {0, 0, n}, 3, round.scaler, n, 1, &no_value).ok());
    EXPECT_FALSE(codec_->Decode(sum, {0, 0, n}, 3, round.scaler, 1, ~uint64_t{0}, &no_value).ok());
  }
}

TEST_P(CodecConformance, BlockwiseDecodeEqualsTheWhole) {
  for (size_t n : {1, 70, 1000, 20000, 40000}) {
    const Round round = SomeRound(*codec_, n, 3);
    const std::vector<uint8_t> sum = Sum(*codec_, round);
    std::vector<float> decoded;
    const auto append = [&](uint64_t first, std::span<const float> mean) {
      EXPECT_EQ(first, decoded.size());
      decoded.insert(decoded.end(), mean.begin(), mean.end());
    };
    ASSERT_TRUE(codec_->DecodeInBlocks(sum, {0, 0, n}, 3, round.scaler, append).ok());
    EXPECT_EQ(decoded, Mean(*codec_, round)) << n;
    const std::span<const uint8_t> truncated_sum = std::span(sum).first(sum.size() - 1);
    EXPECT_FALSE(codec_->DecodeInBlocks(truncated_sum, {0, 0, n}, 3, round.scaler, append).ok());
  }
}

TEST_P(CodecConformance, SegmentsDecodeAsPartsOfTheTensor) {
  const std::vector<float> g = SomeGradient(1000, 1);
  Round round = MakeRound(*codec_, {g}, 0);
  const std::vector<float> all_means = Mean(*codec_, round);
  const uint64_t granularity = codec_->Granularity(1);
  const size_t segment_size =
      granularity > g.size() ? g.size() : (123 + granularity - 1) / granularity * granularity;
  for (size_t begin = 0; begin < g.size(); begin += segment_size) {
    const size_t end = std::min(begin + segment_size, g.size());
    Round segment_round;
    segment_round.gradients = {std::vector<float>(g.begin() + begin, g.begin() + end)};
    segment_round.scaler = round.scaler;
    segment_round.begin = begin;
    kernels::NoiseKey noise;
    noise.seed = 2017;
    noise.round = 3;
    codec_->Encode(round.values[0].data() + begin, {2, begin, end - begin}, round.encode_params[0],
                   noise, &segment_round.payloads.emplace_back());
    ASSERT_EQ(Mean(*codec_, segment_round),
              std::vector<float>(all_means.begin() + begin, all_means.begin() + end));
  }
}

TEST_P(CodecConformance, SizesEqualMaxEncodedSizeAndMaxSumSize) {
  for (size_t n : TestedLengths()) {
    // This gradient has the largest code, because every element is sent.
    std::vector<float> largest_code_gradient(n);
    for (size_t i = 0; i < n; ++i) largest_code_gradient[i] = i % 2 == 0 ? 1 : -1;
    ExpectSize(MakeRound(*codec_, {largest_code_gradient}).payloads[0].size(),
               codec_->MaxEncodedSize({0, 0, n}), GetParam());
    const Round round = SomeRound(*codec_, n, 3);
    EXPECT_LE(round.payloads[0].size(), codec_->MaxEncodedSize({0, 0, n}));
    ExpectSize(Sum(*codec_, round).size(), codec_->MaxSumSize({0, 0, n}, 3), GetParam());
  }
  const Round round = SomeRound(*codec_, 70, 127);
  const Round largest_round = SomeRound(*codec_, 70, 1024);
  ExpectSize(Sum(*codec_, largest_round).size(), codec_->MaxSumSize({0, 0, 70}, 1024), GetParam());
  EXPECT_EQ(codec_->MaxSumSize({0, 0, 0}, 1), 0u);
  for (int contributors = 1; contributors <= 127; ++contributors) {
    Round round_of_first_workers;
    round_of_first_workers.gradients.assign(round.gradients.begin(),
                                            round.gradients.begin() + contributors);
    round_of_first_workers.payloads.assign(round.payloads.begin(),
                                           round.payloads.begin() + contributors);
    ExpectSize(Sum(*codec_, round_of_first_workers).size(),
               codec_->MaxSumSize({0, 0, 70}, contributors), GetParam());
    EXPECT_GE(codec_->MaxSumSize({0, 0, 70}, contributors),
              codec_->MaxSumSize({0, 0, 70}, std::max(1, contributors - 1)));
  }
}

// A round may close without some workers. The sum is then over the ranks that contributed.
TEST_P(CodecConformance, AnySubsetOfRanksInAnyOrderGivesTheSumOverThatSubset) {
  constexpr int kNumWorkers = 5;
  for (size_t n : {1, 9, 70, 1025}) {
    const Round round = SomeRound(*codec_, n, kNumWorkers);
    for (unsigned rank_set = 1; rank_set < 1u << kNumWorkers; ++rank_set) {
      std::vector<int> order;
      Round subset_round;  // The same gradients, in a job of only these workers.
      subset_round.scaler = round.scaler;
      for (int rank = 0; rank < kNumWorkers; ++rank) {
        if ((rank_set >> rank & 1) == 0) continue;
        order.push_back(rank);
        subset_round.gradients.push_back(round.gradients[rank]);
        subset_round.payloads.push_back(round.payloads[rank]);
      }
      const std::vector<uint8_t> expected = Sum(*codec_, subset_round);
      ExpectSize(expected.size(), codec_->MaxSumSize({0, 0, n}, subset_round.workers()),
                 GetParam());
      if (n == 9) {
        do {
          ASSERT_EQ(Sum(*codec_, round, order), expected) << "set " << rank_set;
        } while (std::next_permutation(order.begin(), order.end()));
      } else {
        ASSERT_EQ(Sum(*codec_, round, order), expected) << "set " << rank_set;
        std::reverse(order.begin(), order.end());
        ASSERT_EQ(Sum(*codec_, round, order), expected) << "set " << rank_set;
      }
    }
  }
}

TEST_P(CodecConformance, RepeatedSumsAreEqual) {
  const Round round = SomeRound(*codec_, 70, 4);
  const auto sum = codec_->NewAccumulator({0, 0, 70}, 4);
  for (int rank : {3, 1}) ASSERT_TRUE(sum->Add(rank, round.payloads[rank]).ok());
  std::vector<uint8_t> first_sum, second_sum;
  sum->EncodeSum(&first_sum);
  sum->EncodeSum(&second_sum);
  EXPECT_EQ(first_sum, second_sum);
}

TEST_P(CodecConformance, SumsOfAnotherSizeAreRejected) {
  const Round round = SomeRound(*codec_, 70, 3);
  std::vector<uint8_t> sum = Sum(*codec_, round);
  std::vector<float> mean(70);
  for (size_t size = 0; size < sum.size(); ++size) {
    const Status decode_status =
        codec_->Decode(std::span(sum).first(size), {0, 0, 70}, 3, round.scaler, 0, 70, mean.data());
    ASSERT_EQ(decode_status.code(), Code::kMismatch) << size;
  }
  sum.push_back(0);
  EXPECT_EQ(codec_->Decode(sum, {0, 0, 70}, 3, round.scaler, 0, 70, mean.data()).code(),
            Code::kMismatch);
}

TEST_P(CodecConformance, AppendsToTheBuffer) {
  const Round round = SomeRound(*codec_, 70, 1);
  std::vector<uint8_t> bytes = {1, 2, 3};
  kernels::NoiseKey noise;
  noise.seed = 2017;
  noise.round = 3;
  codec_->Encode(round.values[0].data(), {2, 70 % 13, 70}, round.encode_params[0], noise, &bytes);
  const auto sum = codec_->NewAccumulator({0, 0, 70}, 1);
  // The code is valid at any address, here one that is not a multiple of 4.
  ASSERT_TRUE(sum->Add(0, std::span(bytes).subspan(3)).ok());
  const size_t payload_end = bytes.size();
  sum->EncodeSum(&bytes);
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.begin() + 3),
            (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin() + 3, bytes.begin() + payload_end),
            round.payloads[0]);
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin() + payload_end, bytes.end()), Sum(*codec_, round));
}

TEST_P(CodecConformance, ZeroGradientsGiveZeros) {
  const Round round = MakeRound(*codec_, {std::vector<float>(70), std::vector<float>(70)});
  EXPECT_EQ(Mean(*codec_, round), std::vector<float>(70));
}

TEST_P(CodecConformance, RandomBytesAreAcceptedWholeOrRejected) {
  std::mt19937_64 random(11);
  int num_accepted = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const size_t n = random() % 40;
    std::vector<uint8_t> bytes(random() % (codec_->MaxEncodedSize({0, 0, n}) + 8));
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random() & random());
    const auto sum = codec_->NewAccumulator({0, 0, n}, 2);
    const Result<size_t> bytes_used = sum->Add(0, bytes);
    if (bytes_used.ok()) {
      ++num_accepted;
      ASSERT_LE(*bytes_used, bytes.size());
    } else {
      ASSERT_EQ(bytes_used.status().code(), Code::kMismatch);
    }
    std::vector<uint8_t> sum_bytes(codec_->MaxSumSize({0, 0, n}, 5));
    for (uint8_t& b : sum_bytes) b = static_cast<uint8_t>(random());
    std::vector<float> mean(n);
    const Status decode_status = codec_->Decode(sum_bytes, {0, 0, n}, 5, 1.0f, 0, n, mean.data());
    if (decode_status.ok()) {
      ASSERT_TRUE(std::all_of(mean.begin(), mean.end(), [](float v) { return std::isfinite(v); }));
    } else {  // These bytes may also be a valid sum, of values that are not finite.
      ASSERT_TRUE(decode_status.code() == Code::kMismatch ||
                  decode_status.code() == Code::kDiverged)
          << decode_status.message();
    }
  }
  EXPECT_GT(num_accepted, GetParam().random_codes);
  EXPECT_LT(num_accepted, 2990);
}

TEST_P(CodecConformance, OneCodecServesManyThreads) {
  const Round expected = SomeRound(*codec_, 1025, 3);
  const std::vector<float> mean = Mean(*codec_, expected);
  std::vector<int> are_same(4);
  std::vector<std::thread> threads;
  for (int& result : are_same) {
    threads.emplace_back([this, &result, &expected, &mean] {
      const Round round = SomeRound(*codec_, 1025, 3);
      result = round.payloads == expected.payloads && Mean(*codec_, round) == mean;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(are_same, std::vector<int>(4, 1));
}

TEST_P(CodecConformance, MatchesGoldenBytes) {
  const Round round = GoldenRound(*codec_);
  EXPECT_EQ(ToHex(round.payloads[0]), GetParam().golden_payloads[0]);
  EXPECT_EQ(ToHex(round.payloads[1]), GetParam().golden_payloads[1]);
  EXPECT_EQ(ToHex(Sum(*codec_, round)), GetParam().golden_sum);
}

}  // namespace
}  // namespace tern::codec
