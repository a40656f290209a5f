// Measures the kernels for which the project has speed targets, on one core, by default with data
// larger than the caches. Each kernel is timed in turn with a lower bound of its time (floor) or
// with other code that does the same work (peer). Prints a JSON list of
//   {"target", "value": the median, "samples": [..], "unit", "note", "seconds": {function: [..]}}
//   speed_targets [--elements 134217728] [--repetitions 5] [--cpu_time 0]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/floors.h"
#include "common/base/floats.h"
#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "common/update/optimizer.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"

namespace tern::bench {
namespace {

// The elements of a chunk, the unit in which a gradient is encoded and sent: 4096 KiB of floats.
constexpr uint64_t kChunkElements = uint64_t{4096} * 1024 / sizeof(float);
constexpr double kClipSigma = 2.5;

// The results of functions are stored here, so that the compiler does not omit the functions.
volatile uint64_t result_sink;

// The clock that times functions: CLOCK_MONOTONIC, or CLOCK_THREAD_CPUTIME_ID, which leaves out the
// time that other programs take from the core.
clockid_t timing_clock = CLOCK_MONOTONIC;

double SecondsOfClock() {
  timespec time{};
  clock_gettime(timing_clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double TimeWork(const std::function<void()>& work) {
  const double begin_s = SecondsOfClock();
  work();
  return SecondsOfClock() - begin_s;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string JsonList(const std::vector<double>& values) {
  std::string list;
  for (const double value : values) {
    char text[32];
    std::snprintf(text, sizeof(text), "%s%.5g", list.empty() ? "" : ", ", value);
    list += text;
  }
  return "[" + list + "]";
}

// Times named functions in turn: A B C A B C. One pass over all functions is a round. The first
// round only warms up.
class RoundTimer {
 public:
  void AddFunction(const std::string& name, std::function<void()> work) {
    named_functions_.emplace_back(name, std::move(work));
  }
  void RunRounds(int repetitions) {
    for (int r = -1; r < repetitions; ++r) {
      for (const auto& [name, work] : named_functions_) {
        const double seconds = TimeWork(work);
        if (r >= 0) seconds_[name].push_back(seconds);
      }
    }
  }
  // Prints, for each round, `scale` times the time of the function `other_name` divided by the time
  // of the function `tern_name`.
  void PrintRatios(const std::string& target, const std::string& other_name,
                   const std::string& tern_name, double scale, const std::string& note) const {
    std::vector<double> ratios;
    const std::vector<double>& other_seconds = seconds_.at(other_name);
    const std::vector<double>& tern_seconds = seconds_.at(tern_name);
    for (size_t i = 0; i < other_seconds.size(); ++i)
      ratios.push_back(scale * other_seconds[i] / tern_seconds[i]);
    const std::string seconds_json = "{\"" + other_name + "\": " + JsonList(other_seconds) +
                                     ", \"" + tern_name + "\": " + JsonList(tern_seconds) + "}";
    PrintTarget(target, ratios, "ratio", note, seconds_json);
  }
  void PrintSeconds(const std::string& target, const std::string& name,
                    const std::string& note) const {
    const std::vector<double>& samples = seconds_.at(name);
    PrintTarget(target, samples, "s", note, "{\"" + name + "\": " + JsonList(samples) + "}");
  }

 private:
  static void PrintTarget(const std::string& target, const std::vector<double>& samples,
                          const std::string& unit, const std::string& note,
                          const std::string& seconds_json) {
    static bool is_first = true;
    std::printf(
        "%s\n {\"target\": \"%s\", \"value\": %.5g, \"unit\": \"%s\", \"samples\": %s,\n"
        "  \"note\": \"%s\",\n  \"seconds\": %s}",
        is_first ? "[" : ",", target.c_str(), Median(samples), unit.c_str(),
        JsonList(samples).c_str(), note.c_str(), seconds_json.c_str());
    std::fflush(stdout);
    is_first = false;
  }

  std::vector<std::pair<std::string, std::function<void()>>> named_functions_;
  std::map<std::string, std::vector<double>> seconds_;
};

// Returns n Gaussian values, which repeat 2^20 independent values.
Floats RandomGradient(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> gaussian;
  std::vector<float> pattern(std::min<size_t>(n, kChunkElements));
  for (float& value : pattern) value = gaussian(random);
  Floats g(n);
  for (size_t i = 0; i < n; i += pattern.size()) {
    const size_t count = std::min(pattern.size(), n - i);
    const size_t first = random() % (pattern.size() - count + 1);
    std::copy_n(pattern.begin() + static_cast<ptrdiff_t>(first), count,
                g.begin() + static_cast<ptrdiff_t>(i));
  }
  return g;
}

struct Setting {
  size_t elements;
  int repetitions;
};

// Target: the two passes of TernGrad over a gradient, which compute statistics and ternary codes.
void MeasureTernarizing(const Setting& setting, const Floats& g) {
  const size_t n = setting.elements;
  std::vector<uint8_t> mask(kernels::PlaneBytes(n), 1), signs(kernels::PlaneBytes(n), 1);
  kernels::NoiseKey noise_key;
  RoundTimer rounds;
  rounds.AddFunction("tern", [&] {
    const kernels::Stats stats = kernels::ComputeStats(g.data(), n);
    const auto clip = static_cast<float>(kClipSigma * kernels::Sigma(stats));
    ++noise_key.round;
    result_sink =
        kernels::Ternarize(g.data(), n, clip, clip, noise_key, 0, mask.data(), signs.data());
  });
  rounds.AddFunction("passes", [&] {
    result_sink = RunReadPass(g.data(), n);
    result_sink = RunReadAndCodePass(g.data(), n, mask.data(), signs.data());
  });
  rounds.RunRounds(setting.repetitions);
  rounds.PrintRatios(
      "ternarize_vs_floor", "passes", "tern", 1,
      "statistics, then clip, noise, code, pack; floor: a pass that reads, and one that "
      "reads and writes as much");
  rounds.PrintSeconds("ternarize_seconds", "tern", std::to_string(n) + " elements");
}

std::unique_ptr<codec::Codec> MakeCodecOrExit(const std::string& name, uint32_t shared_bits = 4) {
  codec::Options options;
  options.keys.mutable_qsgd_shared()->set_bits(shared_bits);
  Result<std::unique_ptr<codec::Codec>> codec = codec::MakeCodec(name, options);
  if (!codec.ok()) std::exit(1);
  return std::move(*codec);
}

// A server with the pushes of eight workers.
class Server {
 public:
  static constexpr int kWorkers = 8;
  // `shared_bits`: the bits per element of the codec qsgd_shared.
  Server(const std::string& name, const Floats& g, uint32_t shared_bits = 4)
      : codec_(MakeCodecOrExit(name, shared_bits)) {
    const auto clip = static_cast<float>(kClipSigma);
    for (uint64_t begin = 0; begin < g.size(); begin += kChunkElements) {
      segments_.push_back({0, begin, std::min<uint64_t>(kChunkElements, g.size() - begin)});
    }
    pushes_.resize(kWorkers);
    kernels::NoiseKey noise_key;
    for (; noise_key.rank < kWorkers; ++noise_key.rank) {
      for (const codec::Segment& segment : segments_) {
        std::vector<uint8_t> code;
        codec_->Encode(g.data() + segment.begin, segment, {.scaler = clip, .clip = clip}, noise_key,
                       &code);
        pushes_[noise_key.rank].push_back(Bytes::Own(std::move(code)));
      }
    }
  }
  // Sums the pushes of a round chunk by chunk, with the same calls as a real server.
  void SumPushes() const {
    for (size_t c = 0; c < segments_.size(); ++c) {
      const auto sum = codec_->NewAccumulator(segments_[c], kWorkers);
      for (int rank = 0; rank < kWorkers; ++rank) {
        if (!sum->AddRetained(rank, pushes_[rank][c]).ok()) std::exit(1);
      }
      std::vector<uint8_t> out;
      out.reserve(codec_->MaxSumSize(segments_[c], kWorkers));
      sum->EncodeSum(&out);
      result_sink = out.back();
    }
  }
  // Sums the pushes like a server that cannot add codes. For each worker one pass decodes to floats
  // and one adds the floats; then two passes encode the sum. Every pass is over `chunks_per_pass`
  // chunks. REQUIRES the codec ternary_2bit, whose code of one worker is also a valid sum of two
  // planes (a plane holds one bit of each element). `decoded`, `sum` and `out` are buffers.
  void DecodeAddEncode(size_t chunks_per_pass, Floats* decoded, Floats* sum,
                       std::vector<uint8_t>* out) const {
    const kernels::NoiseKey noise_key{.stream = kernels::NoiseStream::kServerCodes};
    for (size_t first_chunk = 0; first_chunk < segments_.size(); first_chunk += chunks_per_pass) {
      const size_t end_chunk = std::min(first_chunk + chunks_per_pass, segments_.size());
      const uint64_t begin = segments_[first_chunk].begin;
      const size_t n = segments_[end_chunk - 1].begin + segments_[end_chunk - 1].count - begin;
      std::fill_n(sum->data(), n, 0.f);
      for (int rank = 0; rank < kWorkers; ++rank) {
        for (size_t i = first_chunk; i < end_chunk; ++i) {
          const codec::Segment& segment = segments_[i];
          kernels::DecodeMean(PushOf(rank, i).data(), segment.count, 1, 2.5f, 0, segment.count,
                              decoded->data() + (segment.begin - begin));
        }
        AddTo(decoded->data(), n, sum->data());
      }
      const float clip = kernels::ComputeStats(sum->data(), n).max_abs;
      result_sink = kernels::Ternarize(sum->data(), n, clip, clip, noise_key, begin, out->data(),
                                       out->data() + kernels::PlaneBytes(n));
    }
  }

 private:
  const Bytes& PushOf(int rank, size_t c) const { return pushes_[static_cast<size_t>(rank)][c]; }

  std::unique_ptr<codec::Codec> codec_;
  std::vector<codec::Segment> segments_;
  std::vector<std::vector<Bytes>> pushes_;  // pushes_[rank][chunk]
};

// Target: a server's sum of the pushes of eight workers.
void MeasureSumming(const Setting& setting, const Floats& g) {
  const size_t eighth_elements = setting.elements / Server::kWorkers;
  Floats sums(setting.elements, 1.f), decoded(setting.elements, 1.f);
  std::vector<uint8_t> out(2 * kernels::PlaneBytes(setting.elements), 1);
  const float* arrays[Server::kWorkers];
  for (size_t k = 0; k < Server::kWorkers; ++k) arrays[k] = g.data() + k * eighth_elements;
  const Server two_bit_server("ternary_2bit", g), ternary_server("ternary", g);
  RoundTimer rounds;
  rounds.AddFunction("ternary_2bit", [&] { two_bit_server.SumPushes(); });
  rounds.AddFunction("fp32_eighth", [&] { AddEightArrays(arrays, eighth_elements, sums.data()); });
  rounds.AddFunction("ternary", [&] { ternary_server.SumPushes(); });
  const size_t num_chunks = setting.elements / kChunkElements + 1;
  rounds.AddFunction("decode_add_encode",
                     [&] { two_bit_server.DecodeAddEncode(num_chunks, &decoded, &sums, &out); });
  rounds.AddFunction("by_chunk", [&] { two_bit_server.DecodeAddEncode(1, &decoded, &sums, &out); });
  rounds.RunRounds(setting.repetitions);
  for (const std::string name : {"ternary_2bit", "ternary"}) {
    rounds.PrintRatios(
        "sum_" + name + "_vs_fp32", "fp32_eighth", name, Server::kWorkers,
        "N = 8: accumulators over chunks of 4 MiB of fp32; peer: one pass over eight float "
        "arrays, of an eighth of the elements");
    rounds.PrintRatios(
        "sum_" + name + "_vs_decode_add_encode", "decode_add_encode", name, 1,
        "N = 8; peer: decode each worker's codes, dst += src, code the sum again, each a "
        "pass over the model");
    rounds.PrintRatios("sum_" + name + "_vs_recode_in_cache", "by_chunk", name, 1,
                       "the same peer chunk by chunk, its floats in a cache");
  }
}

// Target: a server's sum of the pushes of eight workers with codes of several bits.
void MeasureSummingLevels(const Setting& setting, const Floats& g) {
  const size_t eighth_elements = setting.elements / Server::kWorkers;
  Floats sums(eighth_elements, 1.f);
  const float* arrays[Server::kWorkers];
  for (size_t k = 0; k < Server::kWorkers; ++k) arrays[k] = g.data() + k * eighth_elements;
  for (const uint32_t bits : {2u, 4u, 8u}) {
    const Server server("qsgd_shared", g, bits);
    const std::string name = "qsgd_shared_" + std::to_string(bits);
    RoundTimer rounds;
    rounds.AddFunction(name, [&] { server.SumPushes(); });
    rounds.AddFunction("fp32_eighth",
                       [&] { AddEightArrays(arrays, eighth_elements, sums.data()); });
    rounds.RunRounds(setting.repetitions);
    rounds.PrintRatios("sum_" + name + "_vs_fp32", "fp32_eighth", name, Server::kWorkers,
                       "N = 8: accumulators over chunks of 4 MiB of fp32; peer: one pass over "
                       "eight float arrays, of an eighth of the elements");
  }
}

// Target: decoding the sum of the gradients and updating the weights with it.
void MeasureApplying(const Setting& setting, Floats* weights) {
  constexpr int kWorkers = 4;
  const size_t n = setting.elements;
  const auto codec = MakeCodecOrExit("ternary");
  const codec::Segment segment{0, 0, n};
  const size_t plane_bytes = kernels::PlaneBytes(n);
  const int num_planes = kernels::SumBits(kWorkers);
  std::vector<uint8_t> planes(static_cast<size_t>(num_planes) * plane_bytes);
  std::vector<uint8_t> mask(plane_bytes), signs(plane_bytes);
  kernels::NoiseKey noise_key;
  for (; noise_key.rank < kWorkers; ++noise_key.rank) {
    kernels::Ternarize(weights->data(), n, 2.5f, 2.5f, noise_key, 0, mask.data(), signs.data());
    const kernels::WorkerCodes worker_codes{mask.data(), signs.data()};
    kernels::AddCodes({&worker_codes, 1}, 2, n, plane_bytes, num_planes, num_planes, planes.data());
  }
  pb::Optimizer optimizer_def;
  optimizer_def.set_name("momentum");
  const auto optimizer = update::MakeOptimizer(optimizer_def, n);
  if (!optimizer.ok()) std::exit(1);
  float* const w = weights->data();
  float* const v = (*optimizer)->StateArrays().front().values.data();
  update::Step step{.learning_rate = 1e-6};
  RoundTimer rounds;
  const codec::Codec::BlockVisitor update_block = [&](uint64_t first, std::span<const float> g) {
    (*optimizer)->Update(w + first, g.data(), first, g.size(), step, {});
  };
  rounds.AddFunction("tern", [&] {  // A worker does the same, in blocks that stay in the cache.
    if (!codec->DecodeInBlocks(planes, segment, kWorkers, 2.5f, update_block).ok()) std::exit(1);
    ++step.number;
  });
  rounds.AddFunction("pass",
                     [&] { result_sink = RunUpdatePass(planes.data(), n, num_planes, w, v); });
  Floats decoded(n, 1.f);
  rounds.AddFunction("decode", [&] {
    if (!codec->Decode(planes, segment, kWorkers, 2.5f, 0, n, decoded.data()).ok()) std::exit(1);
  });
  rounds.RunRounds(setting.repetitions);
  rounds.PrintRatios(
      "decode_momentum_vs_floor", "pass", "tern", 1,
      "N = 4, 4 planes: decode and momentum SGD; floor: a pass that reads the planes and "
      "reads and writes weights and velocities");
  rounds.PrintSeconds("decode_momentum_seconds", "tern", std::to_string(n) + " elements");
  rounds.PrintSeconds("decode_seconds", "decode", std::to_string(n) + " elements, to memory");
}

int Main(int argc, char** argv) {
  Setting setting{size_t{1} << 27, 5};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto value = static_cast<size_t>(std::atoll(argv[i + 1]));
    if (std::strcmp(argv[i], "--elements") == 0) setting.elements = value;
    if (std::strcmp(argv[i], "--repetitions") == 0) setting.repetitions = static_cast<int>(value);
    if (std::strcmp(argv[i], "--cpu_time") == 0 && value != 0)
      timing_clock = CLOCK_THREAD_CPUTIME_ID;
  }
  if (argc % 2 == 0 || setting.elements < 4096 || setting.repetitions < 1) {
    std::fprintf(
        stderr,
        "speed_targets [--elements N >= 4096] [--repetitions R >= 1] [--cpu_time 0 or 1]\n");
    return 64;
  }
  Floats g = RandomGradient(setting.elements);
  MeasureTernarizing(setting, g);
  MeasureSumming(setting, g);
  MeasureSummingLevels(setting, g);
  MeasureApplying(setting, &g);
  std::printf("\n]\n");
  return 0;
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) { return tern::bench::Main(argc, argv); }
