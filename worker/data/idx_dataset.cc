#include "worker/data/idx_dataset.h"

#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "worker/data/idx.h"

namespace tern::data {
namespace {

// Reads an IDX file and checks that it has `expected_dims` dimensions. `kind` says what the file
// should contain ("images" or "labels"), and `other_kind` what it contains if images and labels are
// swapped.
Result<IdxArray> ReadArray(const std::string& path, size_t expected_dims, const char* kind,
                           const char* other_kind) {
  Result<IdxArray> array = ReadIdx(path);
  if (!array.ok() || array->dims.size() == expected_dims) return array;
  const size_t found_dims = array->dims.size();
  const auto magic_text = [](size_t n) { return "0x0000080" + std::to_string(n); };
  const bool is_swapped = found_dims == (expected_dims == 3 ? 1 : 3);
  return Status(Code::kBadData, path + ": holds " + std::to_string(found_dims) + " dimensions (" +
                                    magic_text(found_dims) + "), expected " +
                                    std::to_string(expected_dims) + " for " + kind + " (" +
                                    magic_text(expected_dims) + ")" +
                                    (is_swapped ? std::string("; it looks like ") + other_kind +
                                                      ": are images and labels swapped?"
                                                : ""));
}

}  // namespace

Result<std::unique_ptr<Dataset>> ReadIdxDataset(const std::string& stem, uint64_t limit) {
  const std::string images_path = stem + "-images-idx3-ubyte";
  const std::string labels_path = stem + "-labels-idx1-ubyte";
  Result<IdxArray> images = ReadArray(images_path, 3, "images", "labels");
  if (!images.ok()) return images.status();
  Result<IdxArray> labels = ReadArray(labels_path, 1, "labels", "images");
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
  return Result<std::unique_ptr<Dataset>>(std::move(dataset));
}

}  // namespace tern::data
