// Tests of frames: how a message's header is encoded as a preamble (magic, version, type) and an
// envelope (protobuf), and which frames are refused.
#include "common/net/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <span>

#include "common/base/text.h"
#include "tests/common/net/net_testing.h"

namespace tern::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::optional<FrameError> Decode(const std::string& frame, pb::Envelope* envelope) {
  return DecodeHeader(BytesOf(frame), envelope);
}

// Decodes a frame that must be refused, and returns its fault.
Fault FaultOf(const std::string& frame) {
  pb::Envelope envelope;
  const auto error = Decode(frame, &envelope);
  EXPECT_TRUE(error.has_value());
  if (!error) return Fault::kEmpty;
  EXPECT_FALSE(error->status.ok());
  EXPECT_EQ(error->status.code() == Code::kMismatch, error->fault == Fault::kOtherVersion);
  return error->fault;
}

// The error message of a frame that must be refused; empty if it is accepted.
std::string ErrorOf(const std::string& frame) {
  pb::Envelope envelope;
  const auto error = Decode(frame, &envelope);
  return error ? error->status.message() : "";
}

std::string ValidFrame() { return Value(EncodeHeader(NumberedEnvelope(7))); }

// A frame with these fields, these bytes behind them, and the right checksum.
std::string MakeFrame(int version, int type, const std::string& bytes) {
  std::string frame = "TERN";
  for (const int v : {version, type}) {
    frame += static_cast<char>(v & 0xff);
    frame += static_cast<char>(v >> 8);
  }
  frame += std::string(4, '\0') + bytes;
  SealHeader(&frame);
  return frame;
}

// The frame with other bytes at its end, and the right checksum.
std::string WithMore(std::string frame, const std::string& bytes) {
  frame += bytes;
  SealHeader(&frame);
  return frame;
}

// An envelope with an unknown field of `bytes` bytes, which protobuf keeps.
pb::Envelope EnvelopeWithUnknownField(size_t bytes) {
  pb::Envelope envelope = NumberedEnvelope(1);
  envelope.mutable_unknown_fields()->AddLengthDelimited(9999, std::string(bytes, 'x'));
  return envelope;
}

TEST(Frame, EncodesTheHeaderAsDocumented) {
  const std::string frame = ValidFrame();
  EXPECT_EQ(frame, MakeFrame(kWireVersion, pb::Envelope::kPush, frame.substr(kPreambleBytes)));
  EXPECT_EQ(frame.substr(0, 8), std::string("TERN\x04\0\x0b\0", 8));
  pb::Envelope body;
  ASSERT_TRUE(body.ParseFromString(frame.substr(kPreambleBytes)));
  EXPECT_EQ(body.push().in_round().round(), 7u);
}

TEST(Frame, DecodesEveryType) {
  const auto* body_oneof = pb::Envelope::descriptor()->oneof_decl(0);
  std::set<std::string> names;
  for (int i = 0; i < body_oneof->field_count(); ++i) {
    const pb::Envelope sent = EnvelopeOf(body_oneof->field(i)->number());
    pb::Envelope decoded;
    EXPECT_FALSE(Decode(Value(EncodeHeader(sent)), &decoded).has_value());
    EXPECT_EQ(decoded.body_case(), sent.body_case());
    EXPECT_EQ(TypeName(decoded), body_oneof->field(i)->name());
    names.insert(TypeName(decoded));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(body_oneof->field_count()));
}

TEST(Frame, ClearsTheEnvelopeFirst) {
  pb::Envelope envelope;
  envelope.mutable_hello()->set_job("old");
  EXPECT_FALSE(Decode(ValidFrame(), &envelope).has_value());
  EXPECT_FALSE(envelope.has_hello());
  EXPECT_EQ(envelope.push().in_round().round(), 7u);
}

TEST(Frame, RefusesToEncodeAnUnsetBody) {
  EXPECT_EQ(EncodeHeader(pb::Envelope()).status().code(), Code::kInternal);
}

