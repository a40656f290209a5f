// Small data sets, IDX and gzip files, and temporary folders for the tests of worker/data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/data/samples.h"

namespace tern::data {

// The bytes of an IDX file (header and values) whose elements are unsigned bytes.
std::string IdxBytes(const std::vector<uint32_t>& dims, const std::vector<uint8_t>& values);
// Compresses the bytes in gzip format.
std::string Gzip(const std::string& bytes);

// `count` images of 2 x 3 pixels; image i has label i % 10 and pixels 6 i, 6 i + 1, ... modulo 256.
MemoryDataset SmallDataset(uint64_t count);
// Samples made from SmallDataset(count), with the settings `data` of a job.
std::unique_ptr<Samples> SmallSamples(uint64_t count, const pb::Data& data = {});
// Parses the `data` section of a job from protobuf's text format.
pb::Data ParseData(const std::string& text);

// A temporary folder. The destructor deletes it with its contents.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file and returns its path.
  std::string WriteFile(const std::string& name, const std::string& bytes) const;
  // Writes STEM-images-idx3-ubyte and STEM-labels-idx1-ubyte.
  void WriteImagesAndLabels(const std::string& stem, const std::string& images,
                            const std::string& labels) const;

 private:
  std::string path_;
};

}  // namespace tern::data
