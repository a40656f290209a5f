// The net on a GPU. The caller's parameters, gradients and statistics are in arenas (one array for
// all layers). If the arenas are in host memory, copies parameters to the device before the layers
// that read them run, and copies gradients back in the order in which they are computed.
#include <limits>
#include <utility>
#include <vector>

#include "common/base/logging.h"
#include "kernels/nn/device_images.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/rows.h"
#include "worker/device/cuda_model.h"
#include "worker/engine/backends.h"
#include "worker/engine/cuda/conv_shape.h"
#include "worker/engine/cuda/layers.h"
#include "worker/engine/cuda/loss_scale.h"
#include "worker/engine/cuda/mirrored_arena.h"
#include "worker/engine/cuda/norm_fusion.h"
#include "worker/engine/cuda/pixel_input.h"
#include "worker/engine/cuda/step_memory.h"
#include "worker/engine/cuda/stored_channels.h"
#include "worker/engine/net_planner.h"

namespace tern::engine {
namespace cuda {
namespace {

bool HasCudaLayer(pb::LayerDef::KindCase kind) { return FindLayerKind(kind) != nullptr; }

class CudaNet : public Net {
 public:
  CudaNet(const pb::NetDef& def, const Options& options)
      : def_(def), options_(options), program_(options.batch, TypeOf(options.precision)) {}

  Status Plan(const Arenas& arenas);
  double Forward(const Feed& feed, Score* score, const Need& need) override;
  void Backward(const std::function<void(uint32_t p)>& ready) override;
  void Stage(const Feed& next) override;
  void Unstage() override;
  std::shared_ptr<void> Pin(const void* begin, size_t bytes) const override {
    return std::make_shared<device::PinnedRange>(begin, bytes);
  }
  Planning planning() const override;
  Status status() const override { return status_; }

 private:
  Status AllocateMemory(const Arenas& arenas);
  Value PlanInput();
  void PlanScores(const Value& scores);
  Program::Transfers MakeTransfers();
  std::pair<size_t, size_t> ArenaRangeOf(const Program::Range& range) const;
  void CheckFeed(const Feed& feed) const;
  Status UploadInputs(const Feed& feed);
  Status UploadImages(const Feed& feed);
  // Launches the forward pass and, if nothing can keep it from following, the backward pass. Waits
  // for the first.
  Status RunForward(const Feed& feed, const Need& need);
  Status RunBackward(const std::function<void(uint32_t p)>& ready);
  // Runs the backward pass with loss scaling: while a gradient overflows, halves the scale and
  // repeats the forward and the backward pass.
  Status RunScaledBackward(const std::function<void(uint32_t p)>& ready);
  Result<bool> HasOverflowed();
  Status RepeatForward();
  bool ScalesLoss() const { return options_.is_training && options_.precision == Precision::kFp16; }

