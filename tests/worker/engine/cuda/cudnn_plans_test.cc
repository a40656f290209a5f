// cuDNN's plans for the convolutions of our networks, on devices that need not be present. Every
// convolution must have a plan; otherwise the slow loops of our own would run.
#include <gmock/gmock.h>

#include <map>

#include "kernels/nn/device_images.h"
#include "models/models.h"
#include "worker/engine/cuda/cudnn/candidates.h"
#include "worker/engine/cuda/layer.h"
#include "worker/engine/specs.h"

namespace tern::engine::cuda {
namespace {

using cudnn::Heuristic;
using kernels::DeviceType;

// The device properties that cuDNN asks for, of a T4, an A100 and an H100.
std::string Properties(int capability) {
  const bool turing = capability == 750, hopper = capability == 900;
  const int processors = turing ? 40 : hopper ? 132 : 108;
  const int shared = turing ? 65536 : hopper ? 232448 : 166912;
  return R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
         R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
         R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
         R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":)" +
         std::to_string(turing ? 1024 : 2048) + R"(,"multiProcessorCount":)" +
         std::to_string(processors) + R"(,"maxSharedMemoryPerBlockOptin":)" +
         std::to_string(shared) + R"(,"deviceVer":)" + std::to_string(capability) +
         R"(,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1500000,)"
         R"("memClockRateKHz":2600000,"l2CacheSize":41943040,"driverVer":13000,)"
         R"("totalGlobalMem":40000000000,"cudaDeviceId":0,"pciDeviceId":0,"deviceName":"described"})";
}

// The distinct convolutions and dense layers of a network.
std::vector<ConvShape> ShapesOf(const std::string& name, uint32_t batch) {
  pb::Model model;
  model.set_name(name);
  const models::PublishedImage image = models::PublishedFor(name);
  pb::ImageShape input;
  input.set_channels(image.channels);
  input.set_height(image.side);
  input.set_width(image.side);
  const auto def = models::BuildNet(model, input, image.classes);
  EXPECT_TRUE(def.ok());
  const auto layers = PlanLayers(*def, {.batch = batch}, {}, [](auto) { return true; });
  EXPECT_TRUE(layers.ok());
  std::map<std::string, ConvShape> different;
  for (const PlannedLayer& layer : *layers) {
    const LayerSpec& spec = layer.spec;
    ConvShape shape;
    if (spec.def->has_conv()) {
      shape.slide = SlideOf(spec, spec.def->conv());
      shape.groups = spec.def->conv().groups();
    } else if (spec.def->has_dense()) {
      const models::ImageDims& in = spec.input();
      shape.slide = {{batch, 1, 1, in.c * in.h * in.w}, ImagesOf(batch, spec.output), {}};
    } else {
      continue;
    }
    shape.bias = spec.parameters.size() > 1;
    shape.relu = spec.relu;
    const auto& [x, y, window] = shape.slide;
    different[testing::PrintToString(std::vector<uint32_t>{
        x.h, x.w, x.c, y.h, y.w, y.c, window.rows.kernel, window.rows.stride, window.rows.pad,
        window.columns.pad, shape.groups, shape.bias, shape.relu})] = shape;
  }
  std::vector<ConvShape> shapes;
  for (const auto& [key, shape] : different) shapes.push_back(shape);
  return shapes;
}

struct Precise {
  DeviceType type;
  bool tf32;
};

class Plans : public testing::TestWithParam<std::string> {
 protected:
  // The first candidate that a plan can be made of.
  static Result<cudnn::Plan> PlanOf(const cudnn::Target& target, const ConvShape& shape,
                                    ConvPass pass) {
    auto graph = cudnn::MakeGraph(target, shape, pass);
    if (!graph.ok()) return graph.status();
    Result<cudnn::Plan> plan = Status(Code::kBadJob, "no candidate");
    for (const Heuristic heuristic : {Heuristic::kFast, Heuristic::kFallback}) {
      for (const auto& candidate : cudnn::FindCandidates(target, *graph, shape, heuristic, 4)) {
        plan = cudnn::MakePlan(target, candidate);
        if (plan.ok()) return plan;
      }
    }
    return plan;
  }
  static void ExpectAll(int capability, const Precise& precise, std::vector<ConvShape> shapes) {
    auto target = cudnn::TargetOf(Properties(capability));
    ASSERT_TRUE(target.ok()) << target.status().message();
    for (ConvShape& shape : shapes) {
      shape.type = precise.type;
      shape.tf32 = precise.tf32;
      for (const ConvPass pass :
           {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeights}) {
        const auto plan = PlanOf(*target, shape, pass);
        const auto& [x, y, window] = shape.slide;
        EXPECT_TRUE(plan.ok()) << plan.status().message() << "\n  sm " << capability << ", type "
                               << static_cast<int>(shape.type) << ", pass "
                               << static_cast<int>(pass) << ": " << x.h << "x" << x.w << "x" << x.c
                               << " to " << y.h << "x" << y.w << "x" << y.c << " by "
                               << window.rows.kernel << "/" << window.rows.stride << " pad "
                               << window.rows.pad << " in " << shape.groups;
      }
    }
  }
};

TEST_P(Plans, ExistForHopperInAllPrecisions) {
  const std::vector<ConvShape> shapes = ShapesOf(GetParam(), 32);
  ASSERT_FALSE(shapes.empty());
  for (const Precise& precise : {Precise{DeviceType::kFloat, false},
                                 {DeviceType::kFloat, true},
                                 {DeviceType::kBfloat, false},
                                 {DeviceType::kHalf, false}})
    ExpectAll(900, precise, shapes);
}

TEST_P(Plans, ExistForAmpereAndTuring) {
  const std::vector<ConvShape> shapes = ShapesOf(GetParam(), 32);
  ExpectAll(800, {DeviceType::kBfloat, false}, shapes);
  ExpectAll(750, {DeviceType::kHalf, false}, shapes);
}

INSTANTIATE_TEST_SUITE_P(Networks, Plans, testing::ValuesIn(models::ModelNames()));

TEST(CudnnPlan, RoundTripsThroughJson) {
  auto target = cudnn::TargetOf(Properties(900));
  ASSERT_TRUE(target.ok());
  ConvShape shape = ShapesOf("lenet", 8).front();
  auto graph = cudnn::MakeGraph(*target, shape, ConvPass::kForward);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto candidates = cudnn::FindCandidates(*target, *graph, shape, Heuristic::kFast, 1);
  ASSERT_EQ(candidates.size(), 1u);
  auto plan = cudnn::MakePlan(*target, candidates.front());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto again = cudnn::PlanFromJson(*target, plan->json);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->workspace, plan->workspace);
  EXPECT_EQ(again->json, plan->json);
  EXPECT_FALSE(cudnn::PlanFromJson(*target, "{\"engine\": 1}").ok());
}

TEST(CudnnPlan, Fp32PlansDoNotRoundToTf32) {
  auto target = cudnn::TargetOf(Properties(900));
  ASSERT_TRUE(target.ok());
  ConvShape shape = ShapesOf("resnet20", 8).front();
  auto graph = cudnn::MakeGraph(*target, shape, ConvPass::kBackwardData);
  ASSERT_TRUE(graph.ok());
  const auto exact = cudnn::FindCandidates(*target, *graph, shape, Heuristic::kFast, 1000);
  shape.tf32 = true;
  const auto rounding = cudnn::FindCandidates(*target, *graph, shape, Heuristic::kFast, 1000);
  EXPECT_GT(exact.size(), 0u);
  EXPECT_GT(rounding.size(), exact.size());
}

// The window does not reach the last padded row, which cuDNN must not see.
TEST(CudnnPlan, PaddingIsSymmetricIfPossible) {
  auto target = cudnn::TargetOf(Properties(900));
  ASSERT_TRUE(target.ok());
  const kernels::DeviceAxis axis{.kernel = 3, .stride = 2, .pad = 1};
  const ConvShape shape{.slide = {{32, 56, 56, 128}, {32, 28, 28, 128}, {axis, axis}}};
  auto graph = cudnn::MakeGraph(*target, shape, ConvPass::kBackwardData);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_FALSE(cudnn::FindCandidates(*target, *graph, shape, Heuristic::kFast, 8).empty());
}

TEST(CudnnPlan, CandidatesCoverSeveralEngines) {
  auto target = cudnn::TargetOf(Properties(900));
  ASSERT_TRUE(target.ok());
  const kernels::DeviceAxis axis{.kernel = 3, .pad = 1};
  const ConvShape shape{.slide = {{32, 28, 28, 128}, {32, 28, 28, 128}, {axis, axis}},
                        .type = DeviceType::kBfloat};
  auto graph = cudnn::MakeGraph(*target, shape, ConvPass::kForward);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  std::map<int64_t, int> of_engine;
  for (const auto& one : cudnn::FindCandidates(*target, *graph, shape, Heuristic::kFast, 8))
    ++of_engine[cudnn::EngineOf(one)];
  EXPECT_GT(of_engine.size(), 1u);
  for (const auto& [engine, count] : of_engine) {
    EXPECT_GE(engine, 0);
    EXPECT_LE(count, cudnn::kMaxPerEngine) << engine;
  }
}

TEST(CudnnPlan, InvalidDeviceGivesAnError) {
  const auto target = cudnn::TargetOf("{}");
  ASSERT_FALSE(target.ok());
  EXPECT_THAT(target.status().message(), testing::HasSubstr("a device"));
}

}  // namespace
}  // namespace tern::engine::cuda
