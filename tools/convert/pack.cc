// tern convert pack: packs a data set into two files that a worker can open without scanning every
// image.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

#include "common/base/text.h"
#include "proto/job.pb.h"
#include "tools/arguments.h"
#include "tools/convert/convert.h"
#include "tools/run/progress_bar.h"
#include "worker/data/dataset.h"
#include "worker/data/datasets.h"
#include "worker/data/packed.h"
#include "worker/data/parallel.h"

namespace tern::tools {
namespace {

constexpr const char* kUsage =
    "tern convert pack DIR OUT_DIR [--format folder | cifar10 | cifar100 | idx] [--max_corrupt N] "
    "[--threads N]";
constexpr uint64_t kBatchImages = 256;  // These many images are read in parallel, then written.

// The bytes of an image in the packed file, or the error for which the image is left out.
struct PackedImage {
  std::vector<uint8_t> bytes;
  Status status;
};

Status WriteBatch(const data::Dataset& set, uint64_t begin, const std::vector<PackedImage>& batch,
                  data::PackWriter* writer) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const uint64_t image = begin + i;
    if (batch[i].status.ok()) {
      TERN_RETURN_IF_ERROR(writer->Add(batch[i].bytes, set.labels[image], set.SizeOf(image)));
    } else {
      TERN_RETURN_IF_ERROR(set.damaged->Add(set.NameOf(image), batch[i].status));
    }
  }
  return Ok();
}

// Packs all images of `set`. Decodes each one completely, so that a packed file holds no damaged
// image.
Status Pack(const data::Dataset& set, uint32_t threads, ProgressBar* bar,
            data::PackWriter* writer) {
  for (uint64_t begin = 0; begin < set.count(); begin += kBatchImages) {
    const uint64_t end = std::min(begin + kBatchImages, set.count());
    std::vector<PackedImage> batch(end - begin);
    data::ParallelFor(begin, end, threads, [&](uint64_t i) {
      PackedImage& packed = batch[i - begin];
      data::Image image;
      packed.status = set.Decode(i, &image);
      if (packed.status.ok()) packed.status = set.Read(i, &packed.bytes);
    });
    TERN_RETURN_IF_ERROR(WriteBatch(set, begin, batch, writer));
    bar->Show(end, set.count());
  }
  return Ok();
}

Status PackSplit(const pb::Data& data, data::Split split, const std::string& path) {
  const std::string name = split == data::Split::kTrain ? "train" : "test ";
  auto bar = std::make_unique<ProgressBar>(name + " scan", "images");
  data::ReadOptions options;
  options.progress = [&](uint64_t done, uint64_t total) { bar->Show(done, total); };
  options.warn = [&](const std::string& sentence) { bar->PrintLine(sentence); };
  const auto set = data::ReadDataset(data, split, options);
  if (!set.ok()) return set.status();
  const data::Dataset& images = **set;
  auto writer = data::PackWriter::Make(
      path, {images.encoded, images.encoded ? 0 : images.channels, images.classes, images.names});
  if (!writer.ok()) return writer.status();
  bar = std::make_unique<ProgressBar>(name + " pack", "images");
  TERN_RETURN_IF_ERROR(Pack(images, data.threads(), bar.get(), writer->get()));
  const uint64_t count = (*writer)->count();
  if (count == 0)
    return Status(Code::kBadData, Cat(data.dir(), ": all images are damaged; nothing to pack"));
  TERN_RETURN_IF_ERROR((*writer)->Finish());
  std::printf("%s: %s images in %u classes, %s, %s damaged ones left out\n", path.c_str(),
              Cat(count).c_str(), images.classes, HumanBytes((*writer)->bytes()).c_str(),
              Cat(images.damaged->count()).c_str());
  return Ok();
}

Status SetFormat(const std::string& name, pb::Data* data) {
  pb::Data::Format format = pb::Data::folder;
  if (!pb::Data::Format_Parse(name, &format) || format == pb::Data::packed) {
    return Status(Code::kUsage, Cat("--format: saw '", Printable(name),
                                    "'; allowed: folder, cifar10, cifar100, idx\nusage: ", kUsage));
  }
  data->set_format(format);
  return Ok();
}

}  // namespace

Status ConvertPack(const Args& args) {
  const Result<Arguments> arguments =
      Arguments::Parse(args, {{"format"}, {"max_corrupt"}, {"threads"}}, kUsage);
  if (!arguments.ok()) return arguments.status();
  if (arguments->positional().size() != 2) {
    return Status(Code::kUsage, Cat("saw ", arguments->positional().size(),
                                    " folders, expected two: the folder of the images and the "
                                    "folder for the packed files\nusage: ",
                                    kUsage));
  }
  pb::Data data;
  data.set_dir(arguments->positional()[0]);
  TERN_RETURN_IF_ERROR(SetFormat(arguments->Last("format", "folder"), &data));
  const auto max_corrupt = arguments->Number("max_corrupt", 0, 1u << 31);
  if (!max_corrupt.ok()) return max_corrupt.status();
  data.set_max_corrupt(*max_corrupt);
  const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  const auto threads = arguments->Number("threads", std::min(cores, 256u), 256);
  if (!threads.ok()) return threads.status();
  data.set_threads(std::max(*threads, 1u));
  const std::string& out = arguments->positional()[1];
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error)
    return Status(Code::kCannotWrite,
                  Cat(out, ": cannot create the folder (", error.message(), ")"));
  TERN_RETURN_IF_ERROR(PackSplit(data, data::Split::kTrain, out + "/train.tpk"));
  return PackSplit(data, data::Split::kTest, out + "/test.tpk");
}

}  // namespace tern::tools