TEST(Frame, RefusesToEncodeAHeaderOverTheLimit) {
  EXPECT_TRUE(EncodeHeader(EnvelopeWithUnknownField(kMaxHeaderBytes - 100)).ok());
  const auto encode_result = EncodeHeader(EnvelopeWithUnknownField(kMaxHeaderBytes));
  EXPECT_EQ(encode_result.status().code(), Code::kInternal);
  EXPECT_THAT(encode_result.status().message(), AllOf(HasSubstr("push"), HasSubstr("65536")));
}

TEST(Frame, RefusesAnEmptyFrame) { EXPECT_EQ(FaultOf(""), Fault::kEmpty); }

TEST(Frame, RefusesAnotherMagic) {
  EXPECT_EQ(FaultOf("GET / HTTP/1.1\r\n\r\n"), Fault::kNotOurs);
  EXPECT_EQ(FaultOf("X"), Fault::kNotOurs);
  EXPECT_EQ(FaultOf("TERM" + ValidFrame().substr(4, 10)), Fault::kNotOurs);
  EXPECT_THAT(ErrorOf("\x16\x03\x01\x02"), HasSubstr("\"\\x16\\x03\\x01\\x02\""));
}

TEST(Frame, RefusesAnotherVersionAndNamesBoth) {
  const std::string frame = MakeFrame(513, 1, "whatever a later build puts here");
  EXPECT_EQ(FaultOf(frame), Fault::kOtherVersion);
  EXPECT_THAT(ErrorOf(frame),
              AllOf(HasSubstr("version 513"), HasSubstr(Cat("wire version ", kWireVersion))));
}

// Versions before 4 had no checksum.
TEST(Frame, RefusesAnEarlierVersionAndNamesBoth) {
  for (const char version : {1, 2, 3}) {
    const std::string frame = std::string("TERN") + version + std::string("\0\x02\0", 3) + "hello";
    EXPECT_EQ(FaultOf(frame), Fault::kOtherVersion);
    EXPECT_EQ(FaultOf(frame.substr(0, 6)), Fault::kOtherVersion);
    EXPECT_THAT(ErrorOf(frame), HasSubstr(Cat("version ", static_cast<int>(version))));
  }
}

// No flipped bit may look like another program, another version or another type, because a daemon
// would leave the job for that.
TEST(Frame, KnowsEveryFlippedBit) {
  const std::string payload = "ternary codes";
  const std::string frame = Value(EncodeHeader(NumberedEnvelope(7), BytesOf(payload)));
  pb::Envelope envelope;
  EXPECT_FALSE(DecodeHeader(BytesOf(frame), &envelope, BytesOf(payload)).has_value());
  for (size_t bit = 0; bit < 8 * (frame.size() + payload.size()); ++bit) {
    std::string flipped = frame + payload;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto error = DecodeHeader(BytesOf(flipped).first(frame.size()), &envelope,
                                    BytesOf(flipped).subspan(frame.size()));
    ASSERT_TRUE(error.has_value()) << bit;
    EXPECT_EQ(error->fault, Fault::kDamaged) << bit;
    EXPECT_EQ(error->status.code(), Code::kNotAllowed);
  }
}

TEST(Frame, KnowsALostAndAStrangePayload) {
  const std::string payload = "ternary codes";
  const std::string frame = Value(EncodeHeader(NumberedEnvelope(7), BytesOf(payload)));
  EXPECT_EQ(FaultOf(frame), Fault::kDamaged);
  pb::Envelope envelope;
  EXPECT_EQ(DecodeHeader(BytesOf(ValidFrame()), &envelope, BytesOf(payload))->fault,
            Fault::kDamaged);
}

TEST(Frame, RefusesEveryTruncatedPreamble) {
  for (size_t size = 1; size < kPreambleBytes; ++size) {
    EXPECT_EQ(FaultOf(ValidFrame().substr(0, size)), Fault::kTruncated) << size;
  }
}

TEST(Frame, RefusesATruncatedEnvelope) {
  const std::string frame = ValidFrame();
  EXPECT_EQ(FaultOf(frame.substr(0, frame.size() - 1)), Fault::kDamaged);
  EXPECT_EQ(FaultOf(WithMore(frame.substr(0, frame.size() - 1), "")), Fault::kUnparsable);
}

