// A set of images with labels. Read and checked once; constant afterwards, so any thread may read
// it.
//
// Images are pixels in memory (idx, cifar, packed pixels), or encoded (a folder, packed JPEG and
// PNG) and decoded at each use.
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

  uint32_t channels = 0;           // of a decoded image
  uint32_t height = 0, width = 0;  // of all images; 0 if they differ
  std::vector<Size> sizes;         // [count]; empty: each is height x width
  uint32_t classes = 0;            // more than any label; without names, the largest label + 1
  std::vector<std::string> names;  // [classes], or empty
  std::vector<uint32_t> labels;    // [count]
  bool encoded = false;            // Read returns JPEG or PNG; else pixels [C, H, W]
  std::shared_ptr<DamagedImages> damaged = std::make_shared<DamagedImages>(0);

  uint64_t count() const { return labels.size(); }
  uint64_t image_size() const { return uint64_t{channels} * height * width; }
  Size SizeOf(uint64_t i) const { return sizes.empty() ? Size{height, width} : sizes[i]; }

  // Names the image for messages: a path, or its number in a file.
  virtual std::string NameOf(uint64_t i) const = 0;
  // Reads the stored bytes of image i < count(). kBadData names it.
  virtual Status Read(uint64_t i, std::vector<uint8_t>* bytes) const = 0;
  // Reads image i as pixels. kBadData names the image: it is damaged, or its size is not sizes[i].
  Status Decode(uint64_t i, Image* image) const;

 protected:
  // Sets height and width from `sizes`, if all are equal.
  void SetCommonSize();
};

// A set in memory, of images of one size.
class MemoryDataset : public Dataset {
 public:
  std::string file = "the set";  // for NameOf
  std::vector<uint8_t> pixels;   // [count, C, H, W]

  std::string NameOf(uint64_t i) const override;
  Status Read(uint64_t i, std::vector<uint8_t>* bytes) const override;
};

enum class Split { kTrain, kTest };

struct ReadOptions {
  uint32_t channels = 3;  // of decoded JPEG and PNG images: 1 or 3
  // Reports how many of a folder's images are scanned; called on the thread that reads.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
  Warn warn = nullptr;  // for damaged images and skipped files
};

}  // namespace tern::data
