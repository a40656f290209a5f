// The error of the mean gradient of eight workers over the bytes that it takes, for qsgd with its
// mean coded again, qsgd with the exact mean, and qsgd_shared, plain and entropy-coded. The
// gradients are Gaussian, with a given correlation between any two workers, or are read from a
// file: eight gradients of as many floats, one after the other (real_gradients.py). Prints a JSON
// list of
//   {"codec", "bits", "gradients", "error", "up", "down"}
// `gradients` is a correlation or "real", `error` is
// |mean of the codes - mean of the gradients| / |mean of the gradients| in the 2-norm; `up` and
// `down` are bytes per element and worker, norms included.
//   sum_errors [FILE]
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

constexpr int kWorkers = 8;
constexpr size_t kElements = size_t{1} << 20;  // of each Gaussian gradient
constexpr uint64_t kGroup = 512;               // elements that share a norm
// The same for entropy codes, whose table of frequencies would cost more than short groups save.
constexpr uint64_t kGroupOfEntropyCodes = 4096;

Gradients CorrelatedGradients(size_t n, double correlation) {
  std::mt19937_64 random(2017);
  std::normal_distribution<double> normal;
  Gradients gradients(kWorkers, std::vector<float>(n));
  for (size_t i = 0; i < n; ++i) {
    const double common = std::sqrt(correlation) * normal(random);
    for (auto& g : gradients)
      g[i] = static_cast<float>(common + std::sqrt(1 - correlation) * normal(random));
  }
  return gradients;
}

struct Figures {
  double error = 0, up = 0, down = 0;
};

// Exchanges the gradients as one tensor. A codec that shares norms gets one group of
// elements after another, as parts of the tensor.
Figures Exchange(const codec::Codec& codec, const Gradients& gradients) {
  const size_t n = gradients[0].size();
  const uint64_t group = codec.name() == "qsgd_shared_ans" ? kGroupOfEntropyCodes : kGroup;
  const uint64_t part_elements = codec.shares_scaler() ? group : n;
  std::vector<float> mean(n);
  size_t up = 0, down = 0;
  for (uint64_t begin = 0; begin < n; begin += part_elements) {
    const codec::Segment segment{0, begin, std::min<uint64_t>(part_elements, n - begin)};
    kernels::NoiseKey noise{.seed = 1, .stream = kernels::NoiseStream::kServerCodes};
    const auto sum = codec.NewAccumulator(segment, kWorkers, {noise, nullptr});
    noise.stream = kernels::NoiseStream::kCodes;
    std::vector<codec::EncodeParams> params;
    float scaler = 0;
    for (const auto& g : gradients) {
      const std::span values(g.data() + begin, segment.count);
      params.push_back(
          codec.Prepare(kernels::ComputeStats(values.data(), values.size()), values, noise));
      scaler = std::max(scaler, params.back().scaler);
    }
    for (int rank = 0; rank < kWorkers; ++rank) {
      if (codec.shares_scaler()) params[rank].scaler = scaler;
      noise.rank = static_cast<uint16_t>(rank);
      std::vector<uint8_t> code;
      codec.Encode(gradients[rank].data() + begin, segment, params[rank], noise, &code);
      up += code.size();
      if (!sum->Add(rank, code).ok()) std::exit(1);
    }
    std::vector<uint8_t> bytes;
    sum->EncodeSum(&bytes);
    down += bytes.size();
    if (codec.shares_scaler()) up += kWorkers * sizeof(float), down += sizeof(float);
    if (!codec.Decode(bytes, segment, kWorkers, scaler, 0, segment.count, mean.data() + begin).ok())
      std::exit(1);
  }
  double squared_error = 0, squared_norm = 0;
  for (size_t i = 0; i < n; ++i) {
    double exact = 0;
    for (const auto& g : gradients) exact += double{g[i]} / kWorkers;
    squared_error += (mean[i] - exact) * (mean[i] - exact);
    squared_norm += exact * exact;
  }
  const auto elements = static_cast<double>(n);
  return {std::sqrt(squared_error / squared_norm), static_cast<double>(up) / elements / kWorkers,
          static_cast<double>(down) / elements};
}

std::unique_ptr<codec::Codec> MakeCodecOrExit(const std::string& name,
                                              const codec::Options& options) {
  auto codec = codec::MakeCodec(name, options);
  if (!codec.ok()) std::exit(1);
  return std::move(*codec);
}

void PrintRows(const std::string& name, const Gradients& gradients, const char** separator) {
  for (int bits = 2; bits <= 8; ++bits) {
    codec::Options options;
    options.clip = codec::Clip::kNone;
    options.qsgd.bits = bits;
    options.qsgd.bucket = kGroup;
    options.keys.mutable_qsgd_shared()->set_bits(static_cast<uint32_t>(bits));
    const auto print = [&](const std::string& codec_name) {
      const auto codec = MakeCodecOrExit(codec_name, options);
      const Figures figures = Exchange(*codec, gradients);
      std::printf(
          "%s{\"codec\": \"%s\", \"bits\": %d, \"gradients\": \"%s\", \"error\": %.5g, "
          "\"up\": %.5g, \"down\": %.5g}",
          *separator, std::string(codec->name()).c_str(), bits, name.c_str(), figures.error,
          figures.up, figures.down);
      *separator = ",\n ";
    };
    print("qsgd");
    options.qsgd.exact_sums = true;
    print("qsgd");
    print("qsgd_shared");
    print("qsgd_shared_ans");
  }
}

int Main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "sum_errors [FILE]\n");
    return 64;
  }
  const char* separator = "[";
  for (const char* correlation : {"0.0", "0.5", "0.9"})
    PrintRows(correlation, CorrelatedGradients(kElements, std::atof(correlation)), &separator);
  if (argc == 2) PrintRows("real", ReadGradientsOrExit(argv[1], kWorkers), &separator);
  std::printf("]\n");
  return 0;
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) { return tern::bench::Main(argc, argv); }