TEST(Frame, RefusesGarbageInTheEnvelope) {
  EXPECT_EQ(FaultOf(MakeFrame(kWireVersion, pb::Envelope::kPush, "\xff\xff\xff\xff")),
            Fault::kUnparsable);
  EXPECT_EQ(FaultOf(WithMore(ValidFrame(), std::string(1, '\0'))), Fault::kUnparsable);
}

TEST(Frame, RefusesAnEnvelopeWithoutBody) {
  EXPECT_EQ(FaultOf(MakeFrame(kWireVersion, 0, "")), Fault::kUnsetBody);
  EXPECT_EQ(FaultOf(MakeFrame(kWireVersion, pb::Envelope::kPush, "")), Fault::kUnsetBody);
}

TEST(Frame, ReportsTheNumberOfAnUnknownType) {
  const std::string frame = MakeFrame(kWireVersion, 4711, "anything");
  EXPECT_EQ(FaultOf(frame), Fault::kUnknownType);
  EXPECT_THAT(ErrorOf(frame), HasSubstr("4711"));
}

TEST(Frame, RefusesABodyOfAnotherType) {
  const std::string frame =
      MakeFrame(kWireVersion, pb::Envelope::kHello, ValidFrame().substr(kPreambleBytes));
  EXPECT_EQ(FaultOf(frame), Fault::kUnparsable);
  EXPECT_THAT(ErrorOf(frame), AllOf(HasSubstr("hello"), HasSubstr("push")));
}

TEST(Frame, RefusesAHeaderOverTheLimit) {
  const std::string frame = ValidFrame() + std::string(kMaxHeaderBytes, '\0');
  EXPECT_EQ(FaultOf(frame), Fault::kHeaderTooLarge);
}

TEST(Frame, RefusesDeepNesting) {
  // A valid frame with `depth` nested unknown groups. Parsers recurse into groups.
  const auto frame_with_groups = [](int depth) {
    return WithMore(ValidFrame(),
                    std::string(depth, '\x0b' + 0x60) + std::string(depth, '\x0c' + 0x60));
  };
  pb::Envelope envelope;
  EXPECT_FALSE(Decode(frame_with_groups(kMaxNesting - 1), &envelope).has_value());
  EXPECT_EQ(FaultOf(frame_with_groups(kMaxNesting + 2)), Fault::kUnparsable);
  EXPECT_EQ(FaultOf(frame_with_groups(30000)), Fault::kUnparsable);
}

TEST(Frame, ChecksTheShapeOfAMessage) {
  EXPECT_FALSE(CheckShape(1, 0, 10).has_value());
  EXPECT_FALSE(CheckShape(2, 10, 10).has_value());
  EXPECT_EQ(CheckShape(0, 0, 10)->fault, Fault::kEmpty);
  EXPECT_EQ(CheckShape(2, 0, 10)->fault, Fault::kEmpty);
  EXPECT_EQ(CheckShape(2, 11, 10)->fault, Fault::kPayloadTooLarge);
  EXPECT_THAT(CheckShape(2, 11, 10)->status.message(), AllOf(HasSubstr("11"), HasSubstr("10")));
  EXPECT_EQ(CheckShape(3, 5, 10)->fault, Fault::kTooManyFrames);
}

TEST(Frame, EveryFaultHasAnotherName) {
  std::set<std::string> names;
  for (int i = 0; i < kNumFaults; ++i) names.insert(FaultName(static_cast<Fault>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumFaults));
  EXPECT_EQ(names.count("unknown"), 0u);
}

// ZMTP (ZeroMQ's protocol) puts 2 bytes before a frame of up to 255 bytes, and 9 before a longer
// one.
TEST(Frame, CountsTheFrameHeadersOfZmtp) {
  EXPECT_EQ(WireBytes(0), 2u);
  EXPECT_EQ(WireBytes(255), 257u);
  EXPECT_EQ(WireBytes(256), 265u);
}

}  // namespace
}  // namespace tern::net
