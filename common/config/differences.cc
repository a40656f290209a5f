#include "common/config/differences.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>

#include "common/base/text.h"
#include "common/config/canonical.h"
#include "common/config/node.h"

namespace tern::config {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

namespace {

// The most bytes of a value that a sentence ("KEY was A, is now B") shows.
constexpr size_t kMaxShownBytes = 60;

// Discards protobuf's error messages, which it would otherwise write to stderr.
class ErrorDiscarder : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string&) override {}
};

// Returns the value of a field as text. `index`: the item of a repeated field; -1 for a single
// field.
std::string ValueText(const Message& message, const FieldDescriptor* field, int index) {
  std::string text;
  if (field->message_type() == nullptr) {
    TextFormat::PrintFieldValueToString(message, field, index, &text);
    return text;
  }
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  const Reflection* reflection = message.GetReflection();
  printer.PrintToString(index < 0 ? reflection->GetMessage(message, field)
                                  : reflection->GetRepeatedMessage(message, field, index),
                        &text);
  if (text.ends_with(' ')) text.pop_back();
  return "{" + text + "}";
}

std::string ListText(const Message& message, const FieldDescriptor* field) {
  std::vector<std::string> items;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i)
    items.push_back(ValueText(message, field, i));
  return "[" + tern::Join(items) + "]";
}

class JobComparison {
 public:
  std::vector<std::string> TakeSentences() { return std::move(sentences_); }

  void Compare(const Message& was, const Message& is, const std::string& parent_key) {
    const auto* type = was.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      const std::string key = config::Join(parent_key, field->name());
      if (field->is_repeated()) {
        CompareLists(was, is, field, key);
      } else {
        CompareField(was, is, field, key);
      }
    }
  }

 private:
  void Add(const std::string& key, const std::string& was, const std::string& is) {
    sentences_.push_back(Cat(key, " was ", Printable(was, kMaxShownBytes), ", is now ",
                             Printable(is, kMaxShownBytes)));
  }

  void CompareField(const Message& was, const Message& is, const FieldDescriptor* field,
                    const std::string& key) {
    const Reflection* reflection = was.GetReflection();
    const bool was_set = reflection->HasField(was, field), is_set = reflection->HasField(is, field);
    if (was_set && is_set && field->message_type() != nullptr)
      return Compare(reflection->GetMessage(was, field), reflection->GetMessage(is, field), key);
    const auto text = [&](const Message& message, bool is_present) {
      return is_present ? ValueText(message, field, -1) : std::string("left out");
    };
    const std::string old_text = text(was, was_set), new_text = text(is, is_set);
    if (was_set != is_set || old_text != new_text) Add(key, old_text, new_text);
  }

  void CompareLists(const Message& was, const Message& is, const FieldDescriptor* field,
                    const std::string& key) {
    const Reflection* reflection = was.GetReflection();
    if (field->message_type() == nullptr) {
      const std::string old_text = ListText(was, field), new_text = ListText(is, field);
      if (old_text != new_text) Add(key, old_text, new_text);
      return;
    }
    const int num_before = reflection->FieldSize(was, field),
              num_now = reflection->FieldSize(is, field);
    if (num_before != num_now) Add(key, Cat("a list of ", num_before), Cat("a list of ", num_now));
    for (int i = 0; i < std::min(num_before, num_now); ++i) {
      Compare(reflection->GetRepeatedMessage(was, field, i),
              reflection->GetRepeatedMessage(is, field, i),
              config::Join(key, static_cast<size_t>(i)));
    }
  }

  std::vector<std::string> sentences_;
};

}  // namespace

std::string JobText(const pb::Job& job) {
  std::string text;
  TextFormat::PrintToString(WithoutLocalKeys(job), &text);
  return text;
}

Result<pb::Job> ReadJobText(const std::string& text) {
  ErrorDiscarder errors;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(static_cast<int>(kMaxDepth));
  pb::Job job;
  if (text.empty() || !parser.ParseFromString(text, &job))
    return Status(Code::kBadData, "the text is not a job of this version");
  return job;
}

std::vector<std::string> Differences(const Message& was, const Message& is) {
  JobComparison comparison;
  comparison.Compare(was, is, "");
  return comparison.TakeSentences();
}

}  // namespace tern::config
