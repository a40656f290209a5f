#include "worker/data/packed.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/hash.h"
#include "common/base/text.h"
#include "worker/data/files.h"
#include "worker/data/packed_form.h"

namespace tern::data {
namespace {

constexpr uint64_t kMaxImages = uint64_t{1} << 32;
constexpr uint32_t kMaxClasses = 65536;
constexpr uint64_t kMaxNamesBytes = uint64_t{64} << 20;
constexpr const char* kPackAgain = "; pack it again (tern convert pack)";

std::span<const uint8_t> AsBytes(const void* data, size_t size) {
  return {static_cast<const uint8_t*>(data), size};
}

class PackedDataset : public Dataset {
 public:
  PackedDataset(std::string path, InputFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

  // Reads and checks the header and the class names.
  Status OpenNames();
  // The same, and the index.
  Status Open();
  // kBadData if the classes of the two files have other names.
  Status CheckNames(const PackedDataset& other) const;
  // Keeps only the first `limit` images; 0 keeps all. Sets the common size of the images.
  void KeepFirstImages(uint64_t limit);

  std::string NameOf(uint64_t i) const override { return Cat("image ", i, " of ", path_); }
  Status Read(uint64_t i, std::vector<uint8_t>* bytes) const override {
    const PackedEntry& entry = entries_[i];
    bytes->resize(entry.bytes);
    if (file_.ReadAt(entry.offset, *bytes) != entry.bytes)
      return BadDataError(Cat("image ", i, " cannot be read: the file is shorter than it was"));
    if (Digest(*bytes) != entry.digest)
      return BadDataError(Cat("the digest of image ", i, " does not match its bytes", kPackAgain));
    return Ok();
  }

 private:
  Status BadDataError(const std::string& what) const {
    return Status(Code::kBadData, path_ + ": " + what);
  }
  Result<PackedHeader> ReadHeader() const;
  Status CheckSections(const PackedHeader& header) const;
  Status ReadIndex(const PackedHeader& header);
  Status CheckEntry(const PackedHeader& header, uint64_t i) const;
  Status ReadNames(const PackedHeader& header);

  const std::string path_;
  const InputFile file_;
  PackedHeader header_{};
  std::vector<PackedEntry> entries_;
};

Status PackedDataset::OpenNames() {
  const Result<PackedHeader> header = ReadHeader();
  if (!header.ok()) return header.status();
  TERN_RETURN_IF_ERROR(CheckSections(*header));
  header_ = *header;
  is_encoded = header_.is_encoded == 1;
  classes = header_.classes;
  if (!is_encoded) channels = header_.channels;
  return ReadNames(header_);
}

Status PackedDataset::Open() {
  TERN_RETURN_IF_ERROR(OpenNames());
  return ReadIndex(header_);
}

Status PackedDataset::CheckNames(const PackedDataset& other) const {
  if (class_names == other.class_names) return Ok();
  return BadDataError(Cat("its classes are not those of ", other.path_,
                          ", so the two do not belong together", kPackAgain));
}

Result<PackedHeader> PackedDataset::ReadHeader() const {
  PackedHeader header;
  const size_t num_read = file_.ReadAt(0, {reinterpret_cast<uint8_t*>(&header), sizeof header});
  if (num_read < sizeof header) {
    return BadDataError(Cat("truncated: ", num_read,
                            " bytes, shorter than the header of a packed file (", sizeof header,
                            ")", kPackAgain));
  }
  if (std::memcmp(header.magic, kPackedMagic, sizeof header.magic) != 0) {
    return BadDataError(Cat("not a packed file: it begins with \"",
                            Printable({header.magic, sizeof header.magic}), "\", expected \"",
                            kPackedMagic, "\""));
  }
  if (header.version != kPackedVersion) {
    return BadDataError(Cat("version ", header.version, " of packed files; this program knows ",
                            kPackedVersion, kPackAgain));
  }
  if (Digest(AsBytes(&header, offsetof(PackedHeader, header_digest))) != header.header_digest)
    return BadDataError(Cat("the digest of the header does not match", kPackAgain));
  if (header.file_bytes != file_.size()) {
    return BadDataError(Cat("the header promises ", header.file_bytes, " bytes, the file has ",
                            file_.size(), file_.size() < header.file_bytes ? ": truncated" : "",
                            kPackAgain));
  }
  return header;
}

// Checks the counts and sections that the header states, because the header's digest detects
// accidental damage but not a file that was made to do harm.
Status PackedDataset::CheckSections(const PackedHeader& header) const {
  const uint64_t file_size = file_.size();
  const auto is_inside = [file_size](uint64_t begin, uint64_t bytes) {
    return begin >= kPackedHeaderBytes && begin <= file_size && bytes <= file_size - begin;
  };
  if (header.count == 0) return BadDataError("holds no images");
  if (header.count > kMaxImages || header.index_bytes != header.count * kPackedEntryBytes ||
      !is_inside(header.index_begin, header.index_bytes) ||
      !is_inside(header.names_begin, header.names_bytes) || header.names_bytes > kMaxNamesBytes ||
      header.is_encoded > 1 || header.classes == 0 || header.classes > kMaxClasses ||
      (header.is_encoded == 0 && (header.channels == 0 || header.channels > 1024))) {
    return BadDataError(Cat("the numbers of its header are inconsistent", kPackAgain));
  }
  return Ok();
}

Status PackedDataset::ReadIndex(const PackedHeader& header) {
  entries_.resize(header.count);
  const std::span<uint8_t> index_buffer(reinterpret_cast<uint8_t*>(entries_.data()),
                                        header.index_bytes);
  if (file_.ReadAt(header.index_begin, index_buffer) != index_buffer.size())
    return BadDataError("cannot be read completely");
  if (Digest(index_buffer) != header.index_digest)
    return BadDataError(Cat("the digest of the index does not match", kPackAgain));
  labels.resize(header.count);
  sizes.resize(header.count);
  for (uint64_t i = 0; i < header.count; ++i) {
    TERN_RETURN_IF_ERROR(CheckEntry(header, i));
    labels[i] = entries_[i].label;
    sizes[i] = {entries_[i].height, entries_[i].width};
  }
  return Ok();
}

Status PackedDataset::CheckEntry(const PackedHeader& header, uint64_t i) const {
  const PackedEntry& entry = entries_[i];
  const uint64_t num_pixels = uint64_t{entry.height} * entry.width;
  if (entry.offset < kPackedHeaderBytes || entry.offset > header.index_begin ||
      entry.bytes > header.index_begin - entry.offset || entry.bytes > kMaxEncodedBytes ||
      entry.label >= header.classes || num_pixels == 0 || num_pixels > kMaxPixels ||
      (header.is_encoded == 0 && num_pixels * header.channels != entry.bytes)) {
    return BadDataError(Cat("image ", i, " of its index does not fit (", entry.bytes, " bytes at ",
                            entry.offset, ", label ", entry.label, ", ", entry.width, " x ",
                            entry.height, ")", kPackAgain));
  }
  return Ok();
}

Status PackedDataset::ReadNames(const PackedHeader& header) {
  if (header.names_bytes == 0) return Ok();
  std::string names_text(header.names_bytes, '\0');
  const std::span<uint8_t> names_buffer(reinterpret_cast<uint8_t*>(names_text.data()),
                                        names_text.size());
  if (file_.ReadAt(header.names_begin, names_buffer) != names_buffer.size())
    return BadDataError("cannot be read completely");
  if (Digest(names_text) != header.names_digest)
    return BadDataError(Cat("the digest of the class names does not match", kPackAgain));
  size_t position = 0;
  while (position < names_text.size() && class_names.size() < classes) {
    uint32_t name_bytes = 0;
    if (names_text.size() - position < sizeof name_bytes) break;
    std::memcpy(&name_bytes, names_text.data() + position, sizeof name_bytes);
    position += sizeof name_bytes;
    if (name_bytes > names_text.size() - position) break;
    class_names.push_back(names_text.substr(position, name_bytes));
    position += name_bytes;
  }
  if (position == names_text.size() && class_names.size() == classes) return Ok();
  return BadDataError(
      Cat("the names of its ", classes, " classes do not fit into their section", kPackAgain));
}

void PackedDataset::KeepFirstImages(uint64_t limit) {
  if (limit > 0 && limit < count()) {
    entries_.resize(limit);
    labels.resize(limit);
    sizes.resize(limit);
  }
  SetCommonSize();
}

}  // namespace

Result<std::unique_ptr<Dataset>> OpenPacked(const pb::Data& data, bool is_training, uint64_t limit,
                                            const ReadOptions& options) {
  const std::string path = data.dir() + (is_training ? "/train.tpk" : "/test.tpk");
  Result<InputFile> file = InputFile::Open(path, "a packed set (tern convert pack)");
  if (!file.ok()) return file.status();
  auto dataset = std::make_unique<PackedDataset>(path, std::move(*file));
  dataset->channels = options.channels == 1 ? 1 : 3;
  dataset->damaged_images =
      std::make_shared<DamagedImages>(data.max_corrupt(), options.warn, options.max_damaged_name);
  TERN_RETURN_IF_ERROR(dataset->Open());
  const std::string other_path = data.dir() + (is_training ? "/test.tpk" : "/train.tpk");
  if (Result<InputFile> other_file = InputFile::Open(other_path, "a packed set"); other_file.ok()) {
    PackedDataset other(other_path, std::move(*other_file));
    if (other.OpenNames().ok()) TERN_RETURN_IF_ERROR(dataset->CheckNames(other));
  }
  dataset->KeepFirstImages(limit);
  return Result<std::unique_ptr<Dataset>>(std::move(dataset));
}

}  // namespace tern::data
