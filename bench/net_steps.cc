// Times training steps of one network on this machine's cores or its GPU. A step is forward,
// backward and an update by SGD with momentum. On a GPU a step also does a worker's other work on
// the device: it copies the images of the next step to the device as bytes, encodes the gradient,
// copies the ternary codes to the host, and applies a sum of codes (all zeros) to the weights.
//
// Prints one line of JSON: {"seconds": [the seconds of a step, for each region], "cpu_seconds": the
// CPU time of a step over all threads, "steps": the number of measured steps}. A region is a series
// of steps that are timed together. On a GPU also "planning": what the net was planned with
// (worker/engine/planning.h), which says why steps are slow if they are.
//
//   net_steps MODEL BATCH THREADS REGIONS fp32|tf32|bf16|fp16 [cpu|cuda [SECONDS [own_norms]]]
//
// On the CPU a region is one step, on a GPU as many steps as take about 50 ms or longer. SECONDS
// limits the total time, but at least one region is timed. own_norms: on a GPU, convolutions do no
// work of batch norms.
#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "common/codec/codecs.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/device/tiling.h"
#include "kernels/update/optimizer.h"
#include "kernels/update/optimizer_math.h"
#include "models/graph/shapes.h"
#include "models/models.h"
#include "tests/worker/engine/problem.h"
#include "worker/device/device_model.h"
#include "worker/engine/net.h"

namespace tern::engine {

// The linker needs this function for Problem::Make, which this program does not call.
Device DeviceUnderTest() { return Device::kCpu; }

namespace {

struct Setting {
  std::string model;
  uint32_t batch_size = 0;
  int num_threads = 1, num_regions = 1;
  Precision precision = Precision::kFp32;
  Device device = Device::kCpu;
  double max_seconds = std::numeric_limits<double>::infinity();
  bool fuses_norms = true;
};

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Trainer {
 public:
  virtual ~Trainer() = default;
  // Runs `steps` steps, or fewer if one fails (status()), and returns their total seconds.
  double TimeSteps(int steps) {
    const Time begin = Now();
    for (int i = 0; i < steps && status_.ok(); ++i) status_ = RunStep(step_++);
    return Seconds(Now() - begin);
  }
  const Status& status() const { return status_; }
  virtual Planning planning() const = 0;

 protected:
  virtual Status RunStep(uint64_t step) = 0;

 private:
  uint64_t step_ = 0;
  Status status_;
};

constexpr float kLearningRate = 1e-3f, kMomentum = 0.9f;

// Trains on the cores. A Problem is a network with random weights and one batch of random images.
class CpuTrainer : public Trainer {
 public:
  CpuTrainer(Problem& problem, std::unique_ptr<Net> net)
      : problem_(problem), net_(std::move(net)), velocities_(problem.table.total) {}
  Planning planning() const override { return net_->planning(); }

 protected:
  Status RunStep(uint64_t step) override {
    net_->Forward({problem_.images, problem_.labels, problem_.batch, step}, nullptr);
    net_->Backward(nullptr);
    kernels::MomentumUpdate(problem_.parameters.data(), velocities_.data(),
                            problem_.gradients.data(), problem_.table.total, kLearningRate,
                            kMomentum, 0);
    return net_->status();
  }

 private:
  Problem& problem_;
  const std::unique_ptr<Net> net_;
  std::vector<float> velocities_;
};

// Trains on the GPU, with encoding and decoding of gradients but without servers.
class GpuTrainer : public Trainer {
 public:
  static Result<std::unique_ptr<Trainer>> Make(const Problem& problem, Net::Options options) {
    auto trainer = std::unique_ptr<GpuTrainer>(new GpuTrainer(problem));
    std::vector<kernels::Part> parts;
    for (uint32_t t = 0; t < problem.table.parameters.size(); ++t) {
      const models::Parameter& tensor = problem.table.parameters[t];
      parts.push_back(
          {.begin = tensor.offset, .count = tensor.count, .first = 0, .tensor = t, .chunk = 0});
      trainer->plane_bytes_ += kernels::PlaneBytes(tensor.count);
    }
    device::DeviceModel::Layout layout;
    layout.elements = problem.table.total;
    layout.state_arrays = 1;
    layout.buckets = layout.chunks = {parts};
    layout.columns.resize(parts.size(), 1);
    layout.codec = trainer->codec_.get();
    auto model = device::DeviceModel::Make(layout);
    if (!model.ok()) return model.status();
    trainer->model_ = std::move(*model);
    std::vector<float> weights = problem.parameters, velocity(weights.size());
    TERN_RETURN_IF_ERROR(trainer->model_->CopyToDevice({weights.data(), {velocity.data()}}));
    options.pixels = kernels::PixelRule{
        .channels = std::vector<kernels::ChannelScale>(problem.net.input().channels())};
    Net::Arenas arenas;
    arenas.statistics = trainer->statistics_.data();
    arenas.model = trainer->model_.get();
    auto net = Net::Make(problem.net, options, arenas);
    if (!net.ok()) return net.status();
    trainer->net_ = std::move(*net);
    trainer->PinBatches();
    return std::unique_ptr<Trainer>(std::move(trainer));
  }
  // The last step staged a batch that no step uses: its memory must not be unpinned while it is
  // copied.
  ~GpuTrainer() override {
    if (net_ != nullptr) net_->Unstage();
  }
  Planning planning() const override { return net_->planning(); }

