// Tests of the codec onebit: a code has one bit per element, its sign, and for each group of
// elements the mean of the negative and the mean of the other elements. A group is a bucket of a
// given size or, if that is 0, a column (the elements that contribute to one output of a layer).
// The tests cover the conformance suite, the means, the residuals (coding errors) kept on workers
// and servers, and refused inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/codec/codecs.h"
#include "common/codec/error_feedback.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargestFloat = std::numeric_limits<float>::max();

std::unique_ptr<Codec> MakeOneBitCodec(uint64_t bucket, bool coded_sums = true) {
  Options options;
  options.coded_sums = coded_sums;
  options.keys.mutable_onebit()->set_bucket_elements(bucket);
  return std::move(*MakeCodec("onebit", options));
}

CodecCase MakeCase(const char* name, uint64_t bucket, const char* payload0, const char* payload1,
                   const char* sum) {
  CodecCase c;
  c.name = name;
  c.make = [bucket] { return MakeOneBitCodec(bucket); };
  // A decoded value is the mean of the group's elements with g's sign: it has that sign, and its
  // magnitude is at most the largest of the tensor.
  c.is_plausible = [](float g, float largest, float mean) {
    return std::abs(mean) <= largest && (g < 0 ? mean < 0 : mean >= 0);
  };
  c.unused_bits = [bucket](std::span<const uint8_t> payload, uint64_t count) {
    const uint64_t bucket_elements = bucket == 0 ? 1 : bucket;
    std::vector<size_t> unused_bits;
    for (size_t i = (count + bucket_elements - 1) / bucket_elements * 64 + count;
         i < 8 * payload.size(); ++i)
      unused_bits.push_back(i);
    return unused_bits;
  };
  c.golden_payloads[0] = payload0;
  c.golden_payloads[1] = payload1;
  c.golden_sum = sum;
  c.max_recoding_error = 1;
  return c;
}

CodecCase WithFloatSums(CodecCase c, uint64_t bucket, const char* sum) {
  c.name += "FloatSums";
  c.make = [bucket] { return MakeOneBitCodec(bucket, false); };
  c.golden_sum = sum;
  c.max_recoding_error = 0;
  return c;
}

const CodecCase kSixElementBuckets =
    MakeCase("Buckets", 6, "000060bf0000e03e0000e0be5555b53e9202",
             "0000c0be0000b03e000048bf0000c03e4302", "0000e4be00009a3e1cc791beaaaaba3ed202");

INSTANTIATE_TEST_SUITE_P(
    OneBit, CodecConformance,
    testing::Values(
        kSixElementBuckets,
        WithFloatSums(
            kSixElementBuckets, 6,
            "0000003d000020bf0000c83e0000c83e000088be0000c83eabaa5abe000000bdaaaaba3e00001cbf"
            "aaaaba3e"),
        MakeCase("Bucket64", 64, "000028bfdbb6cd3e9202", "000014bf6edbb63e4302",
                 "9ee791be2449c23ed302"),
        // In the suite's segments every column has one element.
        MakeCase("Columns", 0,
                 "000000000000003f000080bf000000000000000000000000000000000000803e000040bf00000000"
                 "000000000000803f000000000000003e0000c0be00000000000000000000803d000000bf00000000"
                 "000000000000603f9202",
                 "000080be00000000000000bf00000000000000000000403f0000000000000000000000000000003f"
                 "000000000000003e0000c0bf00000000000000000000c03e000000000000803e000080bd00000000"
                 "000000000000003f4302",
                 "000000000000003e000040bf00000000000000000000c03e000000000000003e000000be00000000"
                 "000000000000103f000030bf000000000000000000000000000000000000203e000090be00000000"
                 "000000000000303f5202")),
    CaseName);

std::vector<uint8_t> CodeOf(const Codec& codec, std::span<const float> g, uint64_t column = 1) {
  std::vector<uint8_t> code;
  codec.Encode(g.data(), {0, 0, g.size(), column}, {}, {}, &code);
  return code;
}

std::vector<float> DecodeSingleCode(const Codec& codec, std::span<const uint8_t> code,
                                    const Segment& segment) {
  std::vector<float> values(segment.count);
  const Result<size_t> code_bytes = codec.DecodeSingleCode(code, segment, values.data());
  EXPECT_TRUE(code_bytes.ok()) << code_bytes.status().message();
  return values;
}

