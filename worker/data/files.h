// Opens only regular files of bounded size, so reading never blocks on a pipe or a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/status.h"

namespace tern::data {

// A regular file, open for reading. Any thread may read.
class InFile {
 public:
  // kBadData: missing, not a regular file (`expected` describes the wanted file), no permission.
  static Result<InFile> Open(const std::string& path, const std::string& expected);
  InFile(InFile&& other) noexcept;
  InFile& operator=(InFile&& other) noexcept;
  ~InFile();

  uint64_t size() const { return size_; }  // when it was opened
  // Reads up to into.size() bytes from `offset` on; fewer at the file's end, or if the device
  // fails.
  size_t ReadAt(uint64_t offset, std::span<uint8_t> into) const;

 private:
  InFile(int fd, uint64_t size) : fd_(fd), size_(size) {}
  int fd_;
  uint64_t size_;
};

// Reads a whole file of at most `max` bytes.
template <typename Bytes>  // std::string or std::vector<uint8_t>
Status ReadWhole(const std::string& path, const std::string& expected, uint64_t max, Bytes* bytes);

}  // namespace tern::data
