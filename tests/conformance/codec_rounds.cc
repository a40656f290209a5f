// The functions of codec_conformance.h that make exchanges of one tensor among several workers.
#include <algorithm>
#include <numeric>
#include <random>

#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {

std::vector<size_t> UnusedBitsOfMaskAndSigns(std::span<const uint8_t> payload, uint64_t count,
                                             size_t offset) {
  std::vector<size_t> unused_bits;
  const size_t mask_bytes = kernels::PlaneBytes(count);
  for (size_t i = count; i < 8 * mask_bytes; ++i) unused_bits.push_back(8 * offset + i);
  const size_t num_ones = kernels::CountOnes(payload.data() + offset, count);
  for (size_t i = num_ones; i < 8 * kernels::PlaneBytes(num_ones); ++i) {
    unused_bits.push_back(8 * (offset + mask_bytes) + i);
  }
  return unused_bits;
}

std::string ToHex(std::span<const uint8_t> bytes) {
  const char* digits = "0123456789abcdef";
  std::string hex;
  for (uint8_t b : bytes) {
    hex += digits[b >> 4];
    hex += digits[b & 15];
  }
  return hex;
}

std::vector<float> SomeGradient(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> g(n);
  for (float& v : g) v = random() % 16 == 0 ? 0.0f : normal(random);
  return g;
}

// The key of a worker's random numbers.
static kernels::NoiseKey NoiseOf(int rank) {
  kernels::NoiseKey noise;
  noise.seed = 2017;
  noise.rank = static_cast<uint16_t>(rank);
  noise.round = 3;
  noise.tensor = 2;
  return noise;
}

Round MakeRound(const Codec& codec, std::vector<std::vector<float>> gradients, uint64_t begin) {
  Round round;
  round.gradients = std::move(gradients);
  round.values = round.gradients;
  for (std::vector<float>& g : round.values) {
    if (codec.rotates()) codec.Rotate(0, 0, g, g.data());
    round.encode_params.push_back(
        codec.Prepare(kernels::ComputeStats(g.data(), g.size()), g,
                      NoiseOf(static_cast<int>(round.encode_params.size()))));
    round.scaler = std::max(round.scaler, round.encode_params.back().scaler);
  }
  for (int rank = 0; rank < round.workers(); ++rank) {
    if (codec.shares_scaler()) round.encode_params[rank].scaler = round.scaler;
    codec.Encode(round.values[rank].data(), {2, begin, round.count()}, round.encode_params[rank],
                 NoiseOf(rank), &round.payloads.emplace_back());
  }
  return round;
}

Round GoldenRound(const Codec& codec) {
  return MakeRound(codec,
                   {{0.5, -1, 0, 0.25, -0.75, 1, 0.125, -0.375, 0.0625, -0.5, 0.875},
                    {-0.25, -0.5, 0.75, 0, 0.5, 0.125, -1.5, 0.375, 0.25, -0.0625, 0.5}},
                   5);
}

std::vector<uint8_t> Sum(const Codec& codec, const Round& round, const std::vector<int>& order) {
  const auto sum = codec.NewAccumulator({0, 0, round.count()}, round.workers());
  for (int rank : order) {
    const Result<size_t> bytes_used = sum->Add(rank, round.payloads[rank]);
    EXPECT_TRUE(bytes_used.ok()) << bytes_used.status().message();
    EXPECT_EQ(bytes_used.ok() ? *bytes_used : 0, round.payloads[rank].size());
  }
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  return bytes;
}

std::vector<uint8_t> Sum(const Codec& codec, const Round& round) {
  std::vector<int> order(round.workers());
  std::iota(order.begin(), order.end(), 0);
  return Sum(codec, round, order);
}

std::vector<float> Mean(const Codec& codec, const Round& round) {
  std::vector<float> mean(round.count());
  const Status decode_status =
      codec.Decode(Sum(codec, round), {0, round.begin, round.count()}, round.workers(),
                   round.scaler, 0, round.count(), mean.data());
  EXPECT_TRUE(decode_status.ok()) << decode_status.message();
  return mean;
}

}  // namespace tern::codec