 protected:
  Status RunStep(uint64_t step) override {
    net_->Forward(MakeFeed(step), nullptr);
    net_->Stage(MakeFeed(step + 1));
    // As a worker does, whose coder is told so of the last parameter.
    Status code_status;
    net_->Backward([&](uint32_t p) {
      if (p == 0) code_status = Encode(step);
    });
    TERN_RETURN_IF_ERROR(net_->status());
    TERN_RETURN_IF_ERROR(code_status);
    const size_t num_parts = problem_.table.parameters.size();
    const std::vector<float> scalers(num_parts);
    const std::vector<kernels::TensorRates> rates(num_parts);
    return model_->Update(
        0, {planes_of_sum_, /*contributors=*/1, scalers},
        {.rule = kernels::UpdateRule::kMomentum, .lr = kLearningRate, .momentum = kMomentum},
        rates);
  }

 private:
  explicit GpuTrainer(const Problem& problem)
      : problem_(problem), statistics_(problem.statistics), pixel_draws_(problem.batch) {}

  Status Encode(uint64_t step) {
    const auto stats = model_->codes().Prepare(0, {.round = step});
    if (!stats.ok()) return stats.status();
    std::vector<kernels::TernaryScale> scales;
    for (const kernels::Stats& of_part : *stats) {
      const auto clip = static_cast<float>(2.5 * kernels::Sigma(of_part));
      scales.push_back({std::min(clip, of_part.max_abs), clip});
    }
    return model_->codes().Encode(0, scales, {.round = step}).status();
  }
  void PinBatches() {
    planes_of_sum_.resize(kernels::SumBits(1) * plane_bytes_);
    for (std::vector<uint8_t>& batch : batch_bytes_) {
      batch.resize(problem_.images.size());
      for (size_t i = 0; i < batch.size(); ++i)
        batch[i] = static_cast<uint8_t>(255 * problem_.images[i]);
      pins_.push_back(net_->Pin(batch.data(), batch.size()));
    }
  }
  Net::Feed MakeFeed(uint64_t step) {
    Net::Feed feed;
    feed.labels = problem_.labels;
    feed.used = problem_.batch;
    feed.step = step;
    feed.bytes = batch_bytes_[step % batch_bytes_.size()];
    feed.draws = pixel_draws_;
    return feed;
  }

