// The frames of one message. Pure functions: no socket, no clock.
//
// A message is a header frame and, where its payload is not empty, one payload frame.
//
//   header   "TERN"    4 bytes  magic
//            version   u16 LE   kWireVersion; its place never moves, whatever the version
//            type      u16 LE   field number of the envelope's body, so that an unknown one has a
//            name envelope  ...      pb::Envelope
//   payload  raw bytes, whose meaning the envelope tells
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/status.h"
#include "proto/wire.pb.h"

namespace tern::net {

inline constexpr uint16_t kWireVersion = 1;
inline constexpr size_t kPreambleBytes = 8;
// Repeated empty submessages take some 36 times their size in memory, so the header stays small.
inline constexpr size_t kMaxHeaderBytes = 64 * 1024;
inline constexpr int kMaxNesting = 16;

// Why a message was refused.
enum class Fault {
  kEmpty,         // a frame of no bytes
  kTruncated,     // shorter than the preamble
  kNotOurs,       // another magic: a stranger
  kOtherVersion,  // the only fault with code kMismatch; all others have kNotAllowed
  kUnparsable,    // not an envelope, nested too deep, or not of the type that it says
  kUnsetBody,     // an envelope without a body
  kUnknownType,   // a body that this build does not know
  kHeaderTooLarge,
  kPayloadTooLarge,
  kTooManyFrames,
};
inline constexpr int kFaults = 10;
// "other_version", as counters label it.
const char* FaultName(Fault fault);

struct FrameError {
  Fault fault = Fault::kEmpty;
  Status status;  // the sentence
};

// "push", "hello": the name of the body's field; "unset" without one.
std::string TypeName(const pb::Envelope& envelope);
// The same from a field number of the body; "unknown" where there is none.
std::string TypeName(int body_case);

// The header frame. kInternal: no body, or larger than kMaxHeaderBytes.
Result<std::string> EncodeHeader(const pb::Envelope& envelope);

// Reads a header frame into `envelope`, which is cleared first and is meaningless after an error.
std::optional<FrameError> DecodeHeader(std::span<const uint8_t> frame, pb::Envelope* envelope);

// Checks the shape of a received message: `frames` of them, the second of `payload_bytes`.
std::optional<FrameError> CheckShape(size_t frames, size_t payload_bytes, size_t max_payload);

// What a frame of `bytes` takes on the wire: ZMTP puts 2 bytes before it up to 255, else 9.
constexpr uint64_t WireBytes(size_t bytes) { return bytes + (bytes <= 255 ? 2 : 9); }

}  // namespace tern::net
