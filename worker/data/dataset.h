// A set of images with labels. Read and checked once; constant afterwards, so any thread may read.
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
#include "worker/data/corrupt.h"
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
  std::vector<Size> sizes;         // [count] if images are encoded, else empty
  uint32_t classes = 0;            // above all labels; without names 1 + the largest label
  std::vector<std::string> names;  // [classes], or empty
  std::vector<uint32_t> labels;    // [count]
  bool encoded = false;            // Read returns JPEG or PNG; else pixels [C, H, W]
  std::shared_ptr<Corrupt> corrupt = std::make_shared<Corrupt>(0);

  uint64_t count() const { return labels.size(); }
  uint64_t image_size() const { return uint64_t{channels} * height * width; }
  Size SizeOf(uint64_t i) const { return sizes.empty() ? Size{height, width} : sizes[i]; }

  // How a user finds the image: a path, or a place in a file.
  virtual std::string NameOf(uint64_t i) const = 0;
  // Reads the stored bytes of image i < count(). kBadData names it.
  virtual Status Read(uint64_t i, std::vector<uint8_t>* bytes) const = 0;
  // Reads image i as pixels. kBadData names it: damaged, or not of the size that the scan saw.
  Status Decode(uint64_t i, Image* image) const;

 protected:
  // Sets height and width from `sizes`, if all are equal.
  void TakeSizes();
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
