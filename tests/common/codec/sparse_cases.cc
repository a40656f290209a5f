#include "tests/common/codec/sparse_cases.h"

#include <algorithm>
#include <bit>

#include "common/codec/codecs.h"
#include "kernels/codes/stats.h"

namespace tern::codec {
namespace {

std::vector<size_t> UnusedBits(std::span<const uint8_t> payload, uint64_t count,
                               bool sends_floats) {
  std::vector<size_t> unused_bits;
  const auto add_padding = [&](size_t byte, size_t used_bits) {
    for (size_t i = used_bits; i < 8 * ((used_bits + 7) / 8); ++i)
      unused_bits.push_back(8 * byte + i);
  };
  if (count == 0) return unused_bits;
  size_t position_bytes_begin = sends_floats ? 0 : 8;
  const size_t num_sent = payload[position_bytes_begin] | size_t{payload[position_bytes_begin + 1]}
                                                              << 8;
  position_bytes_begin += 2;
  if (num_sent == 0 || (sends_floats && num_sent == count)) return unused_bits;
  // The positions of the sent elements are a bitmap or an Elias-Fano code, whichever is smaller.
  const size_t num_low_bits = std::bit_width(count / num_sent) - 1;
  const size_t elias_fano_bits = num_sent * num_low_bits + num_sent + ((count - 1) >> num_low_bits);
  const size_t used_bits = (count + 7) / 8 <= (elias_fano_bits + 7) / 8 ? count : elias_fano_bits;
  add_padding(position_bytes_begin, used_bits);
  if (!sends_floats) add_padding(position_bytes_begin + (used_bits + 7) / 8, num_sent);
  return unused_bits;
}

}  // namespace

std::vector<size_t> UnusedBitsOfFloats(std::span<const uint8_t> payload, uint64_t count) {
  return UnusedBits(payload, count, true);
}
std::vector<size_t> UnusedBitsOfPairs(std::span<const uint8_t> payload, uint64_t count) {
  return UnusedBits(payload, count, false);
}

std::vector<float> Sender::Send(const std::vector<float>& g, uint64_t round,
                                uint64_t segment_elements) {
  std::vector<float> room(g.size());
  const std::span<const float> v = memory_->Compensate(0, g, room);
  compensated_.assign(v.begin(), v.end());
  const kernels::Stats stats = kernels::ComputeStats(compensated_.data(), g.size());
  std::vector<float> sent(g.size());
  if (!stats.is_finite) return sent;
  kernels::NoiseKey noise;
  noise.round = round;
  const EncodeParams encode_params = codec_.Prepare(stats, compensated_, noise);
  code_.clear();
  for (uint64_t begin = 0; begin < g.size(); begin += segment_elements) {
    const Segment segment{0, begin, std::min<uint64_t>(segment_elements, g.size() - begin)};
    const size_t code_begin = code_.size();
    codec_.Encode(&compensated_[begin], segment, encode_params, noise, &code_);
    const std::span<float> decoded = std::span(sent).subspan(begin, segment.count);
    const auto consumed_bytes =
        codec_.DecodeSingleCode(std::span(code_).subspan(code_begin), segment, decoded.data());
    EXPECT_TRUE(consumed_bytes.ok()) << consumed_bytes.status().message();
    const Status updated = codec_.UpdateMemory(std::span(code_).subspan(code_begin), segment,
                                               v.subspan(begin, segment.count), memory_.get());
    EXPECT_TRUE(updated.ok()) << updated.message();
  }
  return sent;
}

std::vector<float> Sender::SavedArray(const std::string& name) {
  SavedState saved_state;
  memory_->AddState(&saved_state);
  for (const SavedState::Array& array : saved_state.arrays) {
    if (array.name == name) return {array.values.begin(), array.values.end()};
  }
  ADD_FAILURE() << "nothing is saved as " << name;
  return {};
}

void Sender::RestoreFrom(Sender& other) {
  SavedState own_state, other_state;
  memory_->AddState(&own_state);
  other.memory_->AddState(&other_state);
  ASSERT_EQ(own_state.arrays.size(), other_state.arrays.size());
  for (size_t i = 0; i < own_state.arrays.size(); ++i) {
    ASSERT_EQ(own_state.arrays[i].name, other_state.arrays[i].name);
    ASSERT_EQ(own_state.arrays[i].values.size(), other_state.arrays[i].values.size());
    std::copy(other_state.arrays[i].values.begin(), other_state.arrays[i].values.end(),
              own_state.arrays[i].values.begin());
  }
}

void ExpectRefused(const char* codec_name, const Options& options, const std::string& key) {
  const auto codec_or_error = MakeCodec(codec_name, options);
  ASSERT_FALSE(codec_or_error.ok());
  EXPECT_EQ(codec_or_error.status().code(), Code::kBadJob);
  EXPECT_NE(codec_or_error.status().message().find(key), std::string::npos)
      << codec_or_error.status().message();
}

std::unique_ptr<Codec> MakeValidCodec(const char* codec_name, const Options& options) {
  auto codec_or_error = MakeCodec(codec_name, options);
  EXPECT_TRUE(codec_or_error.ok()) << codec_or_error.status().message();
  return std::move(*codec_or_error);
}

}  // namespace tern::codec
