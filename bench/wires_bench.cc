// Speed of the ternary wire formats on one core, in elements per second, and their sizes. Each of N
// workers has one segment of 10^6 independent Gaussian values, clipped at 2.5 sigma. The counters
// are the bytes per element, including the codec's headers, and how many times smaller they are
// than fp32's.
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

constexpr size_t kElements = 1000000;
constexpr Segment kSegment{0, 0, kElements};

using Bytes = std::vector<uint8_t>;

std::vector<float> Gradient(int rank) {
  std::mt19937_64 bits(static_cast<uint64_t>(rank) + 1);
  std::normal_distribution<float> gaussian;
  std::vector<float> g(kElements);
  for (float& value : g) value = gaussian(bits);
  return g;
}

void Require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::abort();
}

// A round with one wire format: the codes of N workers with one shared scaler.
struct Round {
  Round(const std::string& wire, int workers) : codec(std::move(*MakeCodec(wire, Options()))) {
    for (int rank = 0; rank < workers; ++rank) {
      gradients.push_back(Gradient(rank));
      noise.rank = static_cast<uint16_t>(rank);
      const std::vector<float>& g = gradients.back();
      prepared.push_back(codec->Prepare(kernels::ComputeStats(g.data(), g.size()), g, noise));
      scaler = std::max(scaler, prepared.back().scaler);
    }
    for (int rank = 0; rank < workers; ++rank) {
      prepared[rank].scaler = scaler;
      noise.rank = static_cast<uint16_t>(rank);
      codes.emplace_back();
      codec->Encode(gradients[rank].data(), kSegment, prepared[rank], noise, &codes.back());
    }
  }

  std::unique_ptr<Accumulator> Sum() const {
    auto sum = codec->NewAccumulator(kSegment, static_cast<int>(codes.size()));
    for (size_t rank = 0; rank < codes.size(); ++rank) {
      Require(sum->Add(static_cast<int>(rank), codes[rank]).status());
    }
    return sum;
  }

  std::unique_ptr<Codec> codec;
  kernels::NoiseKey noise;
  std::vector<std::vector<float>> gradients;
  std::vector<Prepared> prepared;
  float scaler = 0;
  std::vector<Bytes> codes;
};

void Report(benchmark::State& state, size_t elements, size_t bytes) {
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(elements));
  const double an_element = static_cast<double>(bytes) / kElements;
  state.counters["bytes_an_element"] = an_element;
  state.counters["fp32_ratio"] = sizeof(float) / an_element;
}

void Encode(benchmark::State& state, const std::string& wire) {
  Round round(wire, 1);
  Bytes code;
  for (auto _ : state) {
    ++round.noise.round;
    code.clear();
    round.codec->Encode(round.gradients[0].data(), kSegment, round.prepared[0], round.noise, &code);
    benchmark::DoNotOptimize(code.data());
  }
  Report(state, kElements, code.size());
}

// Adds the codes of all workers; counts the elements of all workers.
void Add(benchmark::State& state, const std::string& wire) {
  const Round round(wire, static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const auto sum = round.Sum();
    benchmark::DoNotOptimize(sum.get());
  }
  Report(state, kElements * round.codes.size(), round.codes[0].size());
}

void SumEncode(benchmark::State& state, const std::string& wire) {
  const Round round(wire, static_cast<int>(state.range(0)));
  const auto sum = round.Sum();
  Bytes bytes;
  for (auto _ : state) {
    bytes.clear();
    sum->EncodeSum(&bytes);
    benchmark::DoNotOptimize(bytes.data());
  }
  Report(state, kElements, bytes.size());
}

// Decodes a sum as a worker does: range(1) elements at a time, into values that stay in the caches.
void SumDecode(benchmark::State& state, const std::string& wire) {
  const int workers = static_cast<int>(state.range(0));
  const size_t step = static_cast<size_t>(state.range(1));
  const Round round(wire, workers);
  Bytes bytes;
  round.Sum()->EncodeSum(&bytes);
  std::vector<float> mean(step);
  for (auto _ : state) {
    for (size_t at = 0; at < kElements; at += step) {
      const size_t n = std::min(step, kElements - at);
      Require(round.codec->Decode(bytes, kSegment, workers, round.scaler, at, n, mean.data()));
      benchmark::ClobberMemory();
    }
  }
  Report(state, kElements, bytes.size());
}

void RegisterAll() {
  for (const std::string wire : {"ternary", "ternary_2bit", "ternary_trit5", "ternary_ans"}) {
    const auto named = [&](const char* what) { return wire + "/" + what; };
    const auto add = [&](const char* what, auto* function) {
      return benchmark::RegisterBenchmark(named(what).c_str(), function, wire);
    };
    add("encode", Encode);
    add("add", Add)->Arg(2)->Arg(4)->Arg(8);
    add("sum_encode", SumEncode)->Arg(2)->Arg(4)->Arg(8);
    add("sum_decode", SumDecode)->ArgsProduct({{2, 4, 8}, {4096, 16384}});
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
