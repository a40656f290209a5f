// Measures the speed targets of the kernels on one core, with data larger than the caches. Each
// kernel and its lower bound or peer are timed alternately in one run. Prints a JSON list of
//   {"target", "value": the median, "samples": [..], "unit", "note", "seconds": {who: [..]}}
//   speed_targets [--elements 134217728] [--repetitions 5]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

constexpr uint64_t kChunk = uint64_t{4096} * 1024 / sizeof(float);  // exchange.chunk_kib's default
constexpr double kClipSigma = 2.5;

volatile uint64_t used;  // results of passes, so that the compiler keeps the passes

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string List(const std::vector<double>& values) {
  std::string list;
  for (const double value : values) {
    char text[32];
    std::snprintf(text, sizeof(text), "%s%.5g", list.empty() ? "" : ", ", value);
    list += text;
  }
  return "[" + list + "]";
}

// Times named functions in turn: A B C A B C. The first round only warms up.
class Rounds {
 public:
  void Add(const std::string& name, std::function<void()> work) {
    work_.emplace_back(name, std::move(work));
  }
  void Run(int repetitions) {
    for (int r = -1; r < repetitions; ++r) {
      for (const auto& [name, work] : work_) {
        const double seconds = Seconds(work);
        if (r >= 0) seconds_[name].push_back(seconds);
      }
    }
  }
  // Prints, for each round, the ratio of the times of `other` and `tern`, multiplied by `scale`.
  void Print(const std::string& target, const std::string& other, const std::string& tern,
             double scale, const std::string& note) const {
    std::vector<double> ratios;
    const std::vector<double>& a = seconds_.at(other);
    const std::vector<double>& b = seconds_.at(tern);
    for (size_t i = 0; i < a.size(); ++i) ratios.push_back(scale * a[i] / b[i]);
    const std::string raw =
        "{\"" + other + "\": " + List(a) + ", \"" + tern + "\": " + List(b) + "}";
    PrintTarget(target, ratios, "ratio", note, raw);
  }
  void PrintSeconds(const std::string& target, const std::string& name,
                    const std::string& note) const {
    const std::vector<double>& all = seconds_.at(name);
    PrintTarget(target, all, "s", note, "{\"" + name + "\": " + List(all) + "}");
  }

 private:
  static void PrintTarget(const std::string& target, const std::vector<double>& samples,
                          const std::string& unit, const std::string& note,
                          const std::string& raw) {
    static bool first = true;
    std::printf(
        "%s\n {\"target\": \"%s\", \"value\": %.5g, \"unit\": \"%s\", \"samples\": %s,\n"
        "  \"note\": \"%s\",\n  \"seconds\": %s}",
        first ? "[" : ",", target.c_str(), Median(samples), unit.c_str(), List(samples).c_str(),
        note.c_str(), raw.c_str());
    std::fflush(stdout);
    first = false;
  }

  std::vector<std::pair<std::string, std::function<void()>>> work_;
  std::map<std::string, std::vector<double>> seconds_;
};

// Gaussian values: 2^20 independent ones, then copies of random ranges of them.
Floats Gradient(size_t n) {
  std::mt19937 bits(1);
  std::normal_distribution<float> gaussian;
  std::vector<float> some(std::min<size_t>(n, kChunk));
  for (float& value : some) value = gaussian(bits);
  Floats g(n);
  for (size_t i = 0; i < n; i += some.size()) {
    const size_t count = std::min(some.size(), n - i);
    const size_t turn = bits() % (some.size() - count + 1);
    std::copy_n(some.begin() + static_cast<ptrdiff_t>(turn), count,
                g.begin() + static_cast<ptrdiff_t>(i));
  }
  return g;
}

struct Setting {
  size_t n;
  int repetitions;
};

// Target a: TernGrad's two passes, statistics and codes.
void MeasureTernarizing(const Setting& setting, const Floats& g) {
  const size_t n = setting.n;
  std::vector<uint8_t> mask(kernels::PlaneBytes(n), 1), signs(kernels::PlaneBytes(n), 1);
  kernels::NoiseKey key;
  Rounds rounds;
  rounds.Add("tern", [&] {
    const kernels::Stats stats = kernels::ComputeStats(g.data(), n);
    const auto s = static_cast<float>(kClipSigma * kernels::Sigma(stats, n));
    ++key.round;
    used = kernels::Ternarize(g.data(), n, s, s, key, 0, mask.data(), signs.data());
  });
  rounds.Add("passes", [&] {
    used = ReadPass(g.data(), n);
    used = ReadAndCodePass(g.data(), n, mask.data(), signs.data());
  });
  rounds.Run(setting.repetitions);
  rounds.Print("ternarize_vs_floor", "passes", "tern", 1,
               "statistics, then clip, noise, code, pack; floor: a pass that reads, and one that "
               "reads and writes as much");
  rounds.PrintSeconds("ternarize_seconds", "tern", std::to_string(n) + " elements");
}

