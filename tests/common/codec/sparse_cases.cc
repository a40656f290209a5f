#include "tests/common/codec/sparse_cases.h"

#include <algorithm>
#include <bit>

#include "common/codec/codecs.h"
#include "kernels/codes/stats.h"

namespace tern::codec {
namespace {

std::vector<size_t> UnusedBits(std::span<const uint8_t> payload, uint64_t count, bool floats) {
  std::vector<size_t> bits;
  const auto add_padding = [&](size_t byte, size_t used_bits) {
    for (size_t i = used_bits; i < 8 * ((used_bits + 7) / 8); ++i) bits.push_back(8 * byte + i);
  };
  if (count == 0) return bits;
  size_t offset = floats ? 0 : 8;
  const size_t k = payload[offset] | size_t{payload[offset + 1]} << 8;
  offset += 2;
  if (k == 0 || (floats && k == count)) return bits;
  // Positions of k of `count` elements are a bitmap or an Elias-Fano code, whichever is smaller.
  const size_t low_bits = std::bit_width(count / k) - 1;
  const size_t elias_fano = k * low_bits + k + ((count - 1) >> low_bits);
  const size_t used_bits = (count + 7) / 8 <= (elias_fano + 7) / 8 ? count : elias_fano;
  add_padding(offset, used_bits);
  if (!floats) add_padding(offset + (used_bits + 7) / 8, k);
  return bits;
}

}  // namespace

std::vector<size_t> UnusedBitsOfFloats(std::span<const uint8_t> payload, uint64_t count) {
  return UnusedBits(payload, count, true);
}
std::vector<size_t> UnusedBitsOfPairs(std::span<const uint8_t> payload, uint64_t count) {
  return UnusedBits(payload, count, false);
}

std::vector<float> Sender::Send(const std::vector<float>& g, uint64_t round, uint64_t step) {
  compensated_ = g;
  memory_->Compensate(0, compensated_, compensated_);
  const kernels::Stats stats = kernels::ComputeStats(compensated_.data(), g.size());
  std::vector<float> sent(g.size());
  if (!stats.finite) return sent;
  kernels::NoiseKey noise;
  noise.round = round;
  const Prepared prepared = codec_.Prepare(stats, compensated_, noise);
  code_.clear();
  for (uint64_t begin = 0; begin < g.size(); begin += step) {
    const Segment segment{0, begin, std::min<uint64_t>(step, g.size() - begin)};
    const size_t code_begin = code_.size();
    codec_.Encode(&compensated_[begin], segment, prepared, noise, &code_);
    const std::span<float> decoded = std::span(sent).subspan(begin, segment.count);
    const auto consumed =
        codec_.DecodeSingleCode(std::span(code_).subspan(code_begin), segment, decoded.data());
    EXPECT_TRUE(consumed.ok()) << consumed.status().message();
    memory_->Update(begin, std::span(compensated_).subspan(begin, segment.count), decoded);
  }
  return sent;
}

std::vector<float> Sender::Saved(const std::string& name) {
  SavedState state;
  memory_->AddState(&state);
  for (const SavedState::Array& array : state.arrays) {
    if (array.name == name) return {array.values.begin(), array.values.end()};
  }
  ADD_FAILURE() << "nothing is saved as " << name;
  return {};
}

void Sender::Restore(Sender& from) {
  SavedState to, saved;
  memory_->AddState(&to);
  from.memory_->AddState(&saved);
  ASSERT_EQ(to.arrays.size(), saved.arrays.size());
  for (size_t i = 0; i < to.arrays.size(); ++i) {
    ASSERT_EQ(to.arrays[i].name, saved.arrays[i].name);
    ASSERT_EQ(to.arrays[i].values.size(), saved.arrays[i].values.size());
    std::copy(saved.arrays[i].values.begin(), saved.arrays[i].values.end(),
              to.arrays[i].values.begin());
  }
}

void ExpectRefused(const char* codec, const Options& options, const std::string& key) {
  const auto codec_or_error = MakeCodec(codec, options);
  ASSERT_FALSE(codec_or_error.ok());
  EXPECT_EQ(codec_or_error.status().code(), Code::kBadJob);
  EXPECT_NE(codec_or_error.status().message().find(key), std::string::npos)
      << codec_or_error.status().message();
}

std::unique_ptr<Codec> MakeValidCodec(const char* codec, const Options& options) {
  auto codec_or_error = MakeCodec(codec, options);
  EXPECT_TRUE(codec_or_error.ok()) << codec_or_error.status().message();
  return std::move(*codec_or_error);
}

}  // namespace tern::codec
