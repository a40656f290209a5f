#include "worker/tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/text.h"

namespace tern::tensorboard {
namespace {

template <typename T>
std::string LittleEndian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string MaskedCrc(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return LittleEndian(static_cast<uint32_t>((crc >> 15 | crc << 17) + 0xA282EAD8u));
}

Status CannotWrite(const std::string& path, const std::string& why) {
  return Status(Code::kCannotWrite, Cat("cannot write ", path, ": ", why));
}

}  // namespace

double WallTime() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

Result<EventFile> EventFile::Make(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return CannotWrite(folder, error.message());
  auto seconds = static_cast<uint64_t>(WallTime());
  while (true) {
    const std::string path = Cat(folder, "/events.out.tfevents.", seconds++, ".tern");
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return CannotWrite(path, std::strerror(errno));
    EventFile file(path, fd);
    pb::Event first;
    first.set_wall_time(WallTime());
    first.set_file_version("brain.Event:2");
    file.Add(first);
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
  const std::string data = event.SerializeAsString();
  const std::string length = LittleEndian(uint64_t{data.size()});
  records_ += length;
  records_ += MaskedCrc(length);
  records_ += data;
  records_ += MaskedCrc(data);
}

Status EventFile::Flush() {
  const std::string records = std::exchange(records_, {});
  for (size_t num_written = 0; num_written < records.size();) {
    const ssize_t n = write(fd_, records.data() + num_written, records.size() - num_written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const Status failed = CannotWrite(path_, std::strerror(errno));
      Close();
      return failed;
    }
    num_written += static_cast<size_t>(n);
  }
  return Ok();
}

}  // namespace tern::tensorboard
