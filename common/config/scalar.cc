#include "common/config/scalar.h"

#include <charconv>
#include <cmath>
#include <string_view>

namespace tern::config {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <typename T>
using Setter = void (Reflection::*)(Message*, const FieldDescriptor*, T) const;
// Stores a value: calls `set` for a single field, or `add` for a repeated field. Returns true.
template <typename T, typename V>
bool StoreValue(const FieldDescriptor* field, Message* message, Setter<T> set, Setter<T> add,
                V value) {
  (message->GetReflection()->*(field->is_repeated() ? add : set))(message, field, std::move(value));
  return true;
}

// Whether a number has a leading zero. Such numbers are refused, because YAML 1.1 reads 010 as 8
// and YAML 1.2 as 10.
bool HasLeadingZero(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

template <typename T>
bool ParseNumber(std::string_view text, T* value) {
  // from_chars would also accept "inf" and "nan".
  if (HasLeadingZero(text) || text.find_first_not_of("0123456789+-.eE") != std::string_view::npos)
    return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool SetBool(const std::string& text, const FieldDescriptor* field, Message* message) {
  if (text != "true" && text != "false") return false;
  return StoreValue(field, message, &Reflection::SetBool, &Reflection::AddBool, text == "true");
}

bool SetEnum(const Node& scalar, const FieldDescriptor* field, Message* message) {
  if (scalar.is_quoted && scalar.is_text_format) return false;
  const EnumValueDescriptor* value = field->enum_type()->FindValueByName(scalar.text);
  if (value == nullptr) return false;
  return StoreValue(field, message, &Reflection::SetEnum, &Reflection::AddEnum, value);
}

bool SetString(const Node& scalar, const FieldDescriptor* field, Message* message) {
  if (scalar.is_text_format && !scalar.is_quoted) return false;
  return StoreValue(field, message, &Reflection::SetString, &Reflection::AddString, scalar.text);
}

bool SetNumber(const std::string& text, const FieldDescriptor* field, Message* message) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (int32_t value; ParseNumber(text, &value)) {
        return StoreValue(field, message, &Reflection::SetInt32, &Reflection::AddInt32, value);
      }
      return false;
    case FieldDescriptor::CPPTYPE_INT64:
      if (int64_t value; ParseNumber(text, &value)) {
        return StoreValue(field, message, &Reflection::SetInt64, &Reflection::AddInt64, value);
      }
      return false;
    case FieldDescriptor::CPPTYPE_UINT32:
      if (uint32_t value; ParseNumber(text, &value)) {
        return StoreValue(field, message, &Reflection::SetUInt32, &Reflection::AddUInt32, value);
      }
      return false;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (uint64_t value; ParseNumber(text, &value)) {
        return StoreValue(field, message, &Reflection::SetUInt64, &Reflection::AddUInt64, value);
      }
      return false;
    case FieldDescriptor::CPPTYPE_FLOAT:
      if (float value; ParseNumber(text, &value)) {
        return StoreValue(field, message, &Reflection::SetFloat, &Reflection::AddFloat, value);
      }
      return false;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (double value; ParseNumber(text, &value)) {
        return StoreValue(field, message, &Reflection::SetDouble, &Reflection::AddDouble, value);
      }
      return false;
    default:
      return false;
  }
}

}  // namespace

bool SetScalar(const Node& scalar, const FieldDescriptor* field, Message* message) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return SetString(scalar, field, message);
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(scalar, field, message);
    case FieldDescriptor::CPPTYPE_BOOL:
      return !scalar.is_quoted && SetBool(scalar.text, field, message);
    default:
      return !scalar.is_quoted && SetNumber(scalar.text, field, message);
  }
}

}  // namespace tern::config