std::vector<float> RoundTrip(const Codec& codec, std::span<const float> g, uint64_t column = 1) {
  return DecodeSingleCode(codec, CodeOf(codec, g, column), {0, 0, g.size(), column});
}

// The status code of adding `code`, the code of one worker, to a sum.
Code StatusOfAdding(const Codec& codec, std::span<const uint8_t> code, uint64_t count) {
  const auto sum = codec.NewAccumulator({0, 0, count}, 1);
  const Result<size_t> consumed_bytes = sum->Add(0, code);
  return consumed_bytes.ok() ? Code::kOk : consumed_bytes.status().code();
}

TEST(OneBit, NegativesAndOthersBecomeTheirMeans) {
  const auto codec = MakeOneBitCodec(5);
  EXPECT_EQ(RoundTrip(*codec, std::vector<float>{1, -2, 0, -4, 5, 8, -1}),
            (std::vector<float>{2, -3, 2, -3, 2, 8, -1}));
}

TEST(OneBit, AnEmptyClassHasMeanZero) {
  const auto codec = MakeOneBitCodec(3);
  const std::vector<float> g = {1, 2, 3, -1, -2, -3, 0, 0, 0, -0.0f};
  EXPECT_EQ(RoundTrip(*codec, g), (std::vector<float>{2, 2, 2, -2, -2, -2, 0, 0, 0, 0}));
  EXPECT_EQ(ToHex(CodeOf(*codec, g)),
            "0000000000000040"
            "000000c000000000"
            "0000000000000000"
            "0000000000000000"
            "3800");
}

TEST(OneBit, ColumnsAreCountedFromTheSegmentsFirstElement) {
  const auto codec = MakeOneBitCodec(0);
  EXPECT_EQ(codec->Granularity(25), 25u);
  EXPECT_EQ(codec->Granularity(0), 1u);
  EXPECT_EQ(MakeOneBitCodec(64)->Granularity(25), 64u);
  const std::vector<float> g = {1, -2, 3, -4, 5, -6, 7, -8};
  EXPECT_EQ(RoundTrip(*codec, g, 4), (std::vector<float>{2, -3, 2, -3, 6, -7, 6, -7}));
  EXPECT_EQ(RoundTrip(*codec, g, 4), RoundTrip(*MakeOneBitCodec(4), g));
  EXPECT_EQ(RoundTrip(*codec, g, 3),
            RoundTrip(*MakeOneBitCodec(3), g));  // the last column is shorter
  EXPECT_EQ(CodeOf(*codec, g, 1 << 20).size(), 9u);
}

TEST(OneBit, MeansAreRoundedOnce) {
  const std::vector<float> g = SomeGradient(20000, 3);
  double sums[2] = {0, 0};
  int counts[2] = {0, 0};
  for (float v : g) {
    sums[v < 0] += double{v};
    ++counts[v < 0];
  }
  const std::vector<float> values = RoundTrip(*MakeOneBitCodec(0), g, g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    const int sign_class = g[i] < 0;
    ASSERT_FLOAT_EQ(values[i], static_cast<float>(sums[sign_class] / counts[sign_class]));
  }
}

TEST(OneBit, SizePerElement) {
  const auto bits_per_element = [](uint64_t bucket, uint64_t column_elements) {
    constexpr uint64_t kNumElements = 57600;
    return 8.0 *
           static_cast<double>(
               MakeOneBitCodec(bucket)->MaxEncodedSize({0, 0, kNumElements, column_elements})) /
           kNumElements;
  };
  EXPECT_EQ(bits_per_element(64, 1), 2);
  EXPECT_EQ(bits_per_element(512, 1), 1 + 64.0 * 113 / 57600);
  EXPECT_EQ(bits_per_element(0, 800), 1.08);
  EXPECT_EQ(bits_per_element(0, 25), 3.56);
}

