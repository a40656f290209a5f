// What ternary codes lose of gradients with and without a rotation before them, for clips at 2.5
// sigma and none, and for Gaussian values and values of Student's t distribution with 3 degrees of
// freedom, whose tails are as heavy as those of real gradients. Prints a JSON list of
//   {"values", "clip", "rotate", "scaler_elements", "bias", "error", "error8", "up", "up_ans"}
// `bias` is |E[decoded] - g|^2 / |g|^2 (a code's expected value is the value, clamped), `error` is
// |decoded - g|^2 / |g|^2 of one code, `error8` that of the mean of eight codes of one gradient.
// `up` and `up_ans` are the bits per element of ternary and ternary_ans.
// With FILE also for the first worker's gradient in it (real_gradients.py).
//   rotated_errors [FILE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/gradients.h"
#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "kernels/codes/stats.h"

namespace tern::bench {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr size_t kElements = size_t{1} << 20;
constexpr size_t kGradientsInFile = 8;

std::unique_ptr<codec::Codec> MakeCodecOrExit(const std::string& name, codec::Clip clip,
                                              uint64_t block) {
  codec::Options options;
  options.clip = clip;
  options.rotate = block;
  auto codec = codec::MakeCodec(name, options);
  if (!codec.ok()) std::exit(1);
  return std::move(*codec);
}

double SquaredDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    sum += difference * difference;
  }
  return sum;
}

// One gradient and a codec for it.
class Exchange {
 public:
  Exchange(const codec::Codec& codec, const std::vector<float>& g) : codec_(codec), values_(g) {
    if (codec.rotates()) codec.Rotate(0, 0, g, values_.data());
    params_ = codec.Prepare(kernels::ComputeStats(values_.data(), values_.size()), values_, {});
  }

  // The squared norm of what clamping takes away. A rotation keeps it.
  double SquaredBias() const {
    std::vector<float> clamped = values_;
    for (float& v : clamped) v = std::clamp(v, -params_.scaler, params_.scaler);
    return SquaredDistance(clamped, values_);
  }
  // The mean of the codes of workers that all have the gradient. Sets *up to the bits per element.
  std::vector<float> Mean(int workers, double* up) const {
    const codec::Segment segment{0, 0, values_.size()};
    const auto sum = codec_.NewAccumulator(segment, workers);
    for (int rank = 0; rank < workers; ++rank) {
      const kernels::NoiseKey noise{.seed = 1, .rank = static_cast<uint16_t>(rank)};
      std::vector<uint8_t> code;
      codec_.Encode(values_.data(), segment, params_, noise, &code);
      *up = 8 * static_cast<double>(code.size()) / static_cast<double>(values_.size());
      if (!sum->Add(rank, code).ok()) std::exit(1);
    }
    std::vector<uint8_t> bytes;
    sum->EncodeSum(&bytes);
    std::vector<float> mean(values_.size());
    if (!codec_.Decode(bytes, segment, workers, params_.scaler, 0, mean.size(), mean.data()).ok())
      std::exit(1);
    return mean;
  }

 private:
  const codec::Codec& codec_;
  std::vector<float> values_;  // rotated, if the codec rotates
  codec::EncodeParams params_;
};

// Squared norms, and bits, of a gradient's parts.
struct Sums {
  double norm = 0, bias = 0, error = 0, error8 = 0, up_bits = 0, up_ans_bits = 0;
};

// Adds a part of a gradient, which has a scaler of its own.
void AddPart(const codec::Codec& codec, const codec::Codec& ans, const std::vector<float>& g,
             Sums* sums) {
  const Exchange exchange(codec, g);
  double up = 0, up_ans = 0;
  sums->norm += SquaredDistance(g, std::vector<float>(g.size()));
  sums->bias += exchange.SquaredBias();
  sums->error += SquaredDistance(exchange.Mean(1, &up), g);
  sums->error8 += SquaredDistance(exchange.Mean(8, &up), g);
  Exchange(ans, g).Mean(1, &up_ans);
  sums->up_bits += up * static_cast<double>(g.size());
  sums->up_ans_bits += up_ans * static_cast<double>(g.size());
}

// `part`: the elements that share a scaler; 0: all.
void PrintRow(const char* separator, const char* values, const std::vector<float>& g,
              codec::Clip clip, uint64_t block, uint64_t part) {
  const auto codec = MakeCodecOrExit("ternary", clip, block);
  const auto ans = MakeCodecOrExit("ternary_ans", clip, block);
  Sums sums;
  const size_t step = part == 0 ? g.size() : part;
  for (size_t begin = 0; begin < g.size(); begin += step)
    AddPart(*codec, *ans, {&g[begin], &g[begin] + std::min(step, g.size() - begin)}, &sums);
  const auto elements = static_cast<double>(g.size());
  std::printf(
      "%s{\"values\": \"%s\", \"clip\": \"%s\", \"rotate\": %llu, \"scaler_elements\": %llu, "
      "\"bias\": %.5g, \"error\": %.5g, \"error8\": %.5g, \"up\": %.4g, \"up_ans\": %.4g}",
      separator, values, clip == codec::Clip::kNone ? "none" : "paper",
      static_cast<unsigned long long>(block), static_cast<unsigned long long>(part),
      sums.bias / sums.norm, sums.error / sums.norm, sums.error8 / sums.norm,
      sums.up_bits / elements, sums.up_ans_bits / elements);
}

void PrintRows(const char* separator, const char* values, const std::vector<float>& g) {
  for (const codec::Clip clip : {codec::Clip::kPaper, codec::Clip::kNone}) {
    for (const uint64_t part : {uint64_t{0}, kBlock}) {
      for (const uint64_t block : {uint64_t{0}, kBlock}) {
        PrintRow(separator, values, g, clip, block, part);
        separator = ",\n ";
      }
    }
  }
}

int Main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "rotated_errors [FILE]\n");
    return 64;
  }
  std::mt19937_64 random(2017);
  std::normal_distribution<double> normal;
  std::student_t_distribution<double> student(3);
  std::vector<float> gaussian_values(kElements), student_values(kElements), real_values;
  for (float& v : gaussian_values) v = static_cast<float>(normal(random));
  for (float& v : student_values) v = static_cast<float>(student(random));
  if (argc == 2) real_values = ReadGradientsOrExit(argv[1], kGradientsInFile).front();
  PrintRows("[", "gaussian", gaussian_values);
  PrintRows(",\n ", "student_t3", student_values);
  if (argc == 2) PrintRows(",\n ", "real", real_values);
  std::printf("]\n");
  return 0;
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) { return tern::bench::Main(argc, argv); }
