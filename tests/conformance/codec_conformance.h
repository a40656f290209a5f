// A test suite of requirements that every codec must meet (a codec turns gradients into bytes, adds
// up the workers' bytes, and decodes the mean). The test of a codec instantiates the suite with the
// codec's constructor, its allowed errors and its golden bytes (the exact bytes of a fixed
// example):
//
//   INSTANTIATE_TEST_SUITE_P(Fp32, CodecConformance, testing::Values(CodecCase{...}), CaseName);
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/codec/codec.h"

namespace tern::codec {

struct CodecCase {
  std::string name;  // Only letters and digits.
  std::function<std::unique_ptr<Codec>()> make;
  // Returns whether `mean` is an allowed decoded value if a job's only worker encodes the element g
  // with this scaler (the largest magnitude that a code can express).
  std::function<bool(float g, float scaler, float mean)> is_plausible;
  // Returns the indices of the bits of a code that pad it to whole bytes. The decoder must require
  // them to be zero. Index i is bit i % 8 of byte i / 8.
  std::function<std::vector<size_t>(std::span<const uint8_t> payload, uint64_t count)> unused_bits;
  // The codes of ranks 0 and 1 in GoldenRound, and their sum, in hexadecimal. They must never
  // change, because a codec whose bytes change needs a new name.
  std::string golden_payloads[2];
  std::string golden_sum;
  // The largest relative error of a decoded mean that the rounding of the sum's numbers may cause.
  double max_rounding_error = 0x1p-11;
  // For codecs whose server encodes the sum lossily: the allowed error of the decoded mean,
  // relative to the largest magnitude of the exact mean.
  double max_recoding_error = 0;
  // Whether the sizes of codes and sums depend on the values, not only on the number of elements.
  bool sizes_vary = false;
  // The suite tries to add 3000 random byte strings; more than this many must happen to be valid
  // codes.
  int random_codes = 10;
};

inline std::string CaseName(const testing::TestParamInfo<CodecCase>& info) {
  return info.param.name;
}
inline std::vector<size_t> NoUnusedBits(std::span<const uint8_t>, uint64_t) { return {}; }
// Returns the unused bits of a code that has, from byte `offset` on, a mask (one bit per element)
// and then one sign bit per element whose mask bit is 1.
std::vector<size_t> UnusedBitsOfMaskAndSigns(std::span<const uint8_t> payload, uint64_t count,
                                             size_t offset);

std::string ToHex(std::span<const uint8_t> bytes);

// One tensor's exchange among `gradients.size()` workers.
struct Round {
  std::vector<std::vector<float>> gradients;  // by rank, all of one length
  std::vector<std::vector<float>> values;     // the gradients, rotated if the codec rotates
  uint64_t begin = 0;                         // the place in the tensor with which sums are decoded
  // By rank: the scaler and other inputs of the encoder. If the codec shares scalers, these are
  // equal for all ranks.
  std::vector<EncodeParams> encode_params;
  std::vector<std::vector<uint8_t>> payloads;  // The codes, by rank.
  float scaler = 0;                            // The largest scaler of the workers.

  uint64_t count() const { return gradients[0].size(); }
  int workers() const { return static_cast<int>(gradients.size()); }
};

// Returns n normally distributed values, of which some are exactly 0. They depend only on `seed`.
std::vector<float> SomeGradient(size_t n, uint64_t seed);
// Encodes the gradients as the elements [begin, begin + length) of tensor 2 in round 3, with random
// numbers of seed 2017. If the codec rotates, the rotation is that of elements from 0 of tensor 0.
Round MakeRound(const Codec& codec, std::vector<std::vector<float>> gradients, uint64_t begin = 0);
// The fixed example of the golden bytes: two workers, elements 5 to 15 of a tensor.
Round GoldenRound(const Codec& codec);
// Adds the codes of the ranks in `order`, by default 0, 1, 2 ..., and returns the bytes of the sum.
std::vector<uint8_t> Sum(const Codec& codec, const Round& round, const std::vector<int>& order);
std::vector<uint8_t> Sum(const Codec& codec, const Round& round);
// Decodes the sum of all ranks to the mean gradient. An error fails the test.
std::vector<float> Mean(const Codec& codec, const Round& round);

class CodecConformance : public testing::TestWithParam<CodecCase> {
 protected:
  void SetUp() override { codec_ = GetParam().make(); }
  std::unique_ptr<Codec> codec_;
};

}  // namespace tern::codec