TEST(OneBit, WorkerErrorIsAddedToTheNextGradient) {
  for (const uint64_t bucket : {0, 7, 64}) {
    const auto codec = MakeOneBitCodec(bucket);
    const Segment segment{0, 0, 130, 25};
    const auto memory = codec->NewMemory(130);
    ASSERT_NE(memory, nullptr);
    std::vector<float> residual(130), v(130);
    for (int round = 0; round < 20; ++round) {
      const std::vector<float> g = SomeGradient(130, round);
      ASSERT_EQ(memory->Compensate(0, g, v).data(), v.data());
      for (size_t i = 0; i < 130; ++i) ASSERT_EQ(v[i], g[i] + residual[i]);
      std::vector<uint8_t> code;
      codec->Encode(v.data(), segment, {}, {}, &code);
      const std::vector<float> sent = DecodeSingleCode(*codec, code, segment);
      memory->Update(0, v, sent);
      for (size_t i = 0; i < 130; ++i) residual[i] = v[i] - sent[i];
      SavedState saved_state;
      memory->AddState(&saved_state);
      ASSERT_EQ(saved_state.arrays.size(), 1u);
      ASSERT_TRUE(std::ranges::equal(saved_state.arrays[0].values, residual));
    }
  }
}

// The code of a round's sum, as a server computes it. Adds the payloads in the given order of
// ranks. `memory` holds the server's residual; if it is null, the server keeps no residual.
std::vector<uint8_t> SumOf(const Codec& codec, const Round& round, Memory* memory,
                           const std::vector<int>& order) {
  const auto sum = codec.NewAccumulator({2, 0, round.count(), 25}, round.workers(), {{}, memory});
  for (int rank : order) EXPECT_TRUE(sum->Add(rank, round.payloads[rank]).ok());
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  return bytes;
}

Round MakeSeededRound(const Codec& codec, uint64_t seed) {
  Round round;
  for (int rank = 0; rank < 3; ++rank) {
    round.gradients.push_back(SomeGradient(130, 10 * seed + rank));
    round.payloads.push_back(CodeOf(codec, round.gradients.back(), 25));
  }
  return round;
}

// The server encodes v = mean + residual, and keeps residual = v - (decoded v), bit for bit.
TEST(OneBit, ServerErrorIsAddedToTheNextSum) {
  for (const uint64_t bucket : {0, 7}) {
    const auto codec = MakeOneBitCodec(bucket);
    const Segment segment{2, 0, 130, 25};
    const auto memory = codec->NewSumMemory(segment);
    ASSERT_NE(memory, nullptr);
    std::vector<float> residual(130);
    bool memory_changes_sum = false;
    for (int round_index = 0; round_index < 20; ++round_index) {
      const Round round = MakeSeededRound(*codec, round_index);
      std::vector<float> v(130);
      for (const auto& payload : round.payloads) {
        const std::vector<float> sent = DecodeSingleCode(*codec, payload, segment);
        for (size_t i = 0; i < 130; ++i) v[i] += sent[i];
      }
      for (size_t i = 0; i < 130; ++i) v[i] = v[i] / 3.0f + residual[i];
      std::vector<uint8_t> expected;
      codec->Encode(v.data(), segment, {}, {}, &expected);
      ASSERT_EQ(SumOf(*codec, round, memory.get(), {2, 0, 1}), expected) << round_index;
      memory_changes_sum |= expected != SumOf(*codec, round, nullptr, {0, 1, 2});
      const std::vector<float> sent = DecodeSingleCode(*codec, expected, segment);
      for (size_t i = 0; i < 130; ++i) residual[i] = v[i] - sent[i];
      SavedState saved_state;
      memory->AddState(&saved_state);
      ASSERT_TRUE(std::ranges::equal(saved_state.arrays[0].values, residual)) << round_index;
    }
    EXPECT_TRUE(memory_changes_sum);
  }
}

