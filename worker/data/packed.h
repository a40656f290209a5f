// Packed data sets: train.tpk and test.tpk. Each file contains the images of the training or test
// set, encoded as JPEG and PNG or as pixels, and an index of them. All numbers are little-endian.
//
//   header, 96 bytes:
//      0  char[8]  "TERNPACK"
//      8  u32      version, 1
//     12  u32      1: images are JPEG or PNG; 0: images are pixels
//     16  u64      number of images
//     24  u32      number of classes
//     28  u32      channels, if images are pixels; else 0
//     32  u64      offset of the index
//     40  u64      bytes of the index
//     48  u64      offset of the class names
//     56  u64      bytes of the class names
//     64  u64      digest of the index
//     72  u64      digest of the class names
//     80  u64      bytes of the file
//     88  u64      digest of bytes 0 to 87 of the header
//   records: the bytes of each image, one after the other
//   index, 32 bytes per image:
//      0  u64      offset of its bytes
//      8  u32      number of its bytes
//     12  u32      label
//     16  u32      height
//     20  u32      width
//     24  u64      digest of its bytes
//   class names: length (u32) and bytes of each; nothing if the classes have no names
//
// Digests are 64-bit hashes (common/base/hash.h). Packing the same images gives the same file.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/dataset.h"
#include "worker/data/packed_form.h"

namespace tern::data {

// Opens DIR/train.tpk (`is_training`) or DIR/test.tpk, and uses its first `limit` images (0: all).
// Reads and checks the header, the index and the class names; an image is read, and checked by its
// digest, when it is used. kBadData if the file is not a packed file, has another version, is
// truncated, or is inconsistent.
Result<std::unique_ptr<Dataset>> OpenPacked(const pb::Data& data, bool is_training, uint64_t limit,
                                            const ReadOptions& options);

// Writes one packed file, under a temporary name until it is complete. Only one thread at a time
// may use a PackWriter.
class PackWriter {
 public:
  // Properties of the data set that the file will contain.
  struct Properties {
    bool is_encoded = true;  // Whether images are JPEG or PNG; else they are pixels.
    uint32_t channels = 0;   // The number of channels, if images are pixels.
    uint32_t classes = 0;
    std::vector<std::string> class_names;  // [classes] names of the classes, or empty.
  };
  // kCannotWrite if the file cannot be created.
  static Result<std::unique_ptr<PackWriter>> Make(const std::string& path,
                                                  const Properties& properties);
  ~PackWriter();  // Removes the temporary file if Finish has not succeeded.
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  // Appends an image: its bytes as stored, its label, and the size of the decoded image.
  Status Add(std::span<const uint8_t> bytes, uint32_t label, Size size);
  // Writes the index, the class names and the header, after the last image.
  Status Complete();
  // Completes the file if it is not complete, and renames it to its final name.
  Status Finish();
  uint64_t count() const { return entries_.size(); }     // The number of images so far.
  uint64_t bytes() const { return num_bytes_written_; }  // The number of bytes written so far.

 private:
  PackWriter(std::string path, Properties properties);
  Status Write(std::span<const uint8_t> bytes);
  Status ErrorFromErrno() const;  // The error that errno describes.

  const std::string path_, temporary_path_;
  const Properties properties_;
  std::FILE* file_ = nullptr;  // null: the file is complete
  bool is_here_ = false;       // whether there is a file of the temporary name
  uint64_t num_bytes_written_ = 0;
  std::vector<PackedEntry> entries_;
};

}  // namespace tern::data
