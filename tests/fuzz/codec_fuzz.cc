// Fuzzes every gradient codec: decodes arbitrary bytes as a worker's code and as a sum of codes.
// The first five bytes of the input choose the codec with its options, the number of workers and
// whether random codes are of rotated values, the number of elements (two bytes) and the scaler, by
// which decoded codes are multiplied.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "kernels/codes/stats.h"

namespace {

using tern::Code;
using tern::codec::Accumulator;
using tern::codec::Codec;
using tern::codec::MakeCodec;
using tern::codec::Segment;
using Bytes = std::vector<uint8_t>;

struct FuzzCase {
  std::unique_ptr<Codec> codec;
  int num_workers;
  uint64_t num_elements;
  float scaler;
  std::span<const uint8_t> bytes;  // the input after its first five bytes
};

// Aborts with a message if `condition` is false.
void Require(bool condition, const FuzzCase& c, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s, %d workers, %llu elements: %s\n", std::string(c.codec->name()).c_str(),
               c.num_workers, static_cast<unsigned long long>(c.num_elements), what);
  std::abort();
}

// Returns a valid code that worker `rank` could send.
Bytes HonestCode(const FuzzCase& c, int rank) {
  std::vector<float> g(c.num_elements);
  for (uint64_t i = 0; i < c.num_elements; ++i)
    g[i] = std::sin(static_cast<float>(i * 7 + static_cast<uint64_t>(rank)));
  tern::kernels::NoiseKey noise;
  noise.rank = static_cast<uint16_t>(rank);
  Bytes code;
  tern::codec::EncodeParams encode_params =
      c.codec->Prepare(tern::kernels::ComputeStats(g.data(), g.size()), g, noise);
  if (c.codec->shares_scaler()) encode_params.scaler = 1;
  c.codec->Encode(g.data(), {0, 0, c.num_elements}, encode_params, noise, &code);
  Require(code.size() <= c.codec->MaxEncodedSize({0, 0, c.num_elements}), c,
          "a code is larger than the largest");
  return code;
}

// Returns the bytes of the accumulator's sum, after checking their size.
Bytes EncodeCheckedSum(const FuzzCase& c, Accumulator* accumulator) {
  Bytes sum;
  accumulator->EncodeSum(&sum);
  Require(sum.size() <= c.codec->MaxSumSize({0, 0, c.num_elements}, c.num_workers), c,
          "a sum is larger than the largest");
  const auto sum_size = c.codec->SumSize(sum, {0, 0, c.num_elements}, c.num_workers);
  Require(sum_size.ok() && *sum_size == sum.size(), c, "a sum does not end where it ends");
  return sum;
}

// For each worker, first adds c.bytes as a code. If the accumulator refuses c.bytes, adds a valid
// code. Refused bytes must not change the sum. If the accumulator accepts c.bytes, it must not read
// beyond their end.
void CheckAddingInput(const FuzzCase& c) {
  const std::unique_ptr<Accumulator> expected_sum =
      c.codec->NewAccumulator({0, 0, c.num_elements}, c.num_workers);
  const std::unique_ptr<Accumulator> fuzzed_sum =
      c.codec->NewAccumulator({0, 0, c.num_elements}, c.num_workers);
  bool was_accepted = false;
  for (int rank = c.num_workers - 1; rank >= 0; --rank) {
    const Bytes code = HonestCode(c, rank);
    const auto added_input = fuzzed_sum->Add(rank, c.bytes);
    if (added_input.ok()) {
      was_accepted = true;
      Require(*added_input <= c.bytes.size() &&
                  *added_input <= c.codec->MaxEncodedSize({0, 0, c.num_elements}),
              c, "an Add read too much");
    } else {
      Require(
          added_input.status().code() == Code::kMismatch && !added_input.status().message().empty(),
          c, "a code is refused without a reason");
      const auto size_after_refusal = fuzzed_sum->Add(rank, code);
      Require(size_after_refusal.ok() && *size_after_refusal == code.size(), c,
              "an honest code is refused after a bad one");
    }
    const auto expected_size = expected_sum->Add(rank, code);
    Require(expected_size.ok() && *expected_size == code.size(), c, "an honest code is refused");
  }
  const Bytes sum = EncodeCheckedSum(c, fuzzed_sum.get());
  if (!was_accepted)
    Require(sum == EncodeCheckedSum(c, expected_sum.get()), c, "a refused code changed the sum");
  std::vector<float> mean(c.num_elements);
  const bool is_decoded =
      c.codec->Decode(sum, {0, 0, c.num_elements}, c.num_workers, 1, 0, c.num_elements, mean.data())
          .ok();
  // Every sum must decode, except that an accepted input may make a sum of floats overflow. Codecs
  // that share a scaler add codes in {-1, 0, 1}, which cannot overflow.
  Require(is_decoded || (was_accepted && !c.codec->shares_scaler()), c, "a sum is not decoded");
}

// Decodes c.bytes as a sum. A part of a valid sum must decode to the same values as in the whole
// sum. A sum of the wrong size must be refused.
void CheckDecodingInput(const FuzzCase& c) {
  const Segment segment{0, 0, c.num_elements};
  const size_t max_size = c.codec->MaxSumSize(segment, c.num_workers);
  std::vector<float> all_values(c.num_elements);
  const auto decode = [&](std::span<const uint8_t> sum, uint64_t first, std::span<float> values) {
    return c.codec
        ->Decode(sum, segment, c.num_workers, c.scaler, first, values.size(), values.data())
        .ok();
  };
  const auto input_size = c.codec->SumSize(c.bytes, segment, c.num_workers);
  if (!input_size.ok() || *input_size != c.bytes.size())
    Require(!decode(c.bytes, 0, all_values), c, "a sum of the wrong size is decoded");
  Bytes sum(c.bytes.begin(), c.bytes.end());
  sum.resize(std::max(sum.size(), max_size));
  const auto size = c.codec->SumSize(sum, segment, c.num_workers);
  if (!size.ok()) return;
  Require(*size <= sum.size() && *size <= max_size, c, "a sum is larger than the largest");
  sum.resize(*size);
  if (!decode(sum, 0, all_values)) return;
  const uint64_t first = c.num_elements / 3;
  std::vector<float> part_values(c.num_elements / 2);
  Require(decode(sum, first, part_values), c, "a part is not decoded");
  Require(part_values.empty() || std::memcmp(part_values.data(), all_values.data() + first,
                                             part_values.size() * sizeof(float)) == 0,
          c, "a part differs");
  for (const float v : all_values) Require(std::isfinite(v), c, "a mean is not finite");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kHeaderBytes = 5;
  if (size < kHeaderBytes) return 0;
  constexpr float kScalers[] = {1, 0, 1e-30f, 3e38f, -1, INFINITY, NAN};
  tern::codec::Options options;
  options.scaler_per_worker = (data[0] & 0x80) != 0;
  options.rotate = (data[1] & 0x80) != 0 ? 64 : 0;
  const std::vector<std::string>& names = tern::codec::CodecNames();
  auto codec = MakeCodec(names[(data[0] & 0x7f) % names.size()], options);
  if (!codec.ok()) std::abort();
  const FuzzCase c{std::move(*codec),
                   1 + data[1] % 127,
                   (data[2] + 256u * data[3]) % 2100u,
                   kScalers[data[4] % std::size(kScalers)],
                   {data + kHeaderBytes, size - kHeaderBytes}};
  CheckAddingInput(c);
  CheckDecodingInput(c);
  return 0;
}