// The average of the sums over many rounds converges to the workers' mean. Without the server's
// memory it would not, because the codes are biased.
TEST(OneBit, NothingIsLostOverManyRounds) {
  const auto codec = MakeOneBitCodec(32);
  const auto server_memory = codec->NewSumMemory({2, 0, 130, 25});
  const Round round = MakeSeededRound(*codec, 1);
  std::vector<double> total_with_memory(130), total_without_memory(130);
  constexpr int kNumRounds = 2000;
  for (int round_index = 0; round_index < kNumRounds; ++round_index) {
    const auto decode_sum = [&](Memory* memory) {
      return DecodeSingleCode(*codec, SumOf(*codec, round, memory, {0, 1, 2}), {2, 0, 130, 25});
    };
    const std::vector<float> sum_with_memory = decode_sum(server_memory.get()),
                             sum_without_memory = decode_sum(nullptr);
    for (size_t i = 0; i < 130; ++i)
      total_with_memory[i] += double{sum_with_memory[i]},
          total_without_memory[i] += double{sum_without_memory[i]};
  }
  Round round_copy = round;
  const std::vector<float> mean = Mean(*MakeOneBitCodec(32, false), round_copy);
  double error_with_memory = 0, error_without_memory = 0;
  for (size_t i = 0; i < 130; ++i) {
    error_with_memory =
        std::max(error_with_memory, std::abs(total_with_memory[i] / kNumRounds - double{mean[i]}));
    error_without_memory = std::max(
        error_without_memory, std::abs(total_without_memory[i] / kNumRounds - double{mean[i]}));
  }
  EXPECT_LT(error_with_memory, 0.02);
  EXPECT_GT(error_without_memory, 0.1);
}

TEST(OneBit, RestoredMemoriesContinueBitForBit) {
  const auto codec = MakeOneBitCodec(7);
  const auto original_memory = codec->NewSumMemory({2, 0, 130, 25});
  for (int round_index = 0; round_index < 5; ++round_index)
    SumOf(*codec, MakeSeededRound(*codec, round_index), original_memory.get(), {0, 1, 2});
  const auto restored_memory = codec->NewSumMemory({2, 0, 130, 25});
  SavedState saved, restored;
  original_memory->AddState(&saved);
  restored_memory->AddState(&restored);
  ASSERT_EQ(saved.arrays.size(), restored.arrays.size());
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    EXPECT_EQ(saved.arrays[i].name, restored.arrays[i].name);
    std::ranges::copy(saved.arrays[i].values, restored.arrays[i].values.begin());
  }
  for (int round_index = 5; round_index < 10; ++round_index) {
    const Round round = MakeSeededRound(*codec, round_index);
    ASSERT_EQ(SumOf(*codec, round, original_memory.get(), {0, 1, 2}),
              SumOf(*codec, round, restored_memory.get(), {2, 1, 0}));
  }
  restored_memory->Reset();
  const Round round = MakeSeededRound(*codec, 10);
  EXPECT_EQ(SumOf(*codec, round, restored_memory.get(), {0, 1, 2}),
            SumOf(*codec, round, nullptr, {0, 1, 2}));
}

TEST(OneBit, ACodeEqualsItsOwnSumByteForByte) {
  for (const uint64_t bucket : {0, 1, 7, 64, 5000}) {
    const auto codec = MakeOneBitCodec(bucket);
    EXPECT_TRUE(codec->SingleCodeIsSum());
    for (int seed = 0; seed < 20; ++seed) {
      const Round round = MakeRound(*codec, {SomeGradient(5000, seed)});
      ASSERT_EQ(Sum(*codec, round), round.payloads[0]) << bucket << ' ' << seed;
    }
  }
}

TEST(OneBit, FloatSumsAreTheMeanAndKeepNoError) {
  const auto codec = MakeOneBitCodec(64, false);
  EXPECT_FALSE(codec->SingleCodeIsSum());
  EXPECT_EQ(codec->NewSumMemory({0, 0, 9}), nullptr);
  EXPECT_NE(codec->NewMemory(9), nullptr);
  const Round round = MakeRound(*codec, {SomeGradient(300, 1), SomeGradient(300, 2)});
  const std::vector<float> decoded0 = DecodeSingleCode(*codec, round.payloads[0], {0, 0, 300});
  const std::vector<float> decoded1 = DecodeSingleCode(*codec, round.payloads[1], {0, 0, 300});
  const std::vector<float> mean = Mean(*codec, round);
  for (size_t i = 0; i < 300; ++i) ASSERT_EQ(mean[i], (decoded0[i] + decoded1[i]) / 2);
}

