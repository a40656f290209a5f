// Pure functions that encode and decode the frames of a message.
//
// A message is a header frame and, if its payload is not empty, one payload frame.
//
//   header   "TERN"    4 bytes  magic
//            version   u16 LE   kWireVersion; is at this offset in every version
//            type      u16 LE   field number of the envelope's body; an error message can name it
//                               even if this program does not know the field
//            checksum  u32 LE   CRC-32C of the version, the type, the envelope and the payload; is
//                               at this offset in every version from 4 on
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

inline constexpr uint16_t kWireVersion = 4;
inline constexpr size_t kPreambleBytes = 12;  // magic, version, type and checksum
// Headers are limited because repeated empty submessages take about 36 times as much memory after
// parsing as they have bytes in the frame.
inline constexpr size_t kMaxHeaderBytes = 64 * 1024;
inline constexpr int kMaxNesting = 16;  // The deepest nesting of submessages in a header.

// Why a message was refused.
enum class Fault {
  kEmpty,      // a frame without bytes, or a message without frames
  kTruncated,  // the header has fewer than kPreambleBytes bytes
  kNotOurs,    // the header does not begin with "TERN": the peer is another program
  kDamaged,    // the checksum does not fit: bytes changed between the peer and this process
  // another wire version. The status of this fault has Code::kMismatch; that of all other faults
  // has Code::kNotAllowed
  kOtherVersion,
  // no valid envelope, nested too deeply, or the body is not of the type in the header
  kUnparsable,
  kUnsetBody,    // an envelope without a body
  kUnknownType,  // a type that this build does not know
  kHeaderTooLarge,
  kPayloadTooLarge,
  kTooManyFrames,
};
inline constexpr int kNumFaults = 11;  // the number of values of Fault
// The name of the fault, for a label of metrics: "other_version".
const char* FaultName(Fault fault);

struct FrameError {
  Fault fault = Fault::kEmpty;
  Status status;  // says in words what is wrong
};

// The field name of the envelope's body: "push", "hello", ...; "unset" if there is no body.
std::string TypeName(const pb::Envelope& envelope);
// The name of the body with this field number; "unknown" if there is none.
std::string TypeName(int body_case);

// Returns the header frame of a message with this payload. kInternal: no body, or larger than
// kMaxHeaderBytes.
Result<std::string> EncodeHeader(const pb::Envelope& envelope,
                                 std::span<const uint8_t> payload = {});

// Reads the header frame of a message with this payload into `envelope`, which is cleared first.
// Returns nullopt on success. After an error the content of `envelope` is unspecified.
std::optional<FrameError> DecodeHeader(std::span<const uint8_t> frame, pb::Envelope* envelope,
                                       std::span<const uint8_t> payload = {});

// Writes the checksum of a message with this payload into its header frame. REQUIRES a frame of at
// least kPreambleBytes bytes.
void SealHeader(std::string* frame, std::span<const uint8_t> payload = {});

// Checks a received message: the number of its frames, and the size of the payload (the second
// frame). Returns nullopt if both are allowed.
std::optional<FrameError> CheckShape(size_t num_frames, size_t payload_bytes,
                                     size_t max_payload_bytes);

// The bytes of a frame on the wire: ZMTP adds 2 bytes to a frame of up to 255 bytes, 9 to a larger
// one.
constexpr uint64_t WireBytes(size_t bytes) { return bytes + (bytes <= 255 ? 2 : 9); }

}  // namespace tern::net
