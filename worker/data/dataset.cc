#include "worker/data/dataset.h"

#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "worker/data/cifar.h"
#include "worker/data/encoded.h"
#include "worker/data/folder.h"
#include "worker/data/idx.h"
#include "worker/data/packed.h"

namespace tern::data {
namespace {

using Read = Result<std::unique_ptr<Dataset>>;

// Reads one of the two files and checks that it has as many dimensions as its kind.
Result<IdxArray> ReadKind(const std::string& path, size_t dims, const char* kind,
                          const char* other_kind) {
  Result<IdxArray> array = ReadIdx(path);
  if (!array.ok() || array->dims.size() == dims) return array;
  const size_t seen = array->dims.size();
  const auto magic = [](size_t n) { return "0x0000080" + std::to_string(n); };
  const bool swapped = seen == (dims == 3 ? 1 : 3);
  return Status(Code::kBadData, path + ": holds " + std::to_string(seen) + " dimensions (" +
                                    magic(seen) + "), expected " + std::to_string(dims) + " for " +
                                    kind + " (" + magic(dims) + ")" +
                                    (swapped ? std::string("; it looks like ") + other_kind +
                                                   ": are images and labels swapped?"
                                             : ""));
}

Read ReadIdxDataset(const std::string& stem, uint64_t limit) {
  const std::string images_path = stem + "-images-idx3-ubyte";
  const std::string labels_path = stem + "-labels-idx1-ubyte";
  Result<IdxArray> images = ReadKind(images_path, 3, "images", "labels");
  if (!images.ok()) return images.status();
  Result<IdxArray> labels = ReadKind(labels_path, 1, "labels", "images");
  if (!labels.ok()) return labels.status();
  if (images->dims[0] != labels->dims[0]) {
    return Status(Code::kBadData, images_path + " holds " + std::to_string(images->dims[0]) +
                                      " images but " + labels_path + " " +
                                      std::to_string(labels->dims[0]) +
                                      " labels; expected as many: take both from one source");
  }
  auto dataset = std::make_unique<MemoryDataset>();
  dataset->file = images_path;
  dataset->channels = 1;
  dataset->height = images->dims[1];
  dataset->width = images->dims[2];
  dataset->classes = 1u + *std::max_element(labels->values.begin(), labels->values.end());
  dataset->pixels = std::move(images->values);
  dataset->labels.assign(labels->values.begin(), labels->values.end());
  if (limit > 0 && limit < dataset->count()) {
    dataset->labels.resize(limit);
    dataset->pixels.resize(limit * dataset->image_size());
    dataset->pixels.shrink_to_fit();
  }
  return Read(std::move(dataset));
}

}  // namespace

Status Dataset::Decode(uint64_t i, Image* image) const {
  const Size size = SizeOf(i);
  if (!encoded) {
    image->Resize(channels, size.height, size.width);
    return Read(i, &image->pixels);
  }
  std::vector<uint8_t> bytes;
  TERN_RETURN_IF_ERROR(Read(i, &bytes));
  TERN_RETURN_IF_ERROR(DecodeImage(bytes, channels, image).Within(NameOf(i)));
  if (image->height == size.height && image->width == size.width) return Ok();
  return Status(Code::kBadData,
                Cat(NameOf(i), ": is ", image->width, " x ", image->height, " pixels now, but was ",
                    size.width, " x ", size.height, " when the set was read; leave it alone"));
}

void Dataset::TakeSizes() {
  const bool alike = std::all_of(sizes.begin(), sizes.end(),
                                 [this](const Size& size) { return size == sizes.front(); });
  height = alike && !sizes.empty() ? sizes.front().height : 0;
  width = alike && !sizes.empty() ? sizes.front().width : 0;
}

std::string MemoryDataset::NameOf(uint64_t i) const { return Cat("image ", i, " of ", file); }

Status MemoryDataset::Read(uint64_t i, std::vector<uint8_t>* bytes) const {
  const uint8_t* image = pixels.data() + i * image_size();
  bytes->assign(image, image + image_size());
  return Ok();
}

Result<std::unique_ptr<Dataset>> ReadDataset(const pb::Data& data, Split split,
                                             const ReadOptions& options) {
  const bool train = split == Split::kTrain;
  const uint64_t limit = train ? data.train_limit() : data.test_limit();
  switch (data.format()) {
    case pb::Data::idx:
      return ReadIdxDataset(data.dir() + (train ? "/train" : "/t10k"), limit);
    case pb::Data::cifar10:
    case pb::Data::cifar100:
      return ReadCifar(data.dir(), data.format() == pb::Data::cifar10 ? kCifar10 : kCifar100, train,
                       limit);
    case pb::Data::folder:
      return ReadFolder(data, train, limit, options);
    case pb::Data::packed:
      return OpenPacked(data, train, limit, options);
  }
  return Status(Code::kBadJob, Cat("data.format: unknown value ", static_cast<int>(data.format())));
}

}  // namespace tern::data
