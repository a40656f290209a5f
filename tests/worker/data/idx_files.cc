#include "tests/worker/data/idx_files.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

namespace tern::data {

std::string IdxBytes(const std::vector<uint32_t>& dims, const std::vector<uint8_t>& values) {
  std::string bytes{0, 0, 8, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(dim >> shift);
  }
  bytes.append(values.begin(), values.end());
  return bytes;
}

std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

MemoryDataset SmallDataset(uint64_t count) {
  MemoryDataset dataset;
  dataset.channels = 1;
  dataset.height = 2;
  dataset.width = 3;
  dataset.classes = 10;
  for (uint64_t i = 0; i < count; ++i) {
    dataset.labels.push_back(static_cast<uint8_t>(i % 10));
    for (uint64_t x = 0; x < 6; ++x) dataset.pixels.push_back(static_cast<uint8_t>(6 * i + x));
  }
  return dataset;
}

std::unique_ptr<Samples> SmallSamples(uint64_t count, const pb::Data& data) {
  auto samples =
      Samples::Make(std::make_unique<MemoryDataset>(SmallDataset(count)), data, 1, Split::kTrain);
  EXPECT_TRUE(samples.ok()) << samples.status().message();
  return std::move(*samples);
}

pb::Data ParseData(const std::string& text) {
  pb::Data data;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &data)) << text;
  return data;
}

TempFolder::TempFolder() : path_(testing::TempDir() + "tern_data_XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no temporary folder at " << path_;
}

TempFolder::~TempFolder() {
  std::error_code ignored_error;
  std::filesystem::remove_all(path_, ignored_error);
}

std::string TempFolder::WriteFile(const std::string& name, const std::string& bytes) const {
  const std::string file_path = path_ + "/" + name;
  std::ofstream file(file_path, std::ios::binary);
  file << bytes;
  EXPECT_TRUE(file.flush()) << file_path;
  return file_path;
}

void TempFolder::WriteImagesAndLabels(const std::string& stem, const std::string& images,
                                      const std::string& labels) const {
  WriteFile(stem + "-images-idx3-ubyte", images);
  WriteFile(stem + "-labels-idx1-ubyte", labels);
}

}  // namespace tern::data
