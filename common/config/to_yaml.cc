#include <cctype>

#include "common/config/canonical.h"
#include "common/config/fields.h"
#include "common/config/job.h"
#include "common/config/model_yaml.h"
#include "common/config/rules.h"
#include "proto/job.pb.h"

namespace tern::config {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

namespace {

// Whether a text needs no quotes in YAML, because YAML does not read it as a number, boolean or
// null.
bool IsPlainWord(const std::string& text) {
  const auto is_plain_char = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '/' || c == '.' || c == '-';
  };
  const auto first_char = static_cast<unsigned char>(text.empty() ? ' ' : text[0]);
  if (!std::isalpha(first_char) && first_char != '_' && first_char != '/') return false;
  for (const char c : text) {
    if (!is_plain_char(static_cast<unsigned char>(c))) return false;
  }
  std::string lower_case = text;
  for (char& c : lower_case) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* word : {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}) {
    if (lower_case == word) return false;
  }
  return true;
}

std::string QuoteIfNeeded(const std::string& text) {
  if (IsPlainWord(text)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// The value of a single field, or item `index` of a repeated field, as YAML.
std::string ScalarText(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection* reflection = message.GetReflection();
  const bool is_repeated = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return std::to_string(is_repeated ? reflection->GetRepeatedInt32(message, field, index)
                                        : reflection->GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return std::to_string(is_repeated ? reflection->GetRepeatedInt64(message, field, index)
                                        : reflection->GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return std::to_string(is_repeated ? reflection->GetRepeatedUInt32(message, field, index)
                                        : reflection->GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return std::to_string(is_repeated ? reflection->GetRepeatedUInt64(message, field, index)
                                        : reflection->GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return NumberText(is_repeated ? reflection->GetRepeatedFloat(message, field, index)
                                    : reflection->GetFloat(message, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return NumberText(is_repeated ? reflection->GetRepeatedDouble(message, field, index)
                                    : reflection->GetDouble(message, field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return (is_repeated ? reflection->GetRepeatedBool(message, field, index)
                          : reflection->GetBool(message, field))
                 ? "true"
                 : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return (is_repeated ? reflection->GetRepeatedEnum(message, field, index)
                          : reflection->GetEnum(message, field))
          ->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return QuoteIfNeeded(is_repeated ? reflection->GetRepeatedString(message, field, index)
                                       : reflection->GetString(message, field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return "";
}

class YamlWriter {
 public:
  // Leaves out the keys that a job with this train.compute must not have, and those that have their
  // default and no effect.
  explicit YamlWriter(pb::Train::Compute compute) : compute_(compute) {}

  std::string TakeText() { return std::move(out_); }

  // Writes the keys of `message`, one per line, indented by `indent` spaces. Before the first key,
  // writes `first_indent` instead of the spaces. Returns false if there are no keys.
  bool WriteKeys(const Message& message, size_t indent, std::string first_indent) {
    bool has_keys = false;
    const auto* type = message.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      if (!field->is_repeated() && !message.GetReflection()->HasField(message, field)) continue;
      if (IsMeaningless(field, compute_)) continue;
      if (!HasEffect(field, message) && HasDefault(field, message)) continue;
      out_ += has_keys ? std::string(indent, ' ') : first_indent;
      has_keys = true;
      out_ += field->name() + ":";
      WriteField(message, field, indent);
    }
    return has_keys;
  }

 private:
  void WriteField(const Message& message, const FieldDescriptor* field, size_t indent) {
    const Reflection* reflection = message.GetReflection();
    if (field->is_repeated()) return WriteList(message, field, indent);
    if (field->message_type() == nullptr) {
      out_ += " " + ScalarText(message, field, 0) + "\n";
    } else if (!WriteKeys(reflection->GetMessage(message, field), indent + 2,
                          "\n" + std::string(indent + 2, ' '))) {
      out_ += " {}\n";
    }
  }

  void WriteList(const Message& message, const FieldDescriptor* field, size_t indent) {
    const Reflection* reflection = message.GetReflection();
    const int num_items = reflection->FieldSize(message, field);
    if (field->message_type() == nullptr || num_items == 0) {
      out_ += " [";
      for (int i = 0; i < num_items; ++i)
        out_ += (i == 0 ? "" : ", ") + ScalarText(message, field, i);
      out_ += "]\n";
      return;
    }
    out_ += "\n";
    for (int i = 0; i < num_items; ++i) {
      const std::string bullet = std::string(indent + 2, ' ') + "- ";
      if (!WriteKeys(reflection->GetRepeatedMessage(message, field, i), indent + 4, bullet))
        out_ += bullet + "{}\n";
    }
  }

  const pb::Train::Compute compute_;
  std::string out_;
};

}  // namespace

std::string ToYaml(const pb::Job& job) {
  pb::Job complete_job = job;
  FillDefaults(&complete_job);
  YamlWriter writer(job.train().compute());
  writer.WriteKeys(complete_job, 0, "");
  return writer.TakeText();
}

std::string ModelToYaml(const pb::Model& model) {
  YamlWriter writer(pb::Train::net);
  writer.WriteKeys(model, 2, "model:\n  ");
  return writer.TakeText();
}

}  // namespace tern::config
