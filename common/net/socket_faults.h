// The failpoints of sockets (common/base/failpoint.h). Only for the .cc files of common/net.
#pragma once

#include <cstdint>
#include <span>

namespace tern::net {

// Whether a message that is about to be sent is lost instead.
bool IsLostInSending();
// Whether a received message is lost instead. Flips a bit of one of its two frames if a failpoint
// says so. Either frame may be empty.
bool IsLostInReceiving(std::span<uint8_t> header, std::span<uint8_t> payload);

}  // namespace tern::net
