// Fuzzes the decoder of message headers, the first bytes that a process reads from an unknown peer.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/net/frame.h"

namespace {

// Traps if decoding the frame breaks a promise of DecodeHeader.
int CheckFrame(std::span<const uint8_t> frame) {
  using namespace tern::net;
  tern::pb::Envelope envelope;
  const size_t size = frame.size();
  if (const auto error = DecodeHeader(frame, &envelope)) {
    // Every error has a printable message.
    if (error->status.ok() || error->status.message().empty()) __builtin_trap();
    for (const unsigned char c : error->status.message()) {
      if (c < 0x20 || c >= 0x7f) __builtin_trap();
    }
    return 0;
  }
  if (size < kPreambleBytes || size > kMaxHeaderBytes || TypeName(envelope) == "unknown") {
    __builtin_trap();
  }
  // Encodes the accepted message again. The new encoding may exceed the size limit; otherwise it
  // must decode to a message of the same type.
  const auto encoded = EncodeHeader(envelope);
  if (!encoded.ok()) return 0;
  tern::pb::Envelope decoded;
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(encoded->data()),
                                       encoded->size());
  if (DecodeHeader(bytes, &decoded) || decoded.body_case() != envelope.body_case())
    __builtin_trap();
  return 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kVersionOffset = 4;
  CheckFrame({data, size});
  if (size < tern::net::kPreambleBytes) return 0;
  // Checks the frame again with its right checksum, and with this build's wire version, so that
  // changed frames and corpus files of an older version reach the code behind these checks.
  std::string sealed(reinterpret_cast<const char*>(data), size);
  tern::net::SealHeader(&sealed);
  CheckFrame({reinterpret_cast<const uint8_t*>(sealed.data()), size});
  sealed[kVersionOffset] = static_cast<char>(tern::net::kWireVersion & 0xff);
  sealed[kVersionOffset + 1] = static_cast<char>(tern::net::kWireVersion >> 8);
  tern::net::SealHeader(&sealed);
  return CheckFrame({reinterpret_cast<const uint8_t*>(sealed.data()), size});
}
