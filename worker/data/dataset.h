// A set of images with labels. The set is read and checked once and constant afterwards, so any
// thread may read it.
//
// Images are stored either as pixels (formats idx, cifar, and packed files of pixels) or as JPEG
// and PNG (folders, and packed files of these), which are decoded at each use.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "worker/data/damaged_images.h"
#include "worker/data/image.h"

namespace tern::data {

struct Size {
  uint32_t height = 0, width = 0;
  friend bool operator==(const Size&, const Size&) = default;
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  uint32_t channels = 0;                 // The number of channels of a decoded image.
  uint32_t height = 0, width = 0;        // The size of every image; 0 if sizes differ.
  std::vector<Size> sizes;               // The size of each image; may be empty if all are equal.
  uint32_t classes = 0;                  // The number of classes; each label is less.
  std::vector<std::string> class_names;  // [classes] names of the classes, or empty.
  std::vector<uint32_t> labels;          // The label of each image.
  bool is_encoded = false;               // Whether Read returns JPEG or PNG; else pixels [C, H, W].
  std::shared_ptr<DamagedImages> damaged_images = std::make_shared<DamagedImages>(0);

  uint64_t count() const { return labels.size(); }
  uint64_t image_size() const { return uint64_t{channels} * height * width; }
  Size SizeOf(uint64_t i) const { return sizes.empty() ? Size{height, width} : sizes[i]; }

  // Returns what messages call image i: its path, or its number in a file.
  virtual std::string NameOf(uint64_t i) const = 0;
  // Reads the stored bytes of image i < count(). The message of kBadData names the image.
  virtual Status Read(uint64_t i, std::vector<uint8_t>* bytes) const = 0;
  // Reads image i as pixels. kBadData, with the image's name, if the image is damaged or its size
  // is not SizeOf(i).
  Status Decode(uint64_t i, Image* image) const;

 protected:
  // Sets height and width to the size of the images if all `sizes` are equal, else to 0.
  void SetCommonSize();
};

// A set of images of one size, stored as pixels in memory.
class MemoryDataset : public Dataset {
 public:
  std::string file = "the set";  // What NameOf calls the data set in an image's name.
  std::vector<uint8_t> pixels;   // [count, C, H, W]

  std::string NameOf(uint64_t i) const override;
  Status Read(uint64_t i, std::vector<uint8_t>* bytes) const override;
};

// Which set of the job's data: the training or the test set.
enum class Split { kTrain, kTest };

struct ReadOptions {
  uint32_t channels = 3;  // To how many channels JPEG and PNG images are decoded: 1 or 3.
  // Called while a folder is scanned, on the thread that reads the set: `done` images of `total`
  // are scanned.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
  WarningFunction warn = nullptr;  // Receives warnings about damaged images and skipped files.
  // How the user sets the number of damaged images that are allowed, for an error message.
  const char* max_damaged_name = "data.max_corrupt";
};

}  // namespace tern::data
