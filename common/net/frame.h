// Encodes and decodes the frames of a message. Pure functions.
//
// A message is a header frame and, if its payload is not empty, one payload frame.
//
//   header   "TERN"    4 bytes  magic
//            version   u16 LE   kWireVersion; stays at this offset in every version
//            type      u16 LE   field number of the envelope's body; identifies unknown ones too
//            envelope  ...      a serialized pb::Envelope
//   payload  raw bytes; the envelope defines their meaning
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/status.h"
#include "proto/wire.pb.h"

namespace tern::net {

inline constexpr uint16_t kWireVersion = 3;
inline constexpr size_t kPreambleBytes = 8;
// Parsed, repeated empty submessages take about 36 times their encoded size, so headers are
// limited.
inline constexpr size_t kMaxHeaderBytes = 64 * 1024;
inline constexpr int kMaxNesting = 16;

// Why a message was refused.
enum class Fault {
  kEmpty,         // a frame without bytes, or a message without frames
  kTruncated,     // shorter than the preamble
  kNotOurs,       // another magic: the peer is not Tern
  kOtherVersion,  // has code kMismatch; all other faults have kNotAllowed
  kUnparsable,    // not an envelope, nested too deeply, or of another type than the header says
  kUnsetBody,     // an envelope without a body
  kUnknownType,   // a type that this build does not know
  kHeaderTooLarge,
  kPayloadTooLarge,
  kTooManyFrames,
};
inline constexpr int kFaults = 10;
// The fault as a label of counters: "other_version".
const char* FaultName(Fault fault);

struct FrameError {
  Fault fault = Fault::kEmpty;
  Status status;  // code and message
};

// The field name of the envelope's body: "push", "hello"; "unset" without a body.
std::string TypeName(const pb::Envelope& envelope);
// The name of the body with this field number; "unknown" if there is none.
std::string TypeName(int body_case);

// Returns the header frame. kInternal: no body, or larger than kMaxHeaderBytes.
Result<std::string> EncodeHeader(const pb::Envelope& envelope);

// Reads a header frame into `envelope`, which is cleared first and is unspecified after an error.
std::optional<FrameError> DecodeHeader(std::span<const uint8_t> frame, pb::Envelope* envelope);

// Checks the number of frames of a received message, and the size of the second one, its payload.
std::optional<FrameError> CheckShape(size_t frames, size_t payload_bytes, size_t max_payload);

// The bytes of a frame on the wire: ZMTP adds 2 bytes to a frame of up to 255 bytes, 9 to a larger
// one.
constexpr uint64_t WireBytes(size_t bytes) { return bytes + (bytes <= 255 ? 2 : 9); }

}  // namespace tern::net
