#include "common/net/frame.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "common/base/crc32c.h"
#include "common/base/text.h"

namespace tern::net {
namespace {

constexpr std::string_view kMagic = "TERN";
constexpr size_t kChecksumOffset = 8;
constexpr uint16_t kFirstVersionWithChecksum = 4;

void PutU16(std::string* out, uint16_t v) {
  *out += static_cast<char>(v & 0xff);
  *out += static_cast<char>(v >> 8);
}

uint16_t GetU16(std::span<const uint8_t> frame, size_t at) {
  return static_cast<uint16_t>(frame[at] | frame[at + 1] << 8);
}

uint32_t GetU32(std::span<const uint8_t> frame, size_t at) {
  return GetU16(frame, at) | static_cast<uint32_t>(GetU16(frame, at + 2)) << 16;
}

FrameError MakeFrameError(Fault fault, const std::string& sentence) {
  const Code code = fault == Fault::kOtherVersion ? Code::kMismatch : Code::kNotAllowed;
  return FrameError{fault, Status(code, sentence)};
}

const google::protobuf::FieldDescriptor* BodyField(int body_case) {
  const auto* field = pb::Envelope::descriptor()->FindFieldByNumber(body_case);
  return field != nullptr && field->containing_oneof() != nullptr ? field : nullptr;
}

bool ParseEnvelope(std::span<const uint8_t> bytes, pb::Envelope* envelope) {
  google::protobuf::io::CodedInputStream in(bytes.data(), static_cast<int>(bytes.size()));
  in.SetRecursionLimit(kMaxNesting);
  // MergeFromCodedStream would write errors to stderr; MergePartialFromCodedStream does not.
  return envelope->MergePartialFromCodedStream(&in) && in.ConsumedEntireMessage() &&
         envelope->IsInitialized();
}

uint32_t ChecksumOf(std::span<const uint8_t> frame, std::span<const uint8_t> payload) {
  uint32_t crc = ExtendCrc32c(0, frame.subspan(kMagic.size(), kChecksumOffset - kMagic.size()));
  crc = ExtendCrc32c(crc, frame.subspan(kPreambleBytes));
  return ExtendCrc32c(crc, payload);
}

bool ChecksumFits(std::span<const uint8_t> frame, std::span<const uint8_t> payload) {
  return frame.size() >= kPreambleBytes &&
         GetU32(frame, kChecksumOffset) == ChecksumOf(frame, payload);
}

FrameError DamagedError(std::span<const uint8_t> frame, std::span<const uint8_t> payload) {
  return MakeFrameError(Fault::kDamaged,
                        Cat("a message with a header of ", frame.size(), " and a payload of ",
                            payload.size(), " bytes was damaged on its way"));
}

// Checks the magic, the version, the size and the checksum of a header frame that is not empty.
std::optional<FrameError> CheckPreamble(std::span<const uint8_t> frame,
                                        std::span<const uint8_t> payload) {
  const size_t magic_bytes = std::min(frame.size(), kMagic.size());
  if (std::memcmp(frame.data(), kMagic.data(), magic_bytes) != 0) {
    if (ChecksumFits(frame, payload)) return DamagedError(frame, payload);
    const std::string_view seen(reinterpret_cast<const char*>(frame.data()), magic_bytes);
    return MakeFrameError(Fault::kNotOurs,
                          Cat("a frame begins with \"", Printable(seen),
                              "\" instead of \"TERN\": the peer is not a Tern program"));
  }
  const uint16_t version = frame.size() >= kMagic.size() + 2 ? GetU16(frame, 4) : kWireVersion;
  const bool has_checksum = version == 0 || version >= kFirstVersionWithChecksum;
  if (frame.size() < kPreambleBytes && has_checksum) {
    return MakeFrameError(Fault::kTruncated,
                          Cat("a header frame has ", frame.size(), " bytes; at least ",
                              kPreambleBytes, " are needed"));
  }
  if (frame.size() > kMaxHeaderBytes) {
    return MakeFrameError(Fault::kHeaderTooLarge,
                          Cat("a header frame has ", frame.size(), " bytes; at most ",
                              kMaxHeaderBytes, " are allowed"));
  }
  if (has_checksum && !ChecksumFits(frame, payload)) return DamagedError(frame, payload);
  if (version == kWireVersion) return std::nullopt;
  return MakeFrameError(Fault::kOtherVersion, Cat("the peer speaks wire version ", version,
                                                  " and this build wire version ", kWireVersion,
                                                  "; run the same build of Tern everywhere"));
}

}  // namespace

const char* FaultName(Fault fault) {
  switch (fault) {
    case Fault::kEmpty:
      return "empty";
    case Fault::kTruncated:
      return "truncated";
    case Fault::kNotOurs:
      return "not_ours";
    case Fault::kDamaged:
      return "damaged";
    case Fault::kOtherVersion:
      return "other_version";
    case Fault::kUnparsable:
      return "unparsable";
    case Fault::kUnsetBody:
      return "unset_body";
    case Fault::kUnknownType:
      return "unknown_type";
    case Fault::kHeaderTooLarge:
      return "header_too_large";
    case Fault::kPayloadTooLarge:
      return "payload_too_large";
    case Fault::kTooManyFrames:
      return "too_many_frames";
  }
  return "unknown";
}

std::string TypeName(int body_case) {
  if (body_case == 0) return "unset";
  const auto* field = BodyField(body_case);
  return field == nullptr ? "unknown" : field->name();
}

std::string TypeName(const pb::Envelope& envelope) { return TypeName(envelope.body_case()); }

void SealHeader(std::string* frame, std::span<const uint8_t> payload) {
  const uint32_t checksum =
      ChecksumOf({reinterpret_cast<const uint8_t*>(frame->data()), frame->size()}, payload);
  std::string bytes;
  PutU16(&bytes, static_cast<uint16_t>(checksum & 0xffff));
  PutU16(&bytes, static_cast<uint16_t>(checksum >> 16));
  frame->replace(kChecksumOffset, bytes.size(), bytes);
}

Result<std::string> EncodeHeader(const pb::Envelope& envelope, std::span<const uint8_t> payload) {
  if (envelope.body_case() == 0) {
    return Status(Code::kInternal, "cannot send an envelope without a body");
  }
  const size_t header_bytes = kPreambleBytes + envelope.ByteSizeLong();
  if (header_bytes > kMaxHeaderBytes) {
    return Status(Code::kInternal,
                  Cat("cannot send a ", TypeName(envelope), " header of ", header_bytes,
                      " bytes; at most ", kMaxHeaderBytes, " are allowed"));
  }
  std::string frame(kMagic);
  frame.reserve(header_bytes);
  PutU16(&frame, kWireVersion);
  PutU16(&frame, static_cast<uint16_t>(envelope.body_case()));
  frame.append(kPreambleBytes - kChecksumOffset, '\0');
  envelope.AppendPartialToString(&frame);
  SealHeader(&frame, payload);
  return frame;
}

std::optional<FrameError> DecodeHeader(std::span<const uint8_t> frame, pb::Envelope* envelope,
                                       std::span<const uint8_t> payload) {
  envelope->Clear();
  if (frame.empty()) return MakeFrameError(Fault::kEmpty, "the header frame is empty");
  if (auto error = CheckPreamble(frame, payload)) return error;
  const int body_case = GetU16(frame, 6);
  if (body_case != 0 && BodyField(body_case) == nullptr) {
    return MakeFrameError(
        Fault::kUnknownType,
        Cat("a message is of type ", body_case,
            ", which this build does not know; run the same build of Tern everywhere"));
  }
  if (!ParseEnvelope(frame.subspan(kPreambleBytes), envelope)) {
    return MakeFrameError(Fault::kUnparsable,
                          Cat("a ", TypeName(body_case), " header of ", frame.size(),
                              " bytes does not parse, or is nested deeper than ", kMaxNesting));
  }
  if (envelope->body_case() == 0) {
    return MakeFrameError(Fault::kUnsetBody, Cat("a ", TypeName(body_case), " header has no body"));
  }
  if (envelope->body_case() != body_case) {
    return MakeFrameError(Fault::kUnparsable, Cat("a header says ", TypeName(body_case),
                                                  " but holds ", TypeName(*envelope)));
  }
  return std::nullopt;
}

std::optional<FrameError> CheckShape(size_t num_frames, size_t payload_bytes,
                                     size_t max_payload_bytes) {
  if (num_frames == 0) return MakeFrameError(Fault::kEmpty, "a message has no frames");
  if (num_frames > 2) {
    return MakeFrameError(
        Fault::kTooManyFrames,
        Cat("a message has ", num_frames, " frames; a header and one payload are allowed"));
  }
  if (num_frames == 2 && payload_bytes == 0) {
    return MakeFrameError(Fault::kEmpty,
                          "a payload frame is empty; a message without payload has one frame");
  }
  if (payload_bytes > max_payload_bytes) {
    return MakeFrameError(Fault::kPayloadTooLarge,
                          Cat("a payload has ", payload_bytes, " bytes; at most ",
                              max_payload_bytes, " are allowed here"));
  }
  return std::nullopt;
}

}  // namespace tern::net
