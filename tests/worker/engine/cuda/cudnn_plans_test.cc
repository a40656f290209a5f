// cuDNN's plans for the convolutions of our networks, on devices that need not be present. Every
// convolution must have a plan; otherwise our own slow loops would run.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <map>

#include "kernels/nn/device_images.h"
#include "models/models.h"
#include "worker/engine/cuda/conv_shape.h"
#include "worker/engine/cuda/cudnn/candidates.h"
#include "worker/engine/cuda/norm_fusion.h"
#include "worker/engine/cuda/stored_channels.h"
#include "worker/engine/specs.h"

namespace tern::engine::cuda {
namespace {

using cudnn::Heuristic;
using kernels::DeviceType;

// The properties that cuDNN wants to know of a T4 (capability 750), an A100 (800) or an H100 (900).
std::string PropertiesOfDevice(int capability) {
  const bool is_turing = capability == 750, is_hopper = capability == 900;
  const int processor_count = is_turing ? 40 : is_hopper ? 132 : 108;
  const int shared_memory_bytes = is_turing ? 65536 : is_hopper ? 232448 : 166912;
  return R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
         R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
         R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
         R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":)" +
         std::to_string(is_turing ? 1024 : 2048) + R"(,"multiProcessorCount":)" +
         std::to_string(processor_count) + R"(,"maxSharedMemoryPerBlockOptin":)" +
         std::to_string(shared_memory_bytes) + R"(,"deviceVer":)" + std::to_string(capability) +
         R"(,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1500000,)"
         R"("memClockRateKHz":2600000,"l2CacheSize":41943040,"driverVer":13000,)"
         R"("totalGlobalMem":40000000000,"cudaDeviceId":0,"pciDeviceId":0,"deviceName":"described"})";
}

// A built-in network for the images that it was published with.
pb::NetDef NetOf(const std::string& name) {
  pb::Model model;
  model.set_name(name);
  const models::PublishedImage image = models::PublishedImageOf(name);
  pb::ImageShape input;
  input.set_channels(image.channels);
  input.set_height(image.side);
  input.set_width(image.side);
  const auto net_def = models::BuildNet(model, input, image.classes);
  EXPECT_TRUE(net_def.ok());
  return *net_def;
}

// `def` must outlive the result.
std::vector<PlannedLayer> LayersOf(const pb::NetDef& def, uint32_t batch, Precision precision) {
  auto layers =
      PlanLayers(def, {.batch = batch, .is_training = true, .precision = precision},
                 *models::MakeParameterTable(def), {}, nullptr, [](auto) { return true; });
  EXPECT_TRUE(layers.ok());
  return std::move(*layers);
}

// The distinct convolutions and dense layers of a network.
std::vector<ConvShape> ShapesOf(const std::string& name, uint32_t batch, Precision precision) {
  const pb::NetDef net_def = NetOf(name);
  const std::vector<PlannedLayer> layers = LayersOf(net_def, batch, precision);
  const uint32_t stored_channels = StoredChannels(layers, precision, net_def.input().channels());
  std::map<std::string, ConvShape> shapes_by_key;
  for (const PlannedLayer& layer : layers) {
    if (!layer.spec.def->has_conv() && !layer.spec.def->has_dense()) continue;
    ConvShape shape = ConvShapeOf(layer.spec);
    if (layer.input_tensors.front() == "data") shape.slide.in.c = stored_channels;
    const auto& [x, y, window] = shape.slide;
    shapes_by_key[testing::PrintToString(std::vector<uint32_t>{
        x.h, x.w, x.c, y.h, y.w, y.c, window.rows.kernel, window.rows.stride, window.rows.pad,
        window.columns.pad, shape.groups, shape.has_bias})] = shape;
  }
  std::vector<ConvShape> shapes;
  for (const auto& [key, shape] : shapes_by_key) shapes.push_back(shape);
  return shapes;
}

// Makes a plan of the first of cuDNN's candidates for which this is possible.
Result<cudnn::Plan> MakeFirstPossiblePlan(const cudnn::Target& target, const ConvShape& shape,
                                          ConvPass pass) {
  auto graph = cudnn::MakeGraph(target, shape, pass);
  if (!graph.ok()) return graph.status();
  Result<cudnn::Plan> plan = Status(Code::kBadJob, "no candidate");
  for (const Heuristic heuristic : {Heuristic::kFast, Heuristic::kFallback}) {
    for (const auto& candidate : cudnn::FindCandidates(target, *graph, shape, pass, heuristic, 4)) {
      plan = cudnn::MakePlan(target, candidate);
      if (plan.ok()) return plan;
    }
  }
  return plan;
}

class PlansOfNetwork : public testing::TestWithParam<std::string> {
 protected:
  static void ExpectPlans(int capability, Precision precision) {
    auto target = cudnn::TargetOf(PropertiesOfDevice(capability));
    ASSERT_TRUE(target.ok()) << target.status().message();
    const std::vector<ConvShape> shapes = ShapesOf(GetParam(), 32, precision);
    ASSERT_FALSE(shapes.empty());
    for (const ConvShape& shape : shapes) {
      for (const ConvPass pass :
           {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeights}) {
        const auto plan = MakeFirstPossiblePlan(*target, shape, pass);
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

TEST_P(PlansOfNetwork, ExistForHopperInAllPrecisions) {
  for (const Precision precision :
       {Precision::kFp32, Precision::kTf32, Precision::kBf16, Precision::kFp16})
    ExpectPlans(900, precision);
}

TEST_P(PlansOfNetwork, ExistForAmpereAndTuring) {
  ExpectPlans(800, Precision::kBf16);
  ExpectPlans(750, Precision::kFp16);
}

INSTANTIATE_TEST_SUITE_P(Networks, PlansOfNetwork, testing::ValuesIn(models::ModelNames()));

// The fusion of batch norms with the convolutions of a network at a batch of 32, on a device of a
// capability.
struct Fusion {
  uint32_t num_norms = 0, num_fused = 0, num_left = 0, num_left_gradients = 0;
  std::vector<std::string> missing;  // the passes for which cuDNN has no plan
};
Fusion FusionOf(const std::string& name, int capability, Precision precision) {
  const auto target = cudnn::TargetOf(PropertiesOfDevice(capability));
  EXPECT_TRUE(target.ok()) << target.status().message();
  const pb::NetDef net_def = NetOf(name);
  std::vector<PlannedLayer> layers = LayersOf(net_def, 32, precision);
  Fusion fusion;
  for (const PlannedLayer& layer : layers) fusion.num_norms += layer.spec.def->has_batch_norm();
  std::map<std::string, bool> is_planned;  // by the pass
  const auto has_plan = [&](const ConvShape& shape, ConvPass pass) {
    const auto [known, is_new] = is_planned.try_emplace(DescribePass(shape, pass));
    if (!is_new) return known->second;
    const auto plan = MakeFirstPossiblePlan(*target, shape, pass);
    if (!plan.ok()) {
      fusion.missing.push_back(known->first);
      return false;
    }
    EXPECT_TRUE(cudnn::PlanFromJson(*target, plan->json).ok()) << "it is kept as JSON";
    return known->second = true;
  };
  const NormFusions fusions =
      FuseNorms(StoredChannels(layers, precision, net_def.input().channels()), has_plan, &layers);
  fusion.num_fused = fusions.sums;
  fusion.num_left = fusions.outputs;
  fusion.num_left_gradients = fusions.gradients;
  return fusion;
}

// The first layer of ResNet-50 alone takes no sums: only an engine that is compiled at run time
// can. Of each residual block, all norms but the last leave their output to a convolution.
TEST(CudnnPlan, ExistsForConvolutionsThatHelpNorms) {
  for (const int capability : {800, 900}) {
    const Fusion small = FusionOf("resnet20", capability, Precision::kFp16);
    EXPECT_EQ(small.num_norms, 21u);
    EXPECT_EQ(small.num_fused, 21u);
    EXPECT_EQ(small.num_left, 9u);
    EXPECT_EQ(small.num_left_gradients, 9u);
    EXPECT_THAT(small.missing, testing::IsEmpty());
    const Fusion large = FusionOf("resnet50", capability, Precision::kFp16);
    EXPECT_EQ(large.num_norms, 53u);
    EXPECT_EQ(large.num_fused, 52u);
    EXPECT_EQ(large.num_left, 32u);
    EXPECT_EQ(large.num_left_gradients, 32u);
    EXPECT_THAT(large.missing, testing::ElementsAre(testing::HasSubstr(" by 7/2/1/3 ")));
  }
}

TEST(CudnnPlan, ForNormsIsAskedForInFp16AloneAndMissesOnTuring) {
  for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16}) {
    const Fusion fusion = FusionOf("resnet20", 900, precision);
    EXPECT_EQ(fusion.num_fused + fusion.num_left, 0u);
    EXPECT_THAT(fusion.missing, testing::IsEmpty());
  }
  const Fusion turing = FusionOf("resnet20", 750, Precision::kFp16);
  EXPECT_EQ(turing.num_fused + turing.num_left, 0u);
  EXPECT_THAT(turing.missing, testing::Not(testing::IsEmpty()));
}

// The first layer of ResNet-50. Of images with three channels cuDNN makes a copy in the workspace.
TEST(CudnnPlan, NeedsNoCopyOfImagesWithStoredChannels) {
  auto target = cudnn::TargetOf(PropertiesOfDevice(900));
  ASSERT_TRUE(target.ok());
  const kernels::DeviceAxis axis{.kernel = 7, .stride = 2, .pad = 3};
  ConvShape shape{.slide = {{256, 224, 224, 3}, {256, 112, 112, 64}, {axis, axis}},
                  .type = DeviceType::kBfloat};
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardWeights}) {
    shape.slide.in.c = 3;
    const auto of_three = MakeFirstPossiblePlan(*target, shape, pass);
    shape.slide.in.c = 8;
    const auto of_eight = MakeFirstPossiblePlan(*target, shape, pass);
    ASSERT_TRUE(of_three.ok() && of_eight.ok());
    EXPECT_GT(of_three->workspace_bytes, shape.slide.in.size() * 2) << "the copy";
    EXPECT_LT(of_eight->workspace_bytes, shape.slide.in.size()) << "no copy";
  }
}

TEST(CudnnPlan, RoundTripsThroughJson) {
  auto target = cudnn::TargetOf(PropertiesOfDevice(900));
  ASSERT_TRUE(target.ok());
  ConvShape shape = ShapesOf("lenet", 8, Precision::kFp32).front();
  auto graph = cudnn::MakeGraph(*target, shape, ConvPass::kForward);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto candidates =
      cudnn::FindCandidates(*target, *graph, shape, ConvPass::kForward, Heuristic::kFast, 1);
  ASSERT_EQ(candidates.size(), 1u);
  auto plan = cudnn::MakePlan(*target, candidates.front());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto reparsed_plan = cudnn::PlanFromJson(*target, plan->json);
  ASSERT_TRUE(reparsed_plan.ok()) << reparsed_plan.status().message();
  EXPECT_EQ(reparsed_plan->workspace_bytes, plan->workspace_bytes);
  EXPECT_EQ(reparsed_plan->json, plan->json);
  EXPECT_FALSE(cudnn::PlanFromJson(*target, "{\"engine\": 1}").ok());
}

TEST(CudnnPlan, Fp32PlansDoNotRoundToTf32) {
  auto target = cudnn::TargetOf(PropertiesOfDevice(900));
  ASSERT_TRUE(target.ok());
  ConvShape shape = ShapesOf("resnet20", 8, Precision::kFp32).front();
  auto graph = cudnn::MakeGraph(*target, shape, ConvPass::kBackwardData);
  ASSERT_TRUE(graph.ok());
  const auto exact_candidates = cudnn::FindCandidates(
      *target, *graph, shape, ConvPass::kBackwardData, Heuristic::kFast, 1000);
  shape.allows_tf32 = true;
  const auto rounding_candidates = cudnn::FindCandidates(
      *target, *graph, shape, ConvPass::kBackwardData, Heuristic::kFast, 1000);
  EXPECT_GT(exact_candidates.size(), 0u);
  EXPECT_GT(rounding_candidates.size(), exact_candidates.size());
}

// With symmetric padding the window does not reach the last padded row. cuDNN must find plans for
// this padding.
TEST(CudnnPlan, PaddingIsSymmetricIfPossible) {
  auto target = cudnn::TargetOf(PropertiesOfDevice(900));
  ASSERT_TRUE(target.ok());
  const kernels::DeviceAxis axis{.kernel = 3, .stride = 2, .pad = 1};
  const ConvShape shape{.slide = {{32, 56, 56, 128}, {32, 28, 28, 128}, {axis, axis}}};
  auto graph = cudnn::MakeGraph(*target, shape, ConvPass::kBackwardData);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_FALSE(
      cudnn::FindCandidates(*target, *graph, shape, ConvPass::kBackwardData, Heuristic::kFast, 8)
          .empty());
}

TEST(CudnnPlan, CandidatesCoverSeveralEngines) {
  auto target = cudnn::TargetOf(PropertiesOfDevice(900));
  ASSERT_TRUE(target.ok());
  const kernels::DeviceAxis axis{.kernel = 3, .pad = 1};
  const ConvShape shape{.slide = {{32, 28, 28, 128}, {32, 28, 28, 128}, {axis, axis}},
                        .type = DeviceType::kBfloat};
  auto graph = cudnn::MakeGraph(*target, shape, ConvPass::kForward);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  std::map<int64_t, int> num_candidates_of_engine;
  bool is_late = false;  // Whether the candidates from here on are beyond their engine's limit.
  for (const auto& candidate :
       cudnn::FindCandidates(*target, *graph, shape, ConvPass::kForward, Heuristic::kFast, 40)) {
    const int64_t engine = cudnn::EngineNumberOf(candidate);
    EXPECT_GE(engine, 0);
    const bool is_beyond = ++num_candidates_of_engine[engine] > cudnn::kMaxPerEngine;
    is_late = is_late || is_beyond;
    EXPECT_EQ(is_beyond, is_late) << engine;
  }
  EXPECT_GT(num_candidates_of_engine.size(), 1u);
  EXPECT_TRUE(is_late) << "no engine had more candidates than its limit";
}

// Without a driver cuDNN leaves out the engines that it compiles. The driver's stub shows them.
TEST(CudnnPlan, CandidatesThatAreCompiledAtRunTimeAreFewAndLast) {
  auto target = cudnn::TargetOf(PropertiesOfDevice(900));
  ASSERT_TRUE(target.ok());
  const kernels::DeviceAxis axis{.kernel = 3, .pad = 1};
  const ConvShape shape{.slide = {{32, 28, 28, 128}, {32, 28, 28, 128}, {axis, axis}},
                        .groups = 128,
                        .type = DeviceType::kBfloat};
  size_t num_compiled = 0;
  for (const ConvPass pass :
       {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeights}) {
    auto graph = cudnn::MakeGraph(*target, shape, pass);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    size_t num_compiled_of_pass = 0;
    for (const auto& candidate :
         cudnn::FindCandidates(*target, *graph, shape, pass, Heuristic::kFast, 40)) {
      const bool is_compiled = cudnn::IsCompiledAtRunTime(candidate);
      EXPECT_TRUE(is_compiled || num_compiled_of_pass == 0);
      num_compiled_of_pass += is_compiled;
    }
    EXPECT_LE(num_compiled_of_pass, cudnn::kMaxCompiled);
    num_compiled += num_compiled_of_pass;
  }
  EXPECT_EQ(num_compiled > 0, dlopen("libcuda.so.1", RTLD_NOW) != nullptr);
}

TEST(CudnnPlan, InvalidDeviceGivesAnError) {
  const auto target = cudnn::TargetOf("{}");
  ASSERT_FALSE(target.ok());
  EXPECT_THAT(target.status().message(), testing::HasSubstr("a device"));
}

}  // namespace
}  // namespace tern::engine::cuda
