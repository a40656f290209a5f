// tern convert pack: packs a data set into two files that a worker can open without scanning every
// image.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

#include "common/base/signals.h"
#include "common/base/text.h"
#include "proto/job.pb.h"
#include "tools/commands.h"
#include "tools/run/progress_bar.h"
#include "worker/data/dataset.h"
#include "worker/data/datasets.h"
#include "worker/data/packed.h"
#include "worker/data/parallel.h"

namespace tern::tools {
namespace {

constexpr uint64_t kImagesPerBatch = 256;  // This many images are read in parallel, then written.

// The bytes of an image in the packed file, or the error because of which it is left out.
struct PackedImage {
  std::vector<uint8_t> bytes;
  Status read_status;
};

Status WriteBatch(const data::Dataset& dataset, uint64_t begin,
                  const std::vector<PackedImage>& batch, data::PackWriter* writer) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const uint64_t image_index = begin + i;
    if (batch[i].read_status.ok()) {
      TERN_RETURN_IF_ERROR(
          writer->Add(batch[i].bytes, dataset.labels[image_index], dataset.SizeOf(image_index)));
    } else {
      TERN_RETURN_IF_ERROR(
          dataset.damaged_images->Add(dataset.NameOf(image_index), batch[i].read_status));
    }
  }
  return Ok();
}

// Packs the images of `dataset`. Decodes each image completely, so that a packed file holds no
// damaged image.
Status PackImages(const data::Dataset& dataset, uint32_t num_threads, const StopSignals& signals,
                  ProgressBar* progress_bar, data::PackWriter* writer) {
  for (uint64_t begin = 0; begin < dataset.count(); begin += kImagesPerBatch) {
    TERN_RETURN_IF_ERROR(signals.status());
    const uint64_t end = std::min(begin + kImagesPerBatch, dataset.count());
    std::vector<PackedImage> batch(end - begin);
    data::ParallelFor(begin, end, num_threads, [&](uint64_t i) {
      PackedImage& packed_image = batch[i - begin];
      data::Image image;
      packed_image.read_status = dataset.Decode(i, &image);
      if (packed_image.read_status.ok())
        packed_image.read_status = dataset.Read(i, &packed_image.bytes);
    });
    TERN_RETURN_IF_ERROR(WriteBatch(dataset, begin, batch, writer));
    progress_bar->ShowProgress(end, dataset.count());
  }
  return Ok();
}

// Packs one split. Returns the complete file, still under its temporary name.
Result<std::unique_ptr<data::PackWriter>> PackSplit(const pb::Data& data_def, data::Split split,
                                                    const std::string& path,
                                                    const StopSignals& signals) {
  const std::string name = split == data::Split::kTrain ? "train" : "test ";
  auto progress_bar = std::make_unique<ProgressBar>(name + " scan", "images");
  data::ReadOptions options;
  options.max_damaged_name = "--max_corrupt";
  options.progress = [&](uint64_t done, uint64_t total) {
    progress_bar->ShowProgress(done, total);
  };
  options.warn = [&](const std::string& sentence) { progress_bar->PrintLine(sentence); };
  const auto read_dataset = data::ReadDataset(data_def, split, options);
  if (!read_dataset.ok()) return read_dataset.status();
  const data::Dataset& dataset = **read_dataset;
  auto writer =
      data::PackWriter::Make(path, {dataset.is_encoded, dataset.is_encoded ? 0 : dataset.channels,
                                    dataset.classes, dataset.class_names});
  if (!writer.ok()) return writer;
  progress_bar = std::make_unique<ProgressBar>(name + " pack", "images");
  TERN_RETURN_IF_ERROR(
      PackImages(dataset, data_def.threads(), signals, progress_bar.get(), writer->get()));
  const uint64_t packed_count = (*writer)->count();
  if (packed_count == 0)
    return Status(Code::kBadData, Cat(data_def.dir(), ": all images are damaged; nothing to pack"));
  TERN_RETURN_IF_ERROR((*writer)->Complete());
  std::printf("%s: %s images in %u classes, %s, %s damaged ones left out\n", path.c_str(),
              Cat(packed_count).c_str(), dataset.classes, HumanBytes((*writer)->bytes()).c_str(),
              Cat(dataset.damaged_images->count()).c_str());
  return writer;
}

Status SetFormat(const std::string& name, pb::Data* data_def) {
  pb::Data::Format format = pb::Data::folder;
  if (!pb::Data::Format_Parse(name, &format) || format == pb::Data::packed) {
    return Status(Code::kUsage, Cat("--format: saw '", Printable(name),
                                    "'; allowed: folder, cifar10, cifar100, idx"));
  }
  data_def->set_format(format);
  return Ok();
}

}  // namespace

Status ConvertPack(const Arguments& arguments) {
  pb::Data data_def;
  data_def.set_dir(arguments.positional()[0]);
  TERN_RETURN_IF_ERROR(SetFormat(arguments.LastValue("format"), &data_def));
  const auto max_corrupt = arguments.NumberValue("max_corrupt", 1u << 31);
  if (!max_corrupt.ok()) return max_corrupt.status();
  data_def.set_max_corrupt(*max_corrupt);
  const uint32_t num_cores = std::max(1u, std::thread::hardware_concurrency());
  const Result<uint32_t> threads = arguments.HasFlag("threads")
                                       ? arguments.NumberValue("threads", 256)
                                       : std::min(num_cores, 256u);
  if (!threads.ok()) return threads.status();
  data_def.set_threads(std::max(*threads, 1u));
  const std::string& out_folder = arguments.positional()[1];
  std::error_code error;
  std::filesystem::create_directories(out_folder, error);
  if (error)
    return Status(Code::kCannotWrite,
                  Cat(out_folder, ": cannot create the folder (", error.message(), ")"));
  const StopSignals signals;
  const auto train = PackSplit(data_def, data::Split::kTrain, out_folder + "/train.tpk", signals);
  if (!train.ok()) return train.status();
  const auto test = PackSplit(data_def, data::Split::kTest, out_folder + "/test.tpk", signals);
  if (!test.ok()) return test.status();
  // Both or none, because their classes must be the same.
  TERN_RETURN_IF_ERROR((*train)->Finish());
  return (*test)->Finish();
}

}  // namespace tern::tools
