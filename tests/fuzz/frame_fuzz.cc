// Fuzzes header frames, the first bytes that a daemon reads from an unknown peer.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/net/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern::net;
  tern::pb::Envelope envelope;
  const std::span<const uint8_t> frame(data, size);
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
  // An accepted message can be encoded again, unless its canonical encoding exceeds the limit.
  const auto again = EncodeHeader(envelope);
  if (!again.ok()) return 0;
  tern::pb::Envelope copy;
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(again->data()),
                                       again->size());
  if (DecodeHeader(bytes, &copy) || copy.body_case() != envelope.body_case()) __builtin_trap();
  return 0;
}
