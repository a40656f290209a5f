// Packed sets, train.tpk and test.tpk: one file with the images of a split, as JPEG and PNG or as
// pixels, and an index. All numbers are little-endian.
//
//   header, 96 bytes:
//      0  char[8]  "TERNPACK"
//      8  u32      version, 1
//     12  u32      1: encoded, 0: pixels
//     16  u64      number of images
//     24  u32      number of classes
//     28  u32      channels of pixels, or 0
//     32  u64      offset of the index
//     40  u64      bytes of the index
//     48  u64      offset of the names
//     56  u64      bytes of the names
//     64  u64      digest of the index
//     72  u64      digest of the names
//     80  u64      bytes of the file
//     88  u64      digest of the header up to here
//   records: the bytes of each image, one after the other
//   index, 32 bytes per image:
//      0  u64      offset of its bytes
//      8  u32      number of its bytes
//     12  u32      label
//     16  u32      height
//     20  u32      width
//     24  u64      digest of its bytes
//   names of the classes: length (u32) and bytes of each; nothing if they have none
//
// Digests are those of common/base/hash.h. Packing the same images gives the same file.
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

// Opens DIR/train.tpk or DIR/test.tpk: reads and checks the header, the index and the names; images
// are read, and checked by their digests, on use. kBadData: not a packed file, another version,
// truncated, or inconsistent.
Result<std::unique_ptr<Dataset>> OpenPacked(const pb::Data& data, bool train, uint64_t limit,
                                            const ReadOptions& options);

// Writes one file, under a temporary name until it is complete. One thread.
class PackWriter {
 public:
  // Properties of all images.
  struct Properties {
    bool encoded = true;
    uint32_t channels = 0;  // of pixels
    uint32_t classes = 0;
    std::vector<std::string> names;  // [classes], or empty
  };
  // kCannotWrite: the file cannot be created.
  static Result<std::unique_ptr<PackWriter>> Make(const std::string& path,
                                                  const Properties& properties);
  ~PackWriter();  // removes an unfinished file
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  Status Add(std::span<const uint8_t> bytes, uint32_t label, Size size);
  // Writes the index, names and header, and renames the file.
  Status Finish();
  uint64_t count() const { return entries_.size(); }
  uint64_t bytes() const { return at_; }

 private:
  PackWriter(std::string path, Properties properties);
  Status Write(std::span<const uint8_t> bytes);
  Status Failed() const;

  const std::string path_, temporary_;
  const Properties properties_;
  std::FILE* file_ = nullptr;
  uint64_t at_ = 0;
  std::vector<PackedEntry> entries_;
};

}  // namespace tern::data
