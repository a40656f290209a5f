// Fuzzes the reader of packed data sets. The digests of a changed file would not match, and hide
// the code behind their check. So the target makes them match: of the header, the index, the class
// names and the images.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "worker/data/packed.h"

namespace {

using tern::data::kPackedEntryBytes;
using tern::data::kPackedHeaderBytes;
using tern::data::PackedEntry;
using tern::data::PackedHeader;

// A folder for the file, deleted at the end of the program.
class TestFolder {
 public:
  TestFolder() : path_(std::filesystem::temp_directory_path() / "tern_packed_fuzz_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

bool IsInside(const std::string& bytes, uint64_t begin, uint64_t count) {
  return begin <= bytes.size() && count <= bytes.size() - begin;
}

uint64_t DigestOf(const std::string& bytes, uint64_t begin, uint64_t count) {
  return tern::Digest(std::string_view(bytes).substr(begin, count));
}

// Sets all digests in the file to those of its bytes, as far as the sections are inside the file.
void RepairDigests(std::string* bytes) {
  if (bytes->size() < kPackedHeaderBytes) return;
  PackedHeader header;
  std::memcpy(&header, bytes->data(), sizeof header);
  std::memcpy(header.magic, tern::data::kPackedMagic, sizeof header.magic);
  header.version = tern::data::kPackedVersion;
  header.file_bytes = bytes->size();
  if (IsInside(*bytes, header.index_begin, header.index_bytes)) {
    for (uint64_t at = 0; at + kPackedEntryBytes <= header.index_bytes; at += kPackedEntryBytes) {
      PackedEntry entry;
      std::memcpy(&entry, bytes->data() + header.index_begin + at, sizeof entry);
      if (IsInside(*bytes, entry.offset, entry.bytes))
        entry.digest = DigestOf(*bytes, entry.offset, entry.bytes);
      std::memcpy(bytes->data() + header.index_begin + at, &entry, sizeof entry);
    }
    header.index_digest = DigestOf(*bytes, header.index_begin, header.index_bytes);
  }
  if (IsInside(*bytes, header.names_begin, header.names_bytes))
    header.names_digest = DigestOf(*bytes, header.names_begin, header.names_bytes);
  std::memcpy(bytes->data(), &header, sizeof header);
  header.header_digest = DigestOf(*bytes, 0, offsetof(PackedHeader, header_digest));
  std::memcpy(bytes->data(), &header, sizeof header);
}

void CheckFile(const std::string& bytes) {
  constexpr uint64_t kMaxImagesRead = 16;
  static const TestFolder folder;
  std::ofstream(folder.path() + "/train.tpk", std::ios::binary) << bytes;
  tern::pb::Data data;
  data.set_dir(folder.path());
  const auto dataset = tern::data::OpenPacked(data, /*is_training=*/true, 0, {});
  if (!dataset.ok()) {
    if (dataset.status().message().empty()) std::abort();
    return;
  }
  const tern::data::Dataset& set = **dataset;
  if (set.count() == 0 || set.sizes.size() != set.count()) std::abort();
  if (!set.class_names.empty() && set.class_names.size() != set.classes) std::abort();
  for (const uint32_t label : set.labels) {
    if (label >= set.classes) std::abort();
  }
  for (uint64_t i = 0; i < std::min(set.count(), kMaxImagesRead); ++i) {
    std::vector<uint8_t> stored_bytes;
    tern::data::Image image;
    if (!set.Read(i, &stored_bytes).ok() || !set.Decode(i, &image).ok()) continue;
    if (image.height != set.SizeOf(i).height || image.width != set.SizeOf(i).width) std::abort();
    if (image.pixels.size() != image.channels * image.plane()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  CheckFile(bytes);
  RepairDigests(&bytes);
  CheckFile(bytes);
  return 0;
}
