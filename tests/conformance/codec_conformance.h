// Requirements for every codec, independent of its bytes. A codec's test supplies its constructor,
// its allowed errors and its golden bytes; the suite (codec_conformance.cc) does the rest:
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
  std::string name;  // letters and digits
  std::function<std::unique_ptr<Codec>()> make;
  // Whether `mean` is an allowed result if one worker alone encodes g with this scaler.
  std::function<bool(float g, float scaler, float mean)> plausible;
  // Indices of the unused bits of a payload (bit i is bit i % 8 of byte i / 8), which must be zero.
  std::function<std::vector<size_t>(std::span<const uint8_t> payload, uint64_t count)> unused_bits;
  // GoldenRound's payloads of ranks 0 and 1 and their sum, in hexadecimal. They pin the format: a
  // codec whose bytes change needs a new name.
  std::string golden_payloads[2];
  std::string golden_sum;
  // The relative error that the sum's own format adds.
  double rounding = 0x1p-11;
  // For codecs that encode sums again: the allowed distance of a sum from the mean of the sent
  // values, relative to that mean's largest magnitude.
  double recoding = 0;
  // Codes and sums of one number of elements vary in size, up to the maximum.
  bool sizes_vary = false;
  // More than this many of the suite's 3000 random rows are valid codes.
  int random_codes = 10;
};

inline std::string CaseName(const testing::TestParamInfo<CodecCase>& info) {
  return info.param.name;
}
inline std::vector<size_t> NoUnusedBits(std::span<const uint8_t>, uint64_t) { return {}; }
// For mask and signs that start at byte `offset` of the payload.
std::vector<size_t> UnusedBitsOfMaskSigns(std::span<const uint8_t> payload, uint64_t count,
                                          size_t offset);

std::string ToHex(std::span<const uint8_t> bytes);

// One tensor's exchange among `gradients.size()` workers.
struct Round {
  std::vector<std::vector<float>> gradients;  // by rank, all of one length
  std::vector<Prepared> prepared;             // scalers already shared, if the codec shares them
  std::vector<std::vector<uint8_t>> payloads;
  float scaler = 0;  // the shared one

  uint64_t count() const { return gradients[0].size(); }
  int workers() const { return static_cast<int>(gradients.size()); }
};

// Normal gradients with some exact zeros, a function of `seed`.
std::vector<float> SomeGradient(size_t n, uint64_t seed);
// Prepares and encodes elements [begin, begin + length) of tensor 2 in round 3 with seed 2017.
Round MakeRound(const Codec& codec, std::vector<std::vector<float>> gradients, uint64_t begin = 0);
// Two workers, 11 elements, starting at element 5.
Round GoldenRound(const Codec& codec);
// Adds the ranks in `order` and returns the sum's bytes.
std::vector<uint8_t> Sum(const Codec& codec, const Round& round, const std::vector<int>& order);
std::vector<uint8_t> Sum(const Codec& codec, const Round& round);
// Decodes the whole sum; an error fails the test.
std::vector<float> Mean(const Codec& codec, const Round& round);

class CodecConformance : public testing::TestWithParam<CodecCase> {
 protected:
  void SetUp() override { codec_ = GetParam().make(); }
  std::unique_ptr<Codec> codec_;
};

}  // namespace tern::codec
