#include "worker/tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/storage.h"
#include "common/base/text.h"

namespace tern::tensorboard {
namespace {

template <typename T>
std::string LittleEndianBytes(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string MaskedCrcBytes(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return LittleEndianBytes(static_cast<uint32_t>((crc >> 15 | crc << 17) + 0xA282EAD8u));
}

Status CannotWriteError(const std::string& path, const std::string& why) {
  return Status(Code::kCannotWrite, Cat("cannot write ", path, ": ", why));
}

}  // namespace

double WallTime() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_epoch).count();
}

Result<EventFile> EventFile::Make(const std::string& folder) {
  if (const std::error_code error = Disk().CreateFolders(folder))
    return CannotWriteError(folder, error.message());
  auto seconds = static_cast<uint64_t>(WallTime());
  while (true) {
    const std::string path = Cat(folder, "/events.out.tfevents.", seconds++, ".tern");
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return CannotWriteError(path, std::strerror(errno));
    EventFile file(path, fd);
    pb::Event version_event;
    version_event.set_wall_time(WallTime());
    version_event.set_file_version("brain.Event:2");
    file.Add(version_event);
    TERN_RETURN_IF_ERROR(file.Flush());
    return file;
  }
}

void EventFile::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

EventFile::EventFile(EventFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      records_(std::move(other.records_)) {}

void EventFile::Add(const pb::Event& event) {
  if (!is_open()) return;
  const std::string event_bytes = event.SerializeAsString();
  const std::string length_bytes = LittleEndianBytes(uint64_t{event_bytes.size()});
  records_ += length_bytes;
  records_ += MaskedCrcBytes(length_bytes);
  records_ += event_bytes;
  records_ += MaskedCrcBytes(event_bytes);
}

Status EventFile::Flush() {
  const std::string records = std::exchange(records_, {});
  for (size_t num_written = 0; num_written < records.size();) {
    const ssize_t num_accepted =
        write(fd_, records.data() + num_written, records.size() - num_written);
    if (num_accepted < 0 && errno == EINTR) continue;
    if (num_accepted < 0) {
      const Status write_error = CannotWriteError(path_, std::strerror(errno));
      Close();
      return write_error;
    }
    num_written += static_cast<size_t>(num_accepted);
  }
  return Ok();
}

}  // namespace tern::tensorboard
