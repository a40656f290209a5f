#include "common/codec/error_feedback.h"

#include <gmock/gmock.h>

#include "common/codec/codecs.h"
#include "kernels/codes/half.h"
#include "kernels/codes/stats.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

using testing::HasSubstr;

std::unique_ptr<Codec> MakeFp16WithFeedback() {
  Options options;
  options.error_feedback = true;
  auto codec = MakeCodec("fp16", options);
  EXPECT_TRUE(codec.ok());
  return std::move(*codec);
}

// The values that receivers decode from one worker's code of a whole tensor g. Before encoding, the
// worker adds the residual in `memory` to g; afterwards it stores the new residual there.
std::vector<float> Send(const Codec& codec, const std::vector<float>& g, Memory* memory) {
  std::vector<float> v(g.size()), sent(g.size());
  EXPECT_EQ(memory->Compensate(0, g, v).data(), v.data());
  std::vector<uint8_t> code;
  const Segment segment{0, 0, g.size()};
  codec.Encode(v.data(), segment, codec.Prepare(kernels::ComputeStats(v.data(), v.size()), v, {}),
               {}, &code);
  EXPECT_TRUE(codec.DecodeSingleCode(code, segment, sent.data()).ok());
  memory->Update(0, v, sent);
  return sent;
}

// The residual that `memory` holds.
std::vector<float> ResidualIn(Memory* memory) {
  SavedState saved_state;
  memory->AddState(&saved_state);
  EXPECT_EQ(saved_state.arrays.size(), 1u);
  return {saved_state.arrays[0].values.begin(), saved_state.arrays[0].values.end()};
}

TEST(ErrorFeedback, KeepsExactlyWhatTheCodeLeftOut) {
  const auto codec = MakeFp16WithFeedback();
  const auto memory = codec->NewMemory(1000);
  std::vector<float> residual(1000);
  for (uint64_t round = 0; round < 30; ++round) {
    const std::vector<float> g = SomeGradient(1000, round);
    const std::vector<float> sent = Send(*codec, g, memory.get());
    bool has_residual = false;
    for (size_t i = 0; i < g.size(); ++i) {
      const float v = g[i] + residual[i];
      uint16_t half = 0;
      float decoded = 0;
      kernels::FloatToHalf(&v, 1, &half);
      kernels::HalfToFloat(&half, 1, &decoded);
      ASSERT_EQ(sent[i], decoded);
      residual[i] = v - decoded;
      has_residual |= residual[i] != 0;
    }
    ASSERT_EQ(ResidualIn(memory.get()), residual) << "round " << round;
    ASSERT_TRUE(has_residual);
  }
}

// The part of a gradient that a half-precision number cannot represent is sent in later rounds.
TEST(ErrorFeedback, EventuallySendsWhatOneCodeCannotHold) {
  const auto codec = MakeFp16WithFeedback();
  const auto memory = codec->NewMemory(1);
  double total_sent = 0;
  for (int round = 0; round < 4096; ++round) total_sent += Send(*codec, {1.0001f}, memory.get())[0];
  EXPECT_NEAR(total_sent, 4096 * 1.0001, 0.001);
}

TEST(ErrorFeedback, IsSavedRestoredAndReset) {
  const auto codec = MakeFp16WithFeedback();
  const auto memory = codec->NewMemory(100), other_memory = codec->NewMemory(100);
  Send(*codec, SomeGradient(100, 1), memory.get());
  SavedState saved, restored;
  memory->AddState(&saved);
  other_memory->AddState(&restored);
  ASSERT_EQ(saved.arrays[0].name, restored.arrays[0].name);
  std::copy(saved.arrays[0].values.begin(), saved.arrays[0].values.end(),
            restored.arrays[0].values.begin());
  EXPECT_EQ(Send(*codec, SomeGradient(100, 2), memory.get()),
            Send(*codec, SomeGradient(100, 2), other_memory.get()));
  EXPECT_EQ(ResidualIn(memory.get()), ResidualIn(other_memory.get()));
  memory->Reset();
  EXPECT_EQ(ResidualIn(memory.get()), std::vector<float>(100));
}

// A long code is decoded in blocks.
TEST(ErrorFeedback, OfALongCodeIsWhatTheWholeCodeLeftOut) {
  const uint64_t count = 40'000;
  const auto codec = MakeFp16WithFeedback();
  const auto memory = codec->NewMemory(count), memory_of_code = codec->NewMemory(count);
  const std::vector<float> g = SomeGradient(count, 1);
  Send(*codec, g, memory.get());
  std::vector<float> compensated(count);
  const std::span<const float> v = memory_of_code->Compensate(0, g, compensated);
  std::vector<uint8_t> code;
  const Segment segment{0, 0, count};
  codec->Encode(v.data(), segment, codec->Prepare(kernels::ComputeStats(v.data(), count), v, {}),
                {}, &code);
  ASSERT_TRUE(codec->UpdateMemory(code, segment, v, memory_of_code.get()).ok());
  EXPECT_EQ(ResidualIn(memory_of_code.get()), ResidualIn(memory.get()));
}

TEST(ErrorFeedback, IsRefusedForStochasticCodes) {
  Options options;
  options.error_feedback = true;
  const auto codec = MakeCodec("ternary", options);
  EXPECT_EQ(codec.status().code(), Code::kBadJob);
  EXPECT_THAT(codec.status().message(), HasSubstr("exchange.error_feedback"));
  EXPECT_THAT(codec.status().message(), HasSubstr("drawn without bias"));
}

}  // namespace
}  // namespace tern::codec