  const Problem& problem_;
  std::vector<float> statistics_;
  std::vector<kernels::PixelDraws> pixel_draws_;
  std::array<std::vector<uint8_t>, 2> batch_bytes_;
  std::vector<uint8_t> planes_of_sum_;
  size_t plane_bytes_ = 0;
  const std::unique_ptr<codec::Codec> codec_ = std::move(*codec::MakeCodec("ternary", {}));
  std::unique_ptr<device::DeviceModel> model_;
  std::unique_ptr<Net> net_;
  // Declared last and so destroyed first: the memory is unpinned before it is freed.
  std::vector<std::shared_ptr<void>> pins_;
};

Result<std::unique_ptr<Trainer>> MakeTrainer(const Setting& setting, Problem& problem) {
  const Net::Options options = {.device = setting.device,
                                .batch = setting.batch_size,
                                .precision = setting.precision,
                                .fuses_norms = setting.fuses_norms};
  if (setting.device == Device::kCuda) return GpuTrainer::Make(problem, options);
  auto net =
      Net::Make(problem.net, options,
                {problem.parameters.data(), problem.gradients.data(), problem.statistics.data()});
  if (!net.ok()) return net.status();
  return std::unique_ptr<Trainer>(std::make_unique<CpuTrainer>(problem, std::move(*net)));
}

std::string PlanningJson(const Planning& planning) {
  std::string loops;
  for (const std::string& pass : planning.own_loops)
    loops += Cat(loops.empty() ? "" : ", ", "\"", pass, "\"");
  return Cat(
      "{\"segments\": ", planning.segments, ", \"graphs\": ", planning.graphs,
      ", \"graph_nodes\": ", planning.graph_nodes, ", \"plans_loaded\": ", planning.plans_loaded,
      ", \"plans_chosen\": ", planning.plans_chosen, ", \"plan_seconds\": ", planning.plan_seconds,
      ", \"fused_norms\": ", planning.fused_norms,
      ", \"norms_in_readers\": ", planning.norms_in_readers,
      ", \"norm_gradients_in_readers\": ", planning.norm_gradients_in_readers, ", \"own_loops\": [",
      loops, "]}");
}

void MeasureAndPrint(const Setting& setting, Trainer* trainer) {
  const Time begin = Now();
  const auto elapsed_s = [begin] { return Seconds(Now() - begin); };
  // The first step is slow: oneDNN or cuDNN makes plans, and memory pages are touched for the first
  // time.
  double step_s = trainer->TimeSteps(1);
  int steps_per_region = 1;
  if (setting.device == Device::kCuda) {
    for (int i = 0; i < 3 && elapsed_s() < setting.max_seconds / 3; ++i)
      step_s = trainer->TimeSteps(1);
    while (step_s * steps_per_region < 0.05) steps_per_region *= 2;
  }
  std::string seconds_json;
  int measured_steps = 0;
  const double cpu_begin_s = CpuSeconds();
  for (int i = 0; i < setting.num_regions && (i == 0 || elapsed_s() < setting.max_seconds); ++i) {
    char text[32];
    std::snprintf(text, sizeof(text), "%s%.6g", i == 0 ? "" : ", ",
                  trainer->TimeSteps(steps_per_region) / steps_per_region);
    seconds_json += text;
    measured_steps += steps_per_region;
  }
  const std::string planning_json = setting.device == Device::kCuda
                                        ? Cat(", \"planning\": ", PlanningJson(trainer->planning()))
                                        : "";
  std::printf("{\"seconds\": [%s], \"cpu_seconds\": %.6g, \"steps\": %d%s}\n", seconds_json.c_str(),
              (CpuSeconds() - cpu_begin_s) / measured_steps, measured_steps, planning_json.c_str());
}

int PrintError(const Status& status) {
  std::fprintf(stderr, "net_steps: %s\n", status.message().c_str());
  return static_cast<int>(status.code());
}

int RunBenchmark(const Setting& setting) {
  omp_set_num_threads(setting.num_threads);
  pb::Model model;
  model.set_name(setting.model);
  const models::PublishedImage image = models::PublishedImageOf(setting.model);
  const auto net_def = models::BuildNet(
      model, MakeImageShape(image.channels, image.side, image.side), image.classes);
  if (!net_def.ok()) return PrintError(net_def.status());
  Problem problem(*net_def, setting.batch_size);
  auto trainer = MakeTrainer(setting, problem);
  if (!trainer.ok()) return PrintError(trainer.status());
  MeasureAndPrint(setting, trainer->get());
  return (*trainer)->status().ok() ? 0 : PrintError((*trainer)->status());
}

int Main(int argc, char** argv) {
  Setting setting;
  setting.fuses_norms = argc < 9;
  if (argc < 6 || argc > 9 || (argc == 9 && std::string(argv[8]) != "own_norms")) {
    std::fprintf(stderr,
                 "net_steps MODEL BATCH THREADS REGIONS fp32|tf32|bf16|fp16 "
                 "[cpu|cuda [SECONDS [own_norms]]]\n");
    return static_cast<int>(Code::kUsage);
  }
  setting.model = argv[1];
  setting.batch_size = static_cast<uint32_t>(std::atoi(argv[2]));
  setting.num_threads = std::atoi(argv[3]);
  setting.num_regions = std::atoi(argv[4]);
  const std::map<std::string, Precision> precisions = {{"fp32", Precision::kFp32},
                                                       {"tf32", Precision::kTf32},
                                                       {"bf16", Precision::kBf16},
                                                       {"fp16", Precision::kFp16}};
  const auto found_precision = precisions.find(argv[5]);
  if (found_precision == precisions.end()) {
    return PrintError(Status(Code::kUsage, Cat("unknown precision ", argv[5])));
  }
  setting.precision = found_precision->second;
  if (argc > 6 && std::string(argv[6]) == "cuda") setting.device = Device::kCuda;
  if (argc > 7) setting.max_seconds = std::atof(argv[7]);
  return RunBenchmark(setting);
}

}  // namespace
}  // namespace tern::engine

int main(int argc, char** argv) { return tern::engine::Main(argc, argv); }
