// Measures the speed of the byte formats of integer codes on one core, in elements per second, and
// their sizes. Each of N workers encodes one segment of 10^6 independent Gaussian values, clipped
// at 2.5 sigma. The counter bytes_an_element includes the codec's headers; fp32_ratio is how many
// times smaller the codes are than fp32.
//   wires_bench --benchmark_filter='ternary_ans'
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "kernels/codes/stats.h"

namespace tern::codec {
namespace {

constexpr size_t kNumElements = 1000000;
constexpr Segment kSegment{0, 0, kNumElements};

using Bytes = std::vector<uint8_t>;

std::vector<float> RandomGradient(int rank) {
  std::mt19937_64 random(static_cast<uint64_t>(rank) + 1);
  std::normal_distribution<float> gaussian;
  std::vector<float> g(kNumElements);
  for (float& value : g) value = gaussian(random);
  return g;
}

void AbortOnError(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::abort();
}

// A round with one wire format: the codes of N workers with one shared scaler (scale factor).
struct Round {
  Round(const std::string& wire, int workers) : codec(std::move(*MakeCodec(wire, Options()))) {
    for (int rank = 0; rank < workers; ++rank) {
      gradients.push_back(RandomGradient(rank));
      noise.rank = static_cast<uint16_t>(rank);
      const std::vector<float>& g = gradients.back();
      params.push_back(codec->Prepare(kernels::ComputeStats(g.data(), g.size()), g, noise));
      scaler = std::max(scaler, params.back().scaler);
    }
    for (int rank = 0; rank < workers; ++rank) {
      params[rank].scaler = scaler;
      noise.rank = static_cast<uint16_t>(rank);
      codes.emplace_back();
      codec->Encode(gradients[rank].data(), kSegment, params[rank], noise, &codes.back());
    }
  }

  // Adds the codes of all workers.
  std::unique_ptr<Accumulator> AddAllCodes() const {
    auto accumulator = codec->NewAccumulator(kSegment, static_cast<int>(codes.size()));
    for (size_t rank = 0; rank < codes.size(); ++rank) {
      AbortOnError(accumulator->Add(static_cast<int>(rank), codes[rank]).status());
    }
    return accumulator;
  }

  std::unique_ptr<Codec> codec;
  kernels::NoiseKey noise;
  std::vector<std::vector<float>> gradients;
  std::vector<EncodeParams> params;
  float scaler = 0;
  std::vector<Bytes> codes;
};

void SetCounters(benchmark::State& state, size_t elements, size_t bytes) {
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(elements));
  const double bytes_per_element = static_cast<double>(bytes) / kNumElements;
  state.counters["bytes_an_element"] = bytes_per_element;
  state.counters["fp32_ratio"] = sizeof(float) / bytes_per_element;
}

// Encodes the gradient of one worker.
void BenchEncode(benchmark::State& state, const std::string& wire) {
  Round round(wire, 1);
  Bytes code;
  for (auto _ : state) {
    ++round.noise.round;
    code.clear();
    round.codec->Encode(round.gradients[0].data(), kSegment, round.params[0], round.noise, &code);
    benchmark::DoNotOptimize(code.data());
  }
  SetCounters(state, kNumElements, code.size());
}

// Adds the codes of all workers. The rate counts the elements of all workers.
void BenchAdd(benchmark::State& state, const std::string& wire) {
  const Round round(wire, static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const auto sum = round.AddAllCodes();
    benchmark::DoNotOptimize(sum.get());
  }
  SetCounters(state, kNumElements * round.codes.size(), round.codes[0].size());
}

// Encodes the sum of all workers' codes.
void BenchEncodeSum(benchmark::State& state, const std::string& wire) {
  const Round round(wire, static_cast<int>(state.range(0)));
  const auto sum = round.AddAllCodes();
  Bytes encoded_sum;
  for (auto _ : state) {
    encoded_sum.clear();
    sum->EncodeSum(&encoded_sum);
    benchmark::DoNotOptimize(encoded_sum.data());
  }
  SetCounters(state, kNumElements, encoded_sum.size());
}

// Decodes a sum as a worker does: state.range(1) elements at a time, into an array that stays in
// the caches.
void BenchDecodeSum(benchmark::State& state, const std::string& wire) {
  const int workers = static_cast<int>(state.range(0));
  const size_t block_size = static_cast<size_t>(state.range(1));
  const Round round(wire, workers);
  Bytes encoded_sum;
  round.AddAllCodes()->EncodeSum(&encoded_sum);
  std::vector<float> mean(block_size);
  for (auto _ : state) {
    for (size_t first = 0; first < kNumElements; first += block_size) {
      const size_t n = std::min(block_size, kNumElements - first);
      AbortOnError(
          round.codec->Decode(encoded_sum, kSegment, workers, round.scaler, first, n, mean.data()));
      benchmark::ClobberMemory();
    }
  }
  SetCounters(state, kNumElements, encoded_sum.size());
}

void RegisterAll() {
  for (const std::string wire : {"ternary", "ternary_2bit", "ternary_trit5", "ternary_ans",
                                 "qsgd_shared", "qsgd_shared_ans"}) {
    const auto register_benchmark = [&](const char* operation, auto* function) {
      const std::string full_name = wire + "/" + operation;
      return benchmark::RegisterBenchmark(full_name.c_str(), function, wire);
    };
    register_benchmark("encode", BenchEncode);
    register_benchmark("add", BenchAdd)->Arg(2)->Arg(4)->Arg(8);
    register_benchmark("sum_encode", BenchEncodeSum)->Arg(2)->Arg(4)->Arg(8)->Arg(32);
    register_benchmark("sum_decode", BenchDecodeSum)->ArgsProduct({{2, 4, 8, 32}, {4096, 16384}});
  }
}

}  // namespace
}  // namespace tern::codec

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  tern::codec::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