TEST(OneBit, HugeAndTinyGradientsStayFinite) {
  const auto codec = MakeOneBitCodec(4);
  for (const float x : {kLargestFloat, std::numeric_limits<float>::denorm_min()}) {
    const std::vector<float> g = {x, -x, x, 0, -x, -x, -x, -x, x};
    const Round round = MakeRound(*codec, {g, g, g});
    const auto memory = codec->NewSumMemory({2, 0, 9});
    for (int round_index = 0; round_index < 3; ++round_index) {
      const std::vector<float> values =
          DecodeSingleCode(*codec, SumOf(*codec, round, memory.get(), {0, 1, 2}), {2, 0, 9});
      for (float v : values) ASSERT_TRUE(std::isfinite(v));
    }
    EXPECT_EQ(std::signbit(DecodeSingleCode(*codec, round.payloads[0], {0, 0, 9})[1]), true);
  }
}

TEST(OneBit, InvalidCodesAreRefused) {
  const auto codec = MakeOneBitCodec(3);
  const std::vector<uint8_t> valid_code =
      CodeOf(*codec, std::vector<float>{1, -1, 2, 4, 5, -3, -4, -5, -6});
  EXPECT_EQ(StatusOfAdding(*codec, valid_code, 9), Code::kOk);
  // The valid code with another number in place of one of its means (three groups have two each).
  const auto code_with_mean = [&](size_t at, float mean) {
    std::vector<uint8_t> changed_code = valid_code;
    std::memcpy(changed_code.data() + 4 * at, &mean, sizeof mean);
    return changed_code;
  };
  std::vector<float> values(9);
  for (const float bad_mean : {kInfinity, -kInfinity, std::nanf(""), -0.0f}) {
    for (size_t at = 0; at < 6; ++at) {
      EXPECT_EQ(StatusOfAdding(*codec, code_with_mean(at, bad_mean), 9), Code::kMismatch)
          << bad_mean << ' ' << at;
      const size_t group = at / 2;
      EXPECT_EQ(
          codec->Decode(code_with_mean(at, bad_mean), {0, 0, 9}, 1, 0, 3 * group, 1, &values[0])
              .code(),
          Code::kMismatch);
      EXPECT_TRUE(codec
                      ->Decode(code_with_mean(at, bad_mean), {0, 0, 9}, 1, 0, (3 * group + 3) % 9,
                               1, &values[0])
                      .ok());
    }
  }
  for (const size_t negative_mean : {0, 2, 4}) {
    EXPECT_EQ(StatusOfAdding(*codec, code_with_mean(negative_mean, 1.0f), 9), Code::kMismatch);
    EXPECT_EQ(StatusOfAdding(*codec, code_with_mean(negative_mean, 0.0f), 9), Code::kMismatch)
        << "there are negative elements";
    EXPECT_EQ(StatusOfAdding(*codec, code_with_mean(negative_mean + 1, -1.0f), 9), Code::kMismatch);
  }
  EXPECT_EQ(StatusOfAdding(*codec, code_with_mean(5, 1.0f), 9), Code::kMismatch)
      << "all elements are negative";
  EXPECT_EQ(StatusOfAdding(*codec, code_with_mean(1, 0.0f), 9), Code::kOk)
      << "the other elements may all be 0";
  std::vector<uint8_t> code_without_negatives = valid_code;
  code_without_negatives[24] = static_cast<uint8_t>(valid_code[24] & ~2);
  EXPECT_EQ(StatusOfAdding(*codec, code_without_negatives, 9), Code::kMismatch);
}

TEST(OneBit, TooLargeBucketsAreRefused) {
  Options options;
  options.keys.mutable_onebit()->set_bucket_elements(~uint64_t{0});
  const auto codec = MakeCodec("onebit", options);
  ASSERT_FALSE(codec.ok());
  EXPECT_EQ(codec.status().code(), Code::kBadJob);
  EXPECT_NE(codec.status().message().find("exchange.onebit.bucket_elements"), std::string::npos);
}

// onebit always keeps its errors. The option error_feedback adds no second memory.
TEST(OneBit, ErrorFeedbackIsAddedOnce) {
  Options options;
  options.error_feedback = true;
  const auto codec = std::move(*MakeCodec("onebit", options));
  EXPECT_NE(dynamic_cast<ErrorFeedback*>(codec->NewMemory(4).get()), nullptr);
  EXPECT_FALSE(codec->is_stochastic());
  EXPECT_FALSE(codec->shares_scaler());
}

}  // namespace
}  // namespace tern::codec