  const pb::NetDef def_;
  const Options options_;
  models::ParameterTable parameter_table_;
  device::CudaModel* model_ = nullptr;  // Null if parameters and gradients are the host's.
  std::shared_ptr<device::Stream> stream_;
  MirroredArena parameters_, gradients_, statistics_;
  FrozenArena frozen_;
  device::DeviceMemory images_, scores_, overflow_flag_;
  StepMemory step_memory_;
  std::unique_ptr<device::Event> forward_done_;  // Recorded after the forward pass and its copies.
  bool has_launched_backward_ = false;           // whether RunForward has launched it
  // gradients_arrived_[p], for a range of parameters that begins at number p: recorded when the
  // gradients of the range are final and, if they are in host memory, have been copied there.
  std::vector<std::unique_ptr<device::Event>> gradients_arrived_;
  std::unique_ptr<PixelInput> pixel_input_;  // Null if images come as floats.
  // The values that change from step to step (step number, used samples, loss scale, addresses of
  // bytes), in host memory.
  kernels::DeviceStep host_step_;
  LossScale loss_scale_;
  // The batch-norm statistics before this step, for a repetition of the step.
  std::vector<float> statistics_before_;
  uint64_t image_elements_ = 0;  // The number of elements of one input image.
  Program program_;
  std::vector<PlannedLayer> layers_;
  Planning planning_;  // Of segments and graphs, `program_` knows.
  Status status_;
};

Status CudaNet::AllocateMemory(const Arenas& arenas) {
  if (arenas.model != nullptr) {
    model_ = static_cast<device::CudaModel*>(arenas.model);
    stream_ = model_->stream();
    parameters_.UseDeviceArena(options_.is_training ? model_->point() : model_->weights(),
                               parameter_table_.total);
    gradients_.UseDeviceArena(model_->gradients(),
                              options_.is_training ? parameter_table_.total : 0);
  } else {
    auto stream = device::Stream::Make();
    if (!stream.ok()) return stream.status();
    stream_ = std::move(*stream);
    TERN_RETURN_IF_ERROR(parameters_.Make(arenas.parameters, parameter_table_.total));
    TERN_RETURN_IF_ERROR(
        gradients_.Make(arenas.gradients, options_.is_training ? parameter_table_.total : 0));
  }
  TERN_RETURN_IF_ERROR(statistics_.Make(arenas.statistics, parameter_table_.statistics_total));
  TERN_RETURN_IF_ERROR(
      frozen_.Make(arenas.frozen, parameter_table_.frozen_total, options_.is_training));
  const size_t batch = options_.batch;
  for (const auto& [memory, bytes] :
       {std::pair{&images_, pixel_input_ != nullptr ? 0 : batch * image_elements_ * sizeof(float)},
        std::pair{&scores_, batch * def_.classes() * sizeof(float)},
        std::pair{&overflow_flag_, sizeof(uint32_t)}}) {
    auto new_memory = device::AllocateDevice(bytes);
    if (!new_memory.ok()) return new_memory.status();
    *memory = std::move(*new_memory);
  }
  TERN_RETURN_IF_ERROR(step_memory_.Allocate(batch));
  auto forward_done = device::Event::Make();
  if (!forward_done.ok()) return forward_done.status();
  forward_done_ = std::move(*forward_done);
  for (size_t p = 0; options_.is_training && p < parameter_table_.parameters.size(); ++p) {
    auto event = device::Event::Make();
    if (!event.ok()) return event.status();
    gradients_arrived_.push_back(std::move(*event));
  }
  return Ok();
}

Value CudaNet::PlanInput() {
  const pb::ImageShape& input = def_.input();
  const uint32_t channels = StoredChannels(layers_, options_.precision, input.channels());
  const Value input_value = program_.NewValue({channels, input.height(), input.width()});
  if (pixel_input_ != nullptr) {
    const auto* step = step_memory_.step();
    program_.Call("bytes to images", {input_value},
                  [this, step, channels](auto to_stream, const auto& addresses) {
                    return pixel_input_->Launch(to_stream, step, channels, program_.type(),
                                                addresses[0]);
                  });
    return input_value;
  }
  const auto* float_images = static_cast<const float*>(images_.get());
  const auto images = ImagesOf(options_.batch, {input.channels(), input.height(), input.width()});
  program_.Call(
      "images to channels last", {input_value},
      [float_images, images, channels, type = program_.type()](auto stream, const auto& addresses) {
        return kernels::ToChannelsLastOnDevice(stream, kernels::DeviceType::kFloat, float_images,
                                               images, channels, type, addresses[0]);
      });
  return input_value;
}

// Appends the launch that converts the scores to floats. If the feed asks for scores, RunForward
// copies these floats to the feed's memory.
void CudaNet::PlanScores(const Value& scores) {
  program_.Call("scores", {scores},
                [float_scores = static_cast<float*>(scores_.get()),
                 num_scores = size_t{options_.batch} * def_.classes(),
                 type = program_.type()](auto stream, const auto& data) {
                  return kernels::ToFloatsOnDevice(stream, type, data[0], num_scores, float_scores);
                });
}

Status CudaNet::Plan(const Arenas& arenas) {
  TERN_RETURN_IF_ERROR(device::CheckDevice());
  auto table = models::MakeParameterTable(def_, options_.freeze);
  if (!table.ok()) return table.status();
  parameter_table_ = std::move(*table);
  const pb::ImageShape& input = def_.input();
  image_elements_ = models::Elements({input.channels(), input.height(), input.width()});
  if (options_.pixels.has_value()) {
    const auto images = ImagesOf(options_.batch, {input.channels(), input.height(), input.width()});
    auto pixel_input = PixelInput::Make(*options_.pixels, images, options_.is_training);
    if (!pixel_input.ok()) return pixel_input.status();
    pixel_input_ = std::move(*pixel_input);
  }
  TERN_RETURN_IF_ERROR(AllocateMemory(arenas));
  const Arenas device_arenas{parameters_.device(), gradients_.device(), statistics_.device(),
                             /*model=*/nullptr, frozen_.values()};
  auto layers = PlanLayers(def_, options_, parameter_table_, device_arenas, frozen_.gradients(),
                           HasCudaLayer);
  if (!layers.ok()) return layers.status();
  layers_ = std::move(*layers);
  auto convolutions = MakeConvLibrary(stream_->get(), &planning_);
  if (!convolutions.ok()) return convolutions.status();
  const NormFusions fusions = FuseNorms(
      StoredChannels(layers_, options_.precision, input.channels()),
      [&](const ConvShape& shape, ConvPass pass) {
        return options_.fuses_norms && (*convolutions)->Plan(shape, pass) != nullptr;
      },
      &layers_);
  planning_.fused_norms = fusions.sums;
  planning_.norms_in_readers = fusions.outputs;
  planning_.norm_gradients_in_readers = fusions.gradients;
  const Inputs inputs{step_memory_.step(), step_memory_.labels(), step_memory_.losses(),
                      convolutions->get()};
  using Planner = NetPlanner<Program, Layer, Value>;
  const Planner::Backend backend{[inputs](const LayerSpec& spec) {
                                   return FindLayerKind(spec.def->kind_case())->make(spec, inputs);
                                 },
                                 [this](const Value& a, const Value& b) {
                                   return AddSum(&program_, a, b, /*has_relu=*/false);
                                 },
                                 [this](const std::string& where) { program_.BeginLayer(where); },
                                 [this](const Value& scores) { PlanScores(scores); }};
  Planner(&program_, backend, PlanInput()).Plan(layers_);
  std::vector<size_t> parameter_bytes;
  for (const models::Parameter& parameter : parameter_table_.parameters)
    parameter_bytes.push_back(parameter.count * sizeof(float));
  return program_.Bind(parameter_bytes, inputs.step);
}

Planning CudaNet::planning() const {
  Planning planning = planning_;
  program_.CountGraphs(&planning);
  return planning;
}

Program::Transfers CudaNet::MakeTransfers() {
  return {
      [this](const Program::Range& range) {
        if (parameters_.host_arena == nullptr) return Ok();
        const auto [offset, bytes] = ArenaRangeOf(range);
        return stream_->CopyIn(parameters_.device() + offset, parameters_.host_arena + offset,
                               bytes);
      },
      [this](const Program::Range& range) {
        if (range.begin == range.end) return Ok();
        if (gradients_.host_arena != nullptr) {
          const auto [offset, bytes] = ArenaRangeOf(range);
          TERN_RETURN_IF_ERROR(stream_->CopyOut(gradients_.host_arena + offset,
                                                gradients_.device() + offset, bytes));
        }
        return gradients_arrived_[range.begin]->Record(*stream_);
      },
      [this](const Program::Range& range) {
        return range.begin == range.end ? Ok() : gradients_arrived_[range.begin]->Wait();
      },
      model_ == nullptr
          ? std::function<Status(const Program::Range&)>()
          : [this](
                const Program::Range&
                    range) { return model_->LetCoderWaitFor(*gradients_arrived_[range.begin]); }};
}

// Returns where the parameters of a range are in the arenas: the first element, and the number of
// bytes.
std::pair<size_t, size_t> CudaNet::ArenaRangeOf(const Program::Range& range) const {
  if (range.begin == range.end) return {0, 0};
  const models::Parameter &first_parameter = parameter_table_.parameters[range.begin],
                          &last_parameter = parameter_table_.parameters[range.end - 1];
  return {first_parameter.offset,
          (last_parameter.offset + last_parameter.count - first_parameter.offset) * sizeof(float)};
}

Status CudaNet::UploadInputs(const Feed& feed) {
  host_step_ = {.step = feed.step, .used = feed.used};
  if (ScalesLoss()) {
    host_step_.loss_scale = loss_scale_.scale();
    host_step_.inverse_scale = 1 / host_step_.loss_scale;
    statistics_before_.assign(statistics_.host_arena,
                              statistics_.host_arena + statistics_.num_elements);
  }
  TERN_RETURN_IF_ERROR(UploadImages(feed));
  TERN_RETURN_IF_ERROR(step_memory_.Upload(*stream_, host_step_, feed.labels.first(feed.used)));
  return stream_->CopyIn(statistics_.device(), statistics_.host_arena, statistics_.bytes());
}

Status CudaNet::UploadImages(const Feed& feed) {
  if (pixel_input_ != nullptr) return pixel_input_->Prepare(*stream_, feed, &host_step_);
  return stream_->CopyIn(images_.get(), feed.images.data(), feed.images.size_bytes());
}

Status CudaNet::RunForward(const Feed& feed, const Need& need) {
  TERN_RETURN_IF_ERROR(UploadInputs(feed));
  const Result<bool> is_complete = program_.LaunchForward(*stream_, MakeTransfers(), need);
  if (!is_complete.ok()) return is_complete.status();
  if (options_.is_training) {
    TERN_RETURN_IF_ERROR(
        stream_->CopyOut(statistics_.host_arena, statistics_.device(), statistics_.bytes()));
  }
  TERN_RETURN_IF_ERROR(step_memory_.DownloadLosses(*stream_, feed.used));
  if (!feed.scores.empty()) {
    TERN_RETURN_IF_ERROR(
        stream_->CopyOut(feed.scores.data(), scores_.get(), feed.scores.size_bytes()));
  }
  TERN_RETURN_IF_ERROR(forward_done_->Record(*stream_));
  // So the GPU does not wait for the host between the passes. Gradients in host memory are left
  // alone until the caller asks for them.
  has_launched_backward_ =
      options_.is_training && *is_complete && !ScalesLoss() && gradients_.host_arena == nullptr;
  if (has_launched_backward_)
    TERN_RETURN_IF_ERROR(program_.LaunchBackward(*stream_, MakeTransfers()));
  return forward_done_->Wait();
}

void CudaNet::CheckFeed(const Feed& feed) const {
  CHECK_EQ(pixel_input_ != nullptr ? feed.bytes.size() : feed.images.size(),
           options_.batch * image_elements_);
  CHECK(pixel_input_ == nullptr || feed.draws.size() == options_.batch);
}

void CudaNet::Stage(const Feed& next) {
  CheckFeed(next);
  if (status_.ok() && pixel_input_ != nullptr) status_ = pixel_input_->Stage(next);
}

void CudaNet::Unstage() {
  const Status unstage_status = pixel_input_ != nullptr ? pixel_input_->Unstage() : Ok();
  if (status_.ok()) status_ = unstage_status;
}

double CudaNet::Forward(const Feed& feed, Score* score, const Need& need) {
  CheckFeed(feed);
  CHECK(feed.used >= 1 && feed.used <= options_.batch && feed.labels.size() >= feed.used);
  for (uint32_t n = 0; n < feed.used; ++n) CHECK_LT(feed.labels[n], def_.classes());
  if (status_.ok()) status_ = RunForward(feed, need);
  if (!status_.ok()) return std::numeric_limits<double>::quiet_NaN();
  return step_memory_.AddLosses(feed.used, score);
}

void CudaNet::Backward(const std::function<void(uint32_t p)>& ready) {
  if (!status_.ok()) return;
  status_ = ScalesLoss() ? RunScaledBackward(ready) : RunBackward(ready);
}

Status CudaNet::RunBackward(const std::function<void(uint32_t p)>& ready) {
  if (!std::exchange(has_launched_backward_, false))
    TERN_RETURN_IF_ERROR(program_.LaunchBackward(*stream_, MakeTransfers()));
  return program_.AwaitBackward(MakeTransfers(), ready);
}

Status CudaNet::RunScaledBackward(const std::function<void(uint32_t p)>& ready) {
  while (true) {
    TERN_RETURN_IF_ERROR(RunBackward(nullptr));
    const Result<bool> has_overflowed = HasOverflowed();
    if (!has_overflowed.ok()) return has_overflowed.status();
    // The loop ends if no gradient has overflowed, or if the scale is the smallest. At the smallest
    // scale, the scale cannot be the cause of values that are not finite. They stay in the
    // gradients, and the code that encodes the gradients reports an error.
    if (!loss_scale_.UpdateAfterStep(*has_overflowed)) break;
    TERN_RETURN_IF_ERROR(RepeatForward());
  }
  for (size_t p = parameter_table_.parameters.size(); ready && p-- > 0;)
    ready(static_cast<uint32_t>(p));
  return Ok();
}

Result<bool> CudaNet::HasOverflowed() {
  uint32_t flag_value = 0;
  auto* device_flag = static_cast<uint32_t*>(overflow_flag_.get());
  TERN_RETURN_IF_ERROR(stream_->CopyIn(device_flag, &flag_value, sizeof flag_value));
  TERN_RETURN_IF_ERROR(
      device::CheckCuda(kernels::FindNotFiniteOnDevice(stream_->get(), gradients_.device(),
                                                       gradients_.num_elements, device_flag),
                        "the check of gradients"));
  TERN_RETURN_IF_ERROR(stream_->CopyOut(&flag_value, device_flag, sizeof flag_value));
  TERN_RETURN_IF_ERROR(stream_->Wait());
  return flag_value != 0;
}

Status CudaNet::RepeatForward() {
  host_step_.loss_scale = loss_scale_.scale();
  host_step_.inverse_scale = 1 / host_step_.loss_scale;
  TERN_RETURN_IF_ERROR(step_memory_.Upload(*stream_, host_step_, {}));
  TERN_RETURN_IF_ERROR(
      stream_->CopyIn(statistics_.device(), statistics_before_.data(), statistics_.bytes()));
  const Result<bool> is_complete = program_.LaunchForward(*stream_, MakeTransfers(), nullptr);
  return is_complete.ok() ? stream_->Wait() : is_complete.status();
}

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Net>> MakeCudaNet(const pb::NetDef& def, const Net::Options& options,
                                         const Net::Arenas& arenas) {
  auto net = std::make_unique<cuda::CudaNet>(def, options);
  TERN_RETURN_IF_ERROR(net->Plan(arenas));
  return std::unique_ptr<Net>(std::move(net));
}

std::vector<std::string> CudaLibraries() {
  return {device::CudaVersion(), cuda::ConvLibraryName()};
}

}  // namespace tern::engine