std::unique_ptr<codec::Codec> Make(const std::string& name) {
  Result<std::unique_ptr<codec::Codec>> made = codec::MakeCodec(name, codec::Options());
  if (!made.ok()) std::exit(1);
  return std::move(*made);
}

class Server {
 public:
  static constexpr int kWorkers = 8;
  Server(const std::string& name, const Floats& g) : codec_(Make(name)) {
    const auto s = static_cast<float>(kClipSigma);
    for (uint64_t at = 0; at < g.size(); at += kChunk) {
      segments_.push_back({0, at, std::min<uint64_t>(kChunk, g.size() - at)});
    }
    pushes_.resize(kWorkers);
    kernels::NoiseKey key;
    for (; key.rank < kWorkers; ++key.rank) {
      for (const codec::Segment& segment : segments_) {
        std::vector<uint8_t> code;
        codec_->Encode(g.data() + segment.begin, segment, {.scaler = s, .clip = s}, key, &code);
        pushes_[key.rank].push_back(Bytes::Own(std::move(code)));
      }
    }
  }
  // Sums the pushes of a round chunk by chunk, as a server does (common/protocol/rounds/cells.cc).
  void Sum() const {
    for (size_t c = 0; c < segments_.size(); ++c) {
      const auto sum = codec_->NewAccumulator(segments_[c], kWorkers);
      for (int rank = 0; rank < kWorkers; ++rank) {
        if (!sum->AddRetained(rank, pushes_[rank][c]).ok()) std::exit(1);
      }
      std::vector<uint8_t> out;
      out.reserve(codec_->MaxSumSize(segments_[c], kWorkers));
      sum->EncodeSum(&out);
      used = out.back();
    }
  }
  // Sums the pushes as a server would that cannot add codes: for each worker one pass that decodes
  // to floats and one that adds them, then two passes that encode the sum. Does so for `together`
  // chunks at a time. REQUIRES ternary_2bit, where the code of one worker equals its sum in two
  // planes.
  void DecodeAddEncode(size_t together, Floats* one, Floats* sum, std::vector<uint8_t>* out) const {
    const kernels::NoiseKey key{.stream = kernels::NoiseStream::kServerCodes};
    for (size_t c = 0; c < segments_.size(); c += together) {
      const size_t end = std::min(c + together, segments_.size());
      const uint64_t begin = segments_[c].begin;
      const size_t n = segments_[end - 1].begin + segments_[end - 1].count - begin;
      std::fill_n(sum->data(), n, 0.f);
      for (int rank = 0; rank < kWorkers; ++rank) {
        for (size_t i = c; i < end; ++i) {
          const codec::Segment& segment = segments_[i];
          kernels::DecodeMean(Push(rank, i).data(), segment.count, 1, 2.5f, 0, segment.count,
                              one->data() + (segment.begin - begin));
        }
        AddTo(one->data(), n, sum->data());
      }
      const float s = kernels::ComputeStats(sum->data(), n).max_abs;
      used = kernels::Ternarize(sum->data(), n, s, s, key, begin, out->data(),
                                out->data() + kernels::PlaneBytes(n));
    }
  }

 private:
  const Bytes& Push(int rank, size_t c) const { return pushes_[static_cast<size_t>(rank)][c]; }

  std::unique_ptr<codec::Codec> codec_;
  std::vector<codec::Segment> segments_;
  std::vector<std::vector<Bytes>> pushes_;  // by rank and chunk
};

