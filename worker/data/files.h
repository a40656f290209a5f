// Reads regular files. Refuses pipes and devices, on which a read could block forever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/status.h"

namespace tern::data {

// A regular file, open for reading. Any thread may read.
class InputFile {
 public:
  // kBadData if the file is missing, may not be read, or is not a regular file. If it is not a
  // regular file, the message says what was expected: `expected`, such as "a JPEG or PNG image".
  static Result<InputFile> Open(const std::string& path, const std::string& expected);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  uint64_t size() const { return size_; }  // The size in bytes when the file was opened.
  // Reads up to buffer.size() bytes from `offset` on; returns how many it has read. Reads fewer at
  // the end of the file, and after a read error.
  size_t ReadAt(uint64_t offset, std::span<uint8_t> buffer) const;

 private:
  InputFile(int fd, uint64_t size) : fd_(fd), size_(size) {}
  int fd_;
  uint64_t size_;
};

// Reads a whole file to *bytes, a std::string or std::vector<uint8_t>. Returns the errors of
// InputFile::Open, and kBadData if the file has more than `max_bytes` bytes or cannot be read to
// its end.
template <typename Bytes>
Status ReadWholeFile(const std::string& path, const std::string& expected, uint64_t max_bytes,
                     Bytes* bytes);

}  // namespace tern::data
