// What the tests of the codec QSGD share: codecs with given options, random numbers, and values of
// codes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/codec/codecs.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {

using Qsgd = Options::Qsgd;
using Levels = Qsgd::Levels;
using Layout = Qsgd::Layout;
using Norm = Qsgd::Norm;

inline std::unique_ptr<Codec> MakeQsgdCodec(const Qsgd& qsgd, bool coded_sums = true) {
  Options options;
  options.coded_sums = coded_sums;
  options.qsgd = qsgd;
  return std::move(*MakeCodec("qsgd", options));
}

// Options with a fixed number of bits per element.
inline Qsgd WithBits(int bits, uint64_t bucket, Norm norm = Norm::kMax,
                     Layout layout = Layout::kSign) {
  Qsgd qsgd;
  qsgd.bits = bits;
  qsgd.bucket = bucket;
  qsgd.norm = norm;
  qsgd.layout = layout;
  return qsgd;
}

// Options whose number of levels is set by the rule `levels`. If that is kGiven, the number is s.
inline Qsgd WithLevels(Levels levels, uint64_t bucket, Norm norm = Norm::kTwo, double s = 0) {
  Qsgd qsgd;
  qsgd.levels = levels;
  qsgd.bucket = bucket;
  qsgd.norm = norm;
  qsgd.s = s;
  return qsgd;
}

inline kernels::NoiseKey NoiseOfRound(uint64_t round) {
  kernels::NoiseKey noise;
  noise.seed = 7;
  noise.round = round;
  return noise;
}

inline std::vector<float> DecodeSingleCode(const Codec& codec, std::span<const uint8_t> code,
                                           uint64_t count) {
  std::vector<float> values(count);
  const Result<size_t> code_bytes = codec.DecodeSingleCode(code, {0, 0, count}, values.data());
  EXPECT_TRUE(code_bytes.ok()) << code_bytes.status().message();
  return values;
}

}  // namespace tern::codec
