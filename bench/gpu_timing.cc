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
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// `run_region(calls)` makes `calls` calls and returns their total seconds. Returns the seconds per
// call of each region.
std::vector<double> Measure(const Regions& regions,
                            const std::function<double(uint64_t)>& run_region) {
  run_region(1);
  uint64_t calls = 1;
  double duration = run_region(calls);
  while (duration < regions.seconds && calls < kMaxCalls) {
    calls *= 2;
    duration = run_region(calls);
  }
  std::vector<double> seconds;
  for (int i = 0; i < regions.count; ++i)
    seconds.push_back(run_region(calls) / static_cast<double>(calls));
  return seconds;
}

// A pair of CUDA events that measures the time between Begin and End on the device.
class EventTimer {
 public:
  EventTimer() {
    Check(cudaEventCreate(&begin_), "cudaEventCreate");
    Check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~EventTimer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  void Begin() { Check(cudaEventRecord(begin_, nullptr), "cudaEventRecord"); }
  double End() {
    Check(cudaEventRecord(end_, nullptr), "cudaEventRecord");
    Check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds / 1e3;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

void Check(int error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "gpu_bench: %s: %s\n", call,
               cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(static_cast<int>(Code::kPeerLost));
}

std::vector<double> SecondsOf(const Regions& regions,
                              const std::function<void(uint64_t turn)>& work) {
  EventTimer timer;
  uint64_t turn = 0;
  return Measure(regions, [&](uint64_t calls) {
    timer.Begin();
    for (uint64_t i = 0; i < calls; ++i) work(turn++);
    return timer.End();
  });
}

std::vector<double> HostSecondsOf(const Regions& regions, const std::function<void()>& work) {
  return Measure(regions, [&](uint64_t calls) {
    const Time begin = Now();
    for (uint64_t i = 0; i < calls; ++i) work();
    return Seconds(Now() - begin);
  });
}

void PrintMeasurement(const std::string& name, const std::vector<double>& seconds, double bytes,
                      const std::string& note, int launches) {
  std::string samples;
  for (const double value : seconds) {
    char text[32];
    std::snprintf(text, sizeof(text), "%s%.6g", samples.empty() ? "" : ", ", value);
    samples += text;
  }
  std::printf(
      "{\"name\": \"%s\", \"seconds\": %.6g, \"bytes\": %.12g, \"launches\": %d, \"samples\": "
      "[%s], "
      "\"note\": \"%s\"}\n",
      name.c_str(), Median(seconds), bytes, launches, samples.c_str(), note.c_str());
  std::fflush(stdout);
}

}  // namespace tern::bench
