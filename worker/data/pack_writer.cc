#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/hash.h"
#include "common/base/text.h"
#include "worker/data/packed.h"
#include "worker/data/packed_form.h"

namespace tern::data {
namespace {

std::span<const uint8_t> AsBytes(const void* data, size_t size) {
  return {static_cast<const uint8_t*>(data), size};
}

}  // namespace

Result<std::unique_ptr<PackWriter>> PackWriter::Make(const std::string& path,
                                                     const Properties& properties) {
  std::unique_ptr<PackWriter> writer(new PackWriter(path, properties));
  writer->file_ = std::fopen(writer->temporary_path_.c_str(), "wbx");
  if (writer->file_ == nullptr) return writer->ErrorFromErrno();
  writer->is_here_ = true;
  const PackedHeader placeholder{};  // Finish replaces it by the real header.
  TERN_RETURN_IF_ERROR(writer->Write(AsBytes(&placeholder, sizeof placeholder)));
  return writer;
}

PackWriter::PackWriter(std::string path, Properties properties)
    : path_(std::move(path)),
      temporary_path_(TemporaryPathOf(path_)),
      properties_(std::move(properties)) {}

PackWriter::~PackWriter() {
  if (file_ != nullptr) std::fclose(file_);
  if (is_here_) std::remove(temporary_path_.c_str());
}

Status PackWriter::ErrorFromErrno() const {
  return Status(Code::kCannotWrite,
                Cat(temporary_path_, ": cannot be written (", std::strerror(errno),
                    "); check the folder, its permissions and the room there"));
}

Status PackWriter::Write(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return Ok();  // fwrite must not get the null pointer of an empty span.
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) return ErrorFromErrno();
  num_bytes_written_ += bytes.size();
  return Ok();
}

Status PackWriter::Add(std::span<const uint8_t> bytes, uint32_t label, Size size) {
  PackedEntry entry;
  entry.offset = num_bytes_written_;
  entry.bytes = static_cast<uint32_t>(bytes.size());
  entry.label = label;
  entry.height = size.height;
  entry.width = size.width;
  entry.digest = Digest(bytes);
  TERN_RETURN_IF_ERROR(Write(bytes));
  entries_.push_back(entry);
  return Ok();
}

Status PackWriter::Complete() {
  std::string names_section;
  for (const std::string& name : properties_.class_names) {
    const auto name_bytes = static_cast<uint32_t>(name.size());
    names_section.append(reinterpret_cast<const char*>(&name_bytes), sizeof name_bytes);
    names_section += name;
  }
  PackedHeader header{};
  std::memcpy(header.magic, kPackedMagic, sizeof header.magic);
  header.version = kPackedVersion;
  header.is_encoded = properties_.is_encoded ? 1 : 0;
  header.count = entries_.size();
  header.classes = properties_.classes;
  header.channels = properties_.is_encoded ? 0 : properties_.channels;
  const auto index_section = AsBytes(entries_.data(), entries_.size() * sizeof(PackedEntry));
  header.index_begin = num_bytes_written_;
  header.index_bytes = index_section.size();
  header.index_digest = Digest(index_section);
  TERN_RETURN_IF_ERROR(Write(index_section));
  header.names_begin = num_bytes_written_;
  header.names_bytes = names_section.size();
  header.names_digest = Digest(names_section);
  TERN_RETURN_IF_ERROR(Write(AsBytes(names_section.data(), names_section.size())));
  header.file_bytes = num_bytes_written_;
  header.header_digest = Digest(AsBytes(&header, offsetof(PackedHeader, header_digest)));
  if (std::fseek(file_, 0, SEEK_SET) != 0 ||
      std::fwrite(&header, 1, sizeof header, file_) != sizeof header || std::fflush(file_) != 0 ||
      fsync(fileno(file_)) != 0) {
    return ErrorFromErrno();
  }
  std::fclose(std::exchange(file_, nullptr));
  return Ok();
}

Status PackWriter::Finish() {
  if (file_ != nullptr) TERN_RETURN_IF_ERROR(Complete());
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) return ErrorFromErrno();
  is_here_ = false;
  return Ok();
}

}  // namespace tern::data
