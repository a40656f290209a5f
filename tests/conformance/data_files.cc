#include "tests/conformance/data_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/worker/data/image_files.h"
#include "worker/data/cifar.h"
#include "worker/data/packed.h"

namespace tern::data {
namespace {

constexpr uint32_t kSide = 32, kClasses = 3;

// Returns the properties of a format. A new format needs a line here.
FormatCase CaseOf(pb::Data::Format format, bool is_second_variant) {
  switch (format) {
    case pb::Data::idx:
      return {is_second_variant ? "idxgzip" : "idx",
              format,
              is_second_variant,
              true,
              false,
              std::nullopt};
    case pb::Data::cifar10:
      return {"cifar10", format, false, false, false, 10};
    case pb::Data::cifar100:
      return {"cifar100", format, false, false, false, 100};
    case pb::Data::folder:
      return {"folder", format, false, false, true, std::nullopt};
    case pb::Data::packed:
      return {is_second_variant ? "packedpixels" : "packed",
              format,
              is_second_variant,
              false,
              false,
              kClasses};
  }
  ADD_FAILURE() << "data.format " << format << " has no case";
  return {};
}

std::vector<std::string> WriteIdx(bool gzip, Split split, const Images& images,
                                  const TempFolder& folder) {
  std::vector<uint8_t> pixels, labels;
  for (const LabelledImage& labelled : images) {
    labels.push_back(static_cast<uint8_t>(labelled.label));
    const auto begin = labelled.image.pixels.begin();
    pixels.insert(pixels.end(), begin, begin + static_cast<ptrdiff_t>(labelled.image.plane()));
  }
  const auto count = static_cast<uint32_t>(images.size());
  const std::string stem = split == Split::kTrain ? "train" : "t10k", ending = gzip ? ".gz" : "";
  const auto compress = [gzip](const std::string& bytes) { return gzip ? Gzip(bytes) : bytes; };
  return {
      folder.WriteFile(stem + "-images-idx3-ubyte" + ending,
                       compress(IdxBytes({count, kSide, kSide}, pixels))),
      folder.WriteFile(stem + "-labels-idx1-ubyte" + ending, compress(IdxBytes({count}, labels)))};
}

// Writes an equal part of the images into each file of the format.
std::vector<std::string> WriteCifar(const CifarFormat& format, Split split, const Images& images,
                                    const TempFolder& folder) {
  std::istringstream file_list(split == Split::kTrain ? format.train_files : format.test_files);
  const std::vector<std::string> names{std::istream_iterator<std::string>(file_list), {}};
  std::vector<std::string> contents(names.size()), paths;
  for (size_t i = 0; i < images.size(); ++i) {
    std::string& bytes = contents[i * names.size() / images.size()];
    bytes.append(format.label_bytes - 1, '\7');  // CIFAR-100's coarse label, which Tern ignores.
    bytes += static_cast<char>(images[i].label);
    bytes.append(images[i].image.pixels.begin(), images[i].image.pixels.end());
  }
  for (size_t i = 0; i < names.size(); ++i)
    paths.push_back(folder.WriteFile(names[i], contents[i]));
  return paths;
}

std::vector<std::string> WriteFolder(Split split, const Images& images, const TempFolder& folder) {
  namespace fs = std::filesystem;
  const std::string name = split == Split::kTrain ? "train" : "test";
  fs::create_directories(folder.path() + "/" + name);
  std::vector<std::string> paths;
  for (size_t i = 0; i < images.size(); ++i) {
    const std::string label(1, static_cast<char>('a' + images[i].label));
    fs::create_directories(folder.path() + "/" + name + "/" + label);
    const std::string number = std::to_string(100 + i);
    paths.push_back(
        folder.WriteFile(name + "/" + label + "/" + number + ".png", EncodePng(images[i].image)));
  }
  if (paths.empty()) return {folder.path() + "/" + name};
  return paths;
}

std::vector<std::string> WritePacked(bool pixels, Split split, const Images& images,
                                     const TempFolder& folder) {
  const std::string path = folder.path() + (split == Split::kTrain ? "/train.tpk" : "/test.tpk");
  PackWriter::Properties properties;
  properties.is_encoded = !pixels;
  properties.channels = pixels ? 3 : 0;
  properties.classes = kClasses;
  auto writer = PackWriter::Make(path, properties);
  EXPECT_TRUE(writer.ok()) << writer.status().message();
  for (const LabelledImage& labelled : images) {
    const auto bytes = pixels ? labelled.image.pixels : AsVector(EncodePng(labelled.image));
    EXPECT_TRUE((*writer)->Add(bytes, labelled.label, {kSide, kSide}).ok());
  }
  EXPECT_TRUE((*writer)->Finish().ok());
  return {path};
}

}  // namespace

Images SomeImages(size_t count, bool is_gray, uint32_t seed) {
  Images images;
  for (size_t i = 0; i < count; ++i) {
    const auto label = static_cast<uint32_t>(i * kClasses / count);
    Image image = MakePicture(3, kSide, kSide, seed + static_cast<uint32_t>(i));
    for (size_t k = image.plane(); is_gray && k < image.pixels.size(); ++k)
      image.pixels[k] = image.pixels[k % image.plane()];
    images.push_back({label, std::move(image)});
  }
  return images;
}

std::vector<FormatCase> AllFormats() {
  std::vector<FormatCase> cases;
  const auto* formats = pb::Data::Format_descriptor();
  for (int i = 0; i < formats->value_count(); ++i) {
    const auto format = static_cast<pb::Data::Format>(formats->value(i)->number());
    cases.push_back(CaseOf(format, false));
    const FormatCase second_case = CaseOf(format, true);
    if (second_case.is_second_variant) cases.push_back(second_case);
  }
  return cases;
}

std::vector<std::string> WriteSplit(const FormatCase& format, Split split, const Images& images,
                                    const TempFolder& folder) {
  switch (format.format) {
    case pb::Data::idx:
      return WriteIdx(format.is_second_variant, split, images, folder);
    case pb::Data::cifar10:
      return WriteCifar(kCifar10, split, images, folder);
    case pb::Data::cifar100:
      return WriteCifar(kCifar100, split, images, folder);
    case pb::Data::folder:
      return WriteFolder(split, images, folder);
    case pb::Data::packed:
      return WritePacked(format.is_second_variant, split, images, folder);
  }
  ADD_FAILURE() << "data.format " << format.name << " has no writer";
  return {};
}

std::string BytesOfFile(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

}  // namespace tern::data