// Target b: the server's sum of eight workers.
void MeasureSumming(const Setting& setting, const Floats& g) {
  const size_t part = setting.n / Server::kWorkers;
  Floats sums(setting.n, 1.f), one(setting.n, 1.f);
  std::vector<uint8_t> out(2 * kernels::PlaneBytes(setting.n), 1);
  const float* eight[Server::kWorkers];
  for (size_t k = 0; k < Server::kWorkers; ++k) eight[k] = g.data() + k * part;
  const Server two_bit("ternary_2bit", g), ternary("ternary", g);
  Rounds rounds;
  rounds.Add("ternary_2bit", [&] { two_bit.Sum(); });
  rounds.Add("fp32_eighth", [&] { SumOfEight(eight, part, sums.data()); });
  rounds.Add("ternary", [&] { ternary.Sum(); });
  const size_t all = setting.n / kChunk + 1;
  rounds.Add("decode_add_encode", [&] { two_bit.DecodeAddEncode(all, &one, &sums, &out); });
  rounds.Add("by_chunk", [&] { two_bit.DecodeAddEncode(1, &one, &sums, &out); });
  rounds.Run(setting.repetitions);
  for (const std::string name : {"ternary_2bit", "ternary"}) {
    rounds.Print(
        "sum_" + name + "_vs_fp32", "fp32_eighth", name, Server::kWorkers,
        "N = 8: accumulators over chunks of 4 MiB of fp32; peer: one pass over eight float "
        "arrays, of an eighth of the elements");
    rounds.Print("sum_" + name + "_vs_decode_add_encode", "decode_add_encode", name, 1,
                 "N = 8; peer: decode each worker's codes, dst += src, code the sum again, each a "
                 "pass over the model");
    rounds.Print("sum_" + name + "_vs_recode_in_cache", "by_chunk", name, 1,
                 "the same peer chunk by chunk, its floats in a cache");
  }
}

// Target c: from the sum's planes to the next weights.
void MeasureApplying(const Setting& setting, Floats* weights) {
  constexpr int kWorkers = 4;
  const size_t n = setting.n;
  const auto codec = Make("ternary");
  const codec::Segment segment{0, 0, n};
  const size_t plane = kernels::PlaneBytes(n);
  const int bits = kernels::SumBits(kWorkers);
  std::vector<uint8_t> planes(static_cast<size_t>(bits) * plane);
  std::vector<uint8_t> mask(plane), signs(plane);
  kernels::NoiseKey key;
  for (; key.rank < kWorkers; ++key.rank) {
    kernels::Ternarize(weights->data(), n, 2.5f, 2.5f, key, 0, mask.data(), signs.data());
    const kernels::WorkerCodes one{mask.data(), signs.data()};  // arbitrary valid codes
    kernels::AddCodes({&one, 1}, n, plane, bits, bits, planes.data());
  }
  pb::Optimizer def;
  def.set_name("momentum");
  const auto optimizer = update::MakeOptimizer(def, n);
  if (!optimizer.ok()) std::exit(1);
  float* const w = weights->data();
  float* const v = (*optimizer)->StateArrays().front().values.data();
  update::Step step{.learning_rate = 1e-6};
  Rounds rounds;
  const codec::Codec::BlockVisitor update = [&](uint64_t at, std::span<const float> g) {
    (*optimizer)->Update(w + at, g.data(), at, g.size(), step, 0);
  };
  rounds.Add("tern", [&] {  // as client/train/apply.cc does, in blocks that stay in the cache
    if (!codec->DecodeTo(planes, segment, kWorkers, 2.5f, update).ok()) std::exit(1);
    ++step.number;
  });
  rounds.Add("pass", [&] { used = UpdatePass(planes.data(), n, bits, w, v); });
  Floats all(n, 1.f);
  rounds.Add("decode", [&] {
    if (!codec->Decode(planes, segment, kWorkers, 2.5f, 0, n, all.data()).ok()) std::exit(1);
  });
  rounds.Run(setting.repetitions);
  rounds.Print("decode_momentum_vs_floor", "pass", "tern", 1,
               "N = 4, 4 planes: decode and momentum SGD; floor: a pass that reads the planes and "
               "reads and writes weights and velocities");
  rounds.PrintSeconds("decode_momentum_seconds", "tern", std::to_string(n) + " elements");
  rounds.PrintSeconds("decode_seconds", "decode", std::to_string(n) + " elements, to memory");
}

int Main(int argc, char** argv) {
  Setting setting{size_t{1} << 27, 5};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto value = static_cast<size_t>(std::atoll(argv[i + 1]));
    if (std::strcmp(argv[i], "--elements") == 0) setting.n = value;
    if (std::strcmp(argv[i], "--repetitions") == 0) setting.repetitions = static_cast<int>(value);
  }
  if (argc % 2 == 0 || setting.n < 4096 || setting.repetitions < 1) {
    std::fprintf(stderr, "speed_targets [--elements N >= 4096] [--repetitions R >= 1]\n");
    return 64;
  }
  Floats g = Gradient(setting.n);
  MeasureTernarizing(setting, g);
  MeasureSumming(setting, g);
  MeasureApplying(setting, &g);
  std::printf("\n]\n");
  return 0;
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) { return tern::bench::Main(argc, argv); }
