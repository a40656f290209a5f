// Messages over a pipe: each a 32-bit length, little-endian, and the bytes of a protobuf message
// (proto/launch.proto).
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tern::tools {

// What a host writes before its first frame. What stands before it on stdout was written by the
// files that the host's shell reads first.
inline constexpr std::string_view kHostGreeting = "\nTERN LAUNCH 1\n";

// Writes a frame, and overwrites its own copy of the bytes, which may be secret. kPeerLost if the
// reader has gone, kInternal if the descriptor is non-blocking and takes no more.
Status WriteFrame(int fd, const google::protobuf::MessageLite& message);

// Finds frames in bytes as they arrive.
class FrameReader {
 public:
  FrameReader() = default;
  ~FrameReader();  // Overwrites the bytes, which may be secret.
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;

  // Reads what `fd` has, up to 64 KiB. Returns the number of bytes; 0 at the end; -1 if there are
  // none now, or by an error.
  ptrdiff_t ReadFrom(int fd);
  // Removes everything up to the greeting and itself. False if it has not arrived yet.
  bool SkipToGreeting();
  // Reads the next frame into *message. False if it is not there yet. kMismatch if the bytes are no
  // frame.
  Result<bool> Next(google::protobuf::MessageLite* message);

 private:
  std::string bytes_;
};

}  // namespace tern::tools
