#include "worker/data/cifar.h"

#include <sstream>
#include <utility>

#include "common/base/text.h"
#include "worker/data/files.h"

namespace tern::data {
namespace {

constexpr uint32_t kSide = 32, kChannels = 3;
constexpr size_t kImageBytes = size_t{kChannels} * kSide * kSide;
constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;

}  // namespace

Status ParseCifar(const std::vector<uint8_t>& bytes, const CifarFormat& format,
                  const std::string& name, MemoryDataset* dataset) {
  const size_t record_bytes = format.label_bytes + kImageBytes;
  if (bytes.empty() || bytes.size() % record_bytes != 0) {
    return Status(Code::kBadData,
                  Cat(name, ": ", bytes.size(), " bytes; expected a multiple of ", record_bytes,
                      " (", format.label_bytes, " of labels and 3 x 32 x 32 pixels) for CIFAR-",
                      format.classes, "; get it again, or check data.format"));
  }
  for (size_t offset = 0; offset < bytes.size(); offset += record_bytes) {
    const uint8_t* image_bytes = bytes.data() + offset + format.label_bytes;
    const uint32_t label = image_bytes[-1];
    if (label >= format.classes) {
      return Status(Code::kBadData,
                    Cat(name, ": image ", offset / record_bytes, " has label ", label,
                        "; expected 0 to ", format.classes - 1, " for CIFAR-", format.classes,
                        "; get it again, or check data.format"));
    }
    dataset->labels.push_back(label);
    dataset->pixels.insert(dataset->pixels.end(), image_bytes, image_bytes + kImageBytes);
  }
  return Ok();
}

Result<std::unique_ptr<Dataset>> ReadCifar(const std::string& dir, const CifarFormat& format,
                                           bool is_training, uint64_t limit) {
  auto dataset = std::make_unique<MemoryDataset>();
  dataset->file = Cat(dir, is_training ? " (training)" : " (test)");
  dataset->channels = kChannels;
  dataset->height = dataset->width = kSide;
  dataset->classes = format.classes;
  std::istringstream file_names(is_training ? format.train_files : format.test_files);
  std::vector<uint8_t> bytes;
  for (std::string file_name; file_names >> file_name;) {
    const std::string path = dir + "/" + file_name;
    TERN_RETURN_IF_ERROR(
        ReadWholeFile(path, Cat("a binary file of CIFAR-", format.classes), kMaxFileBytes, &bytes));
    TERN_RETURN_IF_ERROR(ParseCifar(bytes, format, path, dataset.get()));
  }
  if (limit > 0 && limit < dataset->count()) {
    dataset->labels.resize(limit);
    dataset->pixels.resize(limit * kImageBytes);
    dataset->pixels.shrink_to_fit();
  }
  return Result<std::unique_ptr<Dataset>>(std::move(dataset));
}

}  // namespace tern::data
