// Packed sets, train.tpk and test.tpk: one file with the images of a split, as JPEG and PNG or as
// pixels, and an index of them. All numbers little-endian.
//
//   header, 96 bytes:
//      0  "TERNPACK"            8  version (u32), 1           12  1: encoded, 0: pixels (u32)
//     16  images (u64)         24  classes (u32)              28  channels of pixels (u32), or 0
//     32  where the index begins (u64)                        40  bytes of the index (u64)
//     48  where the names begin (u64)                         56  bytes of the names (u64)
//     64  digest of the index (u64)                           72  digest of the names (u64)
//     80  bytes of the file (u64)                             88  digest of the header before (u64)
//   records: the bytes of each image, one behind the other
//   index, 32 bytes an image:
//      0  where its bytes begin (u64)    8  how many (u32)    12  label (u32)
//     16  height (u32)                  20  width (u32)       24  digest of its bytes (u64)
//   names of the classes: bytes of each (u32), and these; nothing where they have none
//
// Digests are those of common/base/hash.h. The same images give the same file.
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

namespace tern::data {

inline constexpr char kPackedMagic[] = "TERNPACK";
inline constexpr uint32_t kPackedVersion = 1;
inline constexpr size_t kPackedHeader = 96, kPackedEntry = 32;

struct PackedEntry {
  uint64_t offset = 0;
  uint32_t bytes = 0, label = 0;
  uint32_t height = 0, width = 0;
  uint64_t digest = 0;
};

// Opens DIR/train.tpk or DIR/test.tpk: reads and checks the header, the index and the names; images
// are read, and checked by their digests, when they are asked for. kBadData: not such a file,
// another version, truncated, or anything that does not fit together.
Result<std::unique_ptr<Dataset>> OpenPacked(const pb::Data& data, bool train, uint64_t limit,
                                            const ReadOptions& options);

// Writes one file, under another name until it is whole. One thread.
class PackWriter {
 public:
  // What holds for all images.
  struct Kind {
    bool encoded = true;
    uint32_t channels = 0;  // of pixels
    uint32_t classes = 0;
    std::vector<std::string> names;  // [classes], or empty
  };
  // kCannotWrite: the file cannot be made.
  static Result<std::unique_ptr<PackWriter>> Make(const std::string& path, const Kind& kind);
  ~PackWriter();  // what is not finished is removed
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  Status Add(std::span<const uint8_t> bytes, uint32_t label, Size size);
  // Writes the rest, and gives the file its name.
  Status Finish();
  uint64_t count() const { return entries_.size(); }
  uint64_t bytes() const { return at_; }

 private:
  PackWriter(std::string path, Kind kind);
  Status Write(std::span<const uint8_t> bytes);
  Status Failed() const;

  const std::string path_, temporary_;
  const Kind kind_;
  std::FILE* file_ = nullptr;
  uint64_t at_ = 0;
  std::vector<PackedEntry> entries_;
};

}  // namespace tern::data
