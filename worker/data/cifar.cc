#include "worker/data/cifar.h"

#include <sstream>
#include <utility>

#include "common/base/text.h"
#include "worker/data/files.h"

namespace tern::data {
namespace {

constexpr uint32_t kSide = 32, kChannels = 3;
constexpr size_t kPixels = size_t{kChannels} * kSide * kSide;
constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

}  // namespace

Status ParseCifar(const std::vector<uint8_t>& bytes, const CifarFormat& form,
                  const std::string& name, MemoryDataset* dataset) {
  const size_t record = form.label_bytes + kPixels;
  if (bytes.empty() || bytes.size() % record != 0) {
    return Status(Code::kBadData,
                  Cat(name, ": ", bytes.size(), " bytes; expected a multiple of ", record, " (",
                      form.label_bytes, " of labels and 3 x 32 x 32 pixels) for CIFAR-",
                      form.classes, "; get it again, or check data.format"));
  }
  for (size_t offset = 0; offset < bytes.size(); offset += record) {
    const uint8_t* pixels = bytes.data() + offset + form.label_bytes;
    const uint32_t label = pixels[-1];
    if (label >= form.classes) {
      return Status(Code::kBadData, Cat(name, ": image ", offset / record, " has label ", label,
                                        "; expected 0 to ", form.classes - 1, " for CIFAR-",
                                        form.classes, "; get it again, or check data.format"));
    }
    dataset->labels.push_back(label);
    dataset->pixels.insert(dataset->pixels.end(), pixels, pixels + kPixels);
  }
  return Ok();
}

Result<std::unique_ptr<Dataset>> ReadCifar(const std::string& dir, const CifarFormat& form,
                                           bool train, uint64_t limit) {
  auto dataset = std::make_unique<MemoryDataset>();
  dataset->file = Cat(dir, train ? " (training)" : " (test)");
  dataset->channels = kChannels;
  dataset->height = dataset->width = kSide;
  dataset->classes = form.classes;
  std::istringstream files(train ? form.train_files : form.test_files);
  std::vector<uint8_t> bytes;
  for (std::string file; files >> file;) {
    const std::string path = dir + "/" + file;
    TERN_RETURN_IF_ERROR(
        ReadWholeFile(path, Cat("a binary file of CIFAR-", form.classes), kMaxBytes, &bytes));
    TERN_RETURN_IF_ERROR(ParseCifar(bytes, form, path, dataset.get()));
  }
  if (limit > 0 && limit < dataset->count()) {
    dataset->labels.resize(limit);
    dataset->pixels.resize(limit * kPixels);
    dataset->pixels.shrink_to_fit();
  }
  return Result<std::unique_ptr<Dataset>>(std::move(dataset));
}

}  // namespace tern::data
