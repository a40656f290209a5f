#include "tools/launch/frames.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "common/base/text.h"
#include "common/net/keys.h"

namespace tern::tools {
namespace {

constexpr size_t kLengthBytes = 4, kMaxFrameBytes = 16 << 20;

}  // namespace

Status WriteFrame(int fd, const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  std::string frame(kLengthBytes + size, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) frame[i] = static_cast<char>(size >> (8 * i));
  message.SerializeToArray(frame.data() + kLengthBytes, static_cast<int>(size));
  Status status;
  for (size_t num_written = 0; num_written < frame.size();) {
    const ssize_t result = write(fd, frame.data() + num_written, frame.size() - num_written);
    if (result < 0 && errno == EINTR) continue;
    if (result < 0) {
      status = errno == EAGAIN
                   ? Status(Code::kInternal, "the other side does not read what is sent to it")
                   : Status(Code::kPeerLost, Cat("cannot write: ", std::strerror(errno)));
      break;
    }
    num_written += static_cast<size_t>(result);
  }
  net::Wipe(frame.data(), frame.size());
  return status;
}

FrameReader::~FrameReader() { net::Wipe(bytes_.data(), bytes_.size()); }

ptrdiff_t FrameReader::ReadFrom(int fd) {
  static constexpr size_t kReadBytes = 64 << 10;
  std::array<char, kReadBytes> buffer;
  const ssize_t num_read = read(fd, buffer.data(), buffer.size());
  if (num_read <= 0) return num_read;
  if (bytes_.capacity() < bytes_.size() + buffer.size()) {
    // A string that grows by itself would leave its bytes in memory.
    std::string larger;
    larger.reserve(2 * (bytes_.size() + buffer.size()));
    larger = bytes_;
    net::Wipe(bytes_.data(), bytes_.size());
    bytes_.swap(larger);
  }
  bytes_.append(buffer.data(), static_cast<size_t>(num_read));
  net::Wipe(buffer.data(), static_cast<size_t>(num_read));
  return num_read;
}

bool FrameReader::SkipToGreeting() {
  const size_t at = bytes_.find(kHostGreeting);
  if (at == std::string::npos) {
    if (bytes_.size() > kMaxFrameBytes) bytes_.clear();
    return false;
  }
  bytes_.erase(0, at + kHostGreeting.size());
  return true;
}

Result<bool> FrameReader::Next(google::protobuf::MessageLite* message) {
  if (bytes_.size() < kLengthBytes) return false;
  size_t size = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    size |= static_cast<size_t>(static_cast<uint8_t>(bytes_[i])) << (8 * i);
  if (size > kMaxFrameBytes)
    return Status(Code::kMismatch, Cat("saw a message of ", size, " bytes, expected fewer than ",
                                       kMaxFrameBytes, ": is the other side of the same version?"));
  if (bytes_.size() < kLengthBytes + size) return false;
  if (!message->ParseFromArray(bytes_.data() + kLengthBytes, static_cast<int>(size)))
    return Status(Code::kMismatch,
                  "saw bytes that are no message of tern launch: is the other "
                  "side of the same version?");
  const size_t num_left = bytes_.size() - kLengthBytes - size;
  std::memmove(bytes_.data(), bytes_.data() + kLengthBytes + size, num_left);
  net::Wipe(bytes_.data() + num_left, bytes_.size() - num_left);
  bytes_.resize(num_left);
  return true;
}

}  // namespace tern::tools
