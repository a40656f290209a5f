// Training steps of one network on this machine's cores or its GPU: forward, backward, momentum.
// Prints one line of JSON: {"seconds": [a step's, region by region], "cpu_seconds": a step's CPU
// time over all threads, "steps": how many were measured}.
//
//   net_steps MODEL BATCH THREADS REGIONS fp32|tf32|bf16|fp16 [cpu|cuda [SECONDS]]
//
// A region is a step on the CPU, and on a GPU as many as take 50 ms. At most about SECONDS of work,
// one region at least, where that is given.
#include <omp.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "kernels/optimizer.h"
#include "models/models.h"
#include "models/shapes.h"
#include "tests/engine/problem.h"
#include "worker/engine/net.h"

namespace tern::engine {

Device DeviceUnderTest() { return Device::kCpu; }  // of Problem::Make, which is not used here

namespace {

struct Setting {
  std::string model;
  uint32_t batch = 0;
  int threads = 1, regions = 1;
  Precision precision = Precision::kFp32;
  Device device = Device::kCpu;
  double seconds = std::numeric_limits<double>::infinity();
};

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

class Trained {
 public:
  Trained(Problem& problem, Net& net)
      : problem_(problem), net_(net), velocity_(problem.table.total) {}

  // Returns the seconds of so many steps.
  double Steps(int steps) {
    const Time begin = Now();
    for (int i = 0; i < steps; ++i) {
      net_.Forward({problem_.images, problem_.labels, problem_.batch, step_++}, nullptr);
      net_.Backward(nullptr);
      kernels::MomentumUpdate(problem_.parameters.data(), velocity_.data(),
                              problem_.gradients.data(), problem_.table.total, 1e-3f, 0.9f, 0);
    }
    return Seconds(Now() - begin);
  }

 private:
  Problem& problem_;
  Net& net_;
  std::vector<float> velocity_;
  uint64_t step_ = 0;
};

void Measure(const Setting& setting, Trained* trained) {
  const Time begin = Now();
  const auto spent = [begin] { return Seconds(Now() - begin); };
  double step = trained->Steps(1);  // plans, first touches
  int steps = 1;
  if (setting.device == Device::kCuda) {
    for (int i = 0; i < 3 && spent() < setting.seconds / 3; ++i) step = trained->Steps(1);
    while (step * steps < 0.05) steps *= 2;
  }
  std::string seconds;
  int measured = 0;
  const double cpu_begin = CpuSeconds();
  for (int i = 0; i < setting.regions && (i == 0 || spent() < setting.seconds); ++i) {
    char text[32];
    std::snprintf(text, sizeof(text), "%s%.6g", i == 0 ? "" : ", ", trained->Steps(steps) / steps);
    seconds += text;
    measured += steps;
  }
  std::printf("{\"seconds\": [%s], \"cpu_seconds\": %.6g, \"steps\": %d}\n", seconds.c_str(),
              (CpuSeconds() - cpu_begin) / measured, measured);
}

int Fail(const Status& status) {
  std::fprintf(stderr, "net_steps: %s\n", status.message().c_str());
  return static_cast<int>(status.code());
}

int Run(const Setting& setting) {
  omp_set_num_threads(setting.threads);
  pb::Model model;
  model.set_name(setting.model);
  const models::PublishedImage image = models::PublishedFor(setting.model);
  const auto def =
      models::BuildNet(model, Image(image.channels, image.side, image.side), image.classes);
  if (!def.ok()) return Fail(def.status());
  Problem problem(*def, setting.batch);
  auto net = Net::Make(
      *def, {.device = setting.device, .batch = setting.batch, .precision = setting.precision},
      {problem.parameters.data(), problem.gradients.data(), problem.statistics.data()});
  if (!net.ok()) return Fail(net.status());
  Trained trained(problem, **net);
  Measure(setting, &trained);
  return (*net)->status().ok() ? 0 : Fail((*net)->status());
}

int Main(int argc, char** argv) {
  if (argc < 6 || argc > 8) {
    std::fprintf(
        stderr, "net_steps MODEL BATCH THREADS REGIONS fp32|tf32|bf16|fp16 [cpu|cuda [SECONDS]]\n");
    return static_cast<int>(Code::kUsage);
  }
  Setting setting;
  setting.model = argv[1];
  setting.batch = static_cast<uint32_t>(std::atoi(argv[2]));
  setting.threads = std::atoi(argv[3]);
  setting.regions = std::atoi(argv[4]);
  const std::map<std::string, Precision> precisions = {{"fp32", Precision::kFp32},
                                                       {"tf32", Precision::kTf32},
                                                       {"bf16", Precision::kBf16},
                                                       {"fp16", Precision::kFp16}};
  const auto precision = precisions.find(argv[5]);
  if (precision == precisions.end()) {
    return Fail(Status(Code::kUsage, Cat("no precision is called ", argv[5])));
  }
  setting.precision = precision->second;
  if (argc > 6 && std::string(argv[6]) == "cuda") setting.device = Device::kCuda;
  if (argc > 7) setting.seconds = std::atof(argv[7]);
  return Run(setting);
}

}  // namespace
}  // namespace tern::engine

int main(int argc, char** argv) { return tern::engine::Main(argc, argv); }
