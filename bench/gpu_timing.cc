#include "bench/gpu_timing.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tern::bench {
namespace {

constexpr uint64_t kMaxCalls = uint64_t{1} << 24;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Measures regions with `run_region(calls)`, which calls the measured function `calls` times and
// returns the total seconds. Returns the seconds per call of each region.
std::vector<double> MeasureRegions(const RegionOptions& regions,
                                   const std::function<double(uint64_t)>& run_region) {
  run_region(1);
  uint64_t calls = 1;
  double region_s = run_region(calls);
  while (region_s < regions.min_seconds && calls < kMaxCalls) {
    calls *= 2;
    region_s = run_region(calls);
  }
  std::vector<double> seconds;
  for (int i = 0; i < regions.count; ++i)
    seconds.push_back(run_region(calls) / static_cast<double>(calls));
  return seconds;
}

// A pair of CUDA events. End returns the seconds since Begin on the device.
class EventTimer {
 public:
  EventTimer() {
    ExitOnError(cudaEventCreate(&begin_), "cudaEventCreate");
    ExitOnError(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~EventTimer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  void Begin() { ExitOnError(cudaEventRecord(begin_, nullptr), "cudaEventRecord"); }
  double End() {
    ExitOnError(cudaEventRecord(end_, nullptr), "cudaEventRecord");
    ExitOnError(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    ExitOnError(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds / 1e3;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

void ExitOnError(int error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "gpu_bench: %s: %s\n", call,
               cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(static_cast<int>(Code::kPeerLost));
}

std::vector<double> MeasureSeconds(const RegionOptions& regions,
                                   const std::function<void(uint64_t turn)>& work) {
  EventTimer timer;
  uint64_t turn = 0;
  return MeasureRegions(regions, [&](uint64_t calls) {
    timer.Begin();
    for (uint64_t i = 0; i < calls; ++i) work(turn++);
    return timer.End();
  });
}

std::vector<double> MeasureHostSeconds(const RegionOptions& regions,
                                       const std::function<void()>& work) {
  return MeasureRegions(regions, [&](uint64_t calls) {
    const Time begin = Now();
    for (uint64_t i = 0; i < calls; ++i) work();
    return Seconds(Now() - begin);
  });
}

void PrintMeasurement(const std::string& name, const std::vector<double>& seconds, double bytes,
                      const std::string& note, int launches) {
  std::string samples_json;
  for (const double value : seconds) {
    char text[32];
    std::snprintf(text, sizeof(text), "%s%.6g", samples_json.empty() ? "" : ", ", value);
    samples_json += text;
  }
  std::printf(
      "{\"name\": \"%s\", \"seconds\": %.6g, \"bytes\": %.12g, \"launches\": %d, \"samples\": "
      "[%s], "
      "\"note\": \"%s\"}\n",
      name.c_str(), Median(seconds), bytes, launches, samples_json.c_str(), note.c_str());
  std::fflush(stdout);
}

}  // namespace tern::bench
