// tern whiten: computes the weights of a job's first convolution from its training images.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "common/base/text.h"
#include "common/config/job.h"
#include "common/tensors/safetensors.h"
#include "setup/setup.h"
#include "tools/commands.h"
#include "tools/job_arguments.h"
#include "tools/whiten/whitening.h"
#include "worker/read_samples.h"

namespace tern::tools {
namespace {

constexpr uint32_t kMaxPatchElements = 1024;

Status BadLayer(const std::string& seen) {
  return Status(Code::kBadJob,
                Cat("tern whiten: ", seen,
                    "; expected a network whose first layer is a convolution of the images "
                    "(inputs: data) without groups and dilation, such as airbench94"));
}

// Returns the first layer, which must be a convolution that can whiten.
Result<const pb::LayerDef*> WhiteningLayer(const pb::NetDef& net) {
  const pb::LayerDef& layer = net.layers(0);
  const std::string name = Cat("layer \"", layer.name(), "\"");
  if (!layer.has_conv()) return BadLayer(Cat(name, " is no convolution"));
  const pb::ConvDef& conv = layer.conv();
  if (conv.groups() != 1 || conv.dilation() != 1)
    return BadLayer(Cat(name, " has groups or dilation"));
  const uint64_t elements = uint64_t{conv.kernel()} * conv.kernel() * net.input().channels();
  if (elements > kMaxPatchElements)
    return BadLayer(
        Cat(name, " has patches of ", elements, " elements, more than ", kMaxPatchElements));
  if (conv.outputs() % 2 != 0 || conv.outputs() > 2 * elements) {
    return BadLayer(Cat(name, " has ", conv.outputs(), " outputs, not an even number of at most ",
                        2 * elements, " (two for each element of a patch)"));
  }
  return &layer;
}

// Takes *num_images training images, evenly spaced, because the images of a folder lie class by
// class; or all if they are fewer. Then *num_images is their number.
Result<std::vector<float>> WeightsOf(const setup::Setup& setup, const pb::ConvDef& conv,
                                     uint64_t* num_images) {
  const pb::Job job = config::JobForRank(setup.job, 0);
  const auto samples = worker::ReadPlainTrainingSamples(setup, job);
  if (!samples.ok()) return samples.status();
  Whitening whitening(setup.net.input().channels(), conv.kernel(), conv.stride());
  data::Samples::Scratch scratch;
  std::vector<float> image((*samples)->image_size());
  uint32_t label = 0;
  const data::Size size = (*samples)->size();
  const uint64_t count = (*samples)->count();
  *num_images = std::min(*num_images, count);
  for (uint64_t i = 0; i < *num_images; ++i) {
    const uint64_t index = i * count / *num_images;
    TERN_RETURN_IF_ERROR((*samples)->FillFloats({0, index}, &scratch, image.data(), &label));
    if (label != data::Samples::kLeftOut) whitening.Add(image, size.height, size.width);
  }
  auto weights = whitening.Weights(conv.outputs());
  return weights.ok() ? std::move(weights) : weights.status().Within(job.data().dir());
}

// Returns the file to write, which must be new.
Result<std::string> NewFile(const pb::Model& model) {
  if (!model.has_weights()) {
    return Status(Code::kBadJob,
                  "tern whiten: the job has no model.weights; expected the file to write there");
  }
  std::error_code error;
  if (!std::filesystem::exists(model.weights(), error)) return model.weights();
  return Status(Code::kUsage, Cat("tern whiten: ", model.weights(),
                                  " (model.weights) exists; remove it, or name another file"));
}

}  // namespace

Status WhitenJob(const Arguments& arguments) {
  const auto asked_images = arguments.NumberValue("images", 1u << 31);
  if (!asked_images.ok()) return asked_images.status();
  if (*asked_images == 0)
    return Status(Code::kUsage, "--images: saw 0; allowed: a whole number, 1 or more");
  const auto setup = SetupOfJob(arguments);
  if (!setup.ok()) return setup.status();
  const auto layer = WhiteningLayer((*setup)->net);
  if (!layer.ok()) return layer.status();
  const Result<std::string> path = NewFile((*setup)->job.model());
  if (!path.ok()) return path.status();
  const pb::ConvDef& conv = (*layer)->conv();
  uint64_t num_images = *asked_images;
  const auto weights = WeightsOf(**setup, conv, &num_images);
  if (!weights.ok()) return weights.status();
  const std::filesystem::path folder = std::filesystem::path(*path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const std::string name = (*layer)->name() + ".weight";
  TERN_RETURN_IF_ERROR(tensors::WriteSafetensors(
      *path,
      {{name,
        {conv.outputs(), (*setup)->net.input().channels(), conv.kernel(), conv.kernel()},
        *weights}},
      {}));
  std::printf("%s: %s, from %llu images\n", path->c_str(), name.c_str(),
              static_cast<unsigned long long>(num_images));
  return Ok();
}

}  // namespace tern::tools
