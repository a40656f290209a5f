#include "tests/fuzz/protocol_input.h"

#include <google/protobuf/message.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace tern::fuzz {

using google::protobuf::FieldDescriptor;

namespace {

constexpr int kMaxDepth = 4;
constexpr size_t kMaxLineBytes = 5000, kMaxHeaderBytes = 64 << 10;

void SetScalar(Input* input, const FieldDescriptor* field, google::protobuf::Message* message) {
  const auto* reflection = message->GetReflection();
  const bool is_list = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      const auto value = static_cast<uint32_t>(input->Number());
      return is_list ? reflection->AddUInt32(message, field, value)
                     : reflection->SetUInt32(message, field, value);
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      const uint64_t value = input->Number();
      return is_list ? reflection->AddUInt64(message, field, value)
                     : reflection->SetUInt64(message, field, value);
    }
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(message, field, static_cast<int64_t>(input->Number()));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->SetDouble(message, field, static_cast<double>(input->Number()));
    case FieldDescriptor::CPPTYPE_FLOAT:
      if (is_list) reflection->AddFloat(message, field, static_cast<float>(input->Byte()));
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(message, field, input->Below(2) == 1);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(message, field, static_cast<int>(input->Below(6)));
    case FieldDescriptor::CPPTYPE_STRING:
      if (!is_list) reflection->SetString(message, field, input->Text());
      return;
    default:
      return;
  }
}

// Sets some fields. A byte says how many; 0: none.
void Fill(Input* input, int depth, google::protobuf::Message* message) {
  const auto* type = message->GetDescriptor();
  if (type->field_count() == 0 || depth > kMaxDepth) return;
  for (uint32_t n = input->Below(12); n > 0; --n) {
    const FieldDescriptor* field =
        type->field(static_cast<int>(input->Below(static_cast<uint32_t>(type->field_count()))));
    if (field->message_type() == nullptr) {
      SetScalar(input, field, message);
      continue;
    }
    const auto* reflection = message->GetReflection();
    Fill(input, depth + 1,
         field->is_repeated() ? reflection->AddMessage(message, field)
                              : reflection->MutableMessage(message, field));
  }
}

}  // namespace

uint64_t Input::Number() {
  static constexpr uint64_t kNumbers[] = {0,
                                          1,
                                          2,
                                          3,
                                          4,
                                          5,
                                          7,
                                          9,
                                          10,
                                          11,
                                          12,
                                          20,
                                          64,
                                          65,
                                          66,
                                          70,
                                          75,
                                          100,
                                          143,
                                          256,
                                          0xffff,
                                          1u << 31,
                                          0xffffffff,
                                          uint64_t{1} << 40,
                                          uint64_t{1} << 62,
                                          (uint64_t{1} << 62) + 1,
                                          uint64_t{1} << 63,
                                          ~uint64_t{0} - 1,
                                          ~uint64_t{0}};
  const uint8_t choice = Byte();
  return choice < 128 ? choice % 16 : kNumbers[choice % std::size(kNumbers)];
}

std::string Input::Text() {
  switch (Below(5)) {
    case 0:
      return "test";
    case 1:
      return "a line\nstep 30/30 done\x1b[2J";
    case 2:
      return std::string(size_t{1} << Below(16), '\x07');
    case 3:
      return std::string(Below(20), 'x');
    default:
      return "\xff\x01";
  }
}

protocol::Message AnyMessage(Input* input) {
  protocol::Message message;
  const auto* envelope = pb::Envelope::descriptor();
  const FieldDescriptor* body = envelope->field(
      static_cast<int>(input->Below(static_cast<uint32_t>(envelope->field_count()))));
  message.head.GetReflection()->MutableMessage(&message.head, body);
  Disturb(input, &message);
  if (input->Below(2) == 1) message.payload = Bytes::Own(std::string(input->Below(6), 'x'));
  return message;
}

void Disturb(Input* input, protocol::Message* message) {
  const auto* reflection = message->head.GetReflection();
  std::vector<const FieldDescriptor*> bodies;
  reflection->ListFields(message->head, &bodies);
  for (const FieldDescriptor* body : bodies)
    Fill(input, 0, reflection->MutableMessage(&message->head, body));
}

void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

void ExpectPrintable(const std::string& text) {
  if (text.size() > kMaxLineBytes)
    Fail("a line of " + std::to_string(text.size()) + " bytes: " + text.substr(0, 200));
  for (const unsigned char c : text) {
    if (c < 0x20 || c >= 0x7f) Fail("a line with control characters: " + text);
  }
}

void ExpectSendable(const protocol::Message& message) {
  const pb::Envelope& head = message.head;
  if (head.has_refuse()) ExpectPrintable(head.refuse().sentence());
  if (head.has_abort()) ExpectPrintable(head.abort().sentence());
  if (head.has_end()) ExpectPrintable(head.end().sentence());
  if (head.has_bye()) ExpectPrintable(head.bye().sentence());
  if (head.has_go_back()) ExpectPrintable(head.go_back().sentence());
  if (head.ByteSizeLong() > kMaxHeaderBytes)
    Fail("a message too large to send: " + head.ShortDebugString().substr(0, 200));
}

}  // namespace tern::fuzz
