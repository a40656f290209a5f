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

// Discards the error messages that protobuf would otherwise write to stderr.
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

  void Compare(const Message& old_message, const Message& new_message,
               const std::string& parent_key) {
    const auto* type = old_message.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      const std::string key = config::Join(parent_key, field->name());
      if (field->is_repeated()) {
        CompareLists(old_message, new_message, field, key);
      } else {
        CompareField(old_message, new_message, field, key);
      }
    }
  }

 private:
  void AddSentence(const std::string& key, const std::string& old_text,
                   const std::string& new_text) {
    sentences_.push_back(Cat(key, " was ", Printable(old_text, kMaxShownBytes), ", is now ",
                             Printable(new_text, kMaxShownBytes)));
  }

  void CompareField(const Message& old_message, const Message& new_message,
                    const FieldDescriptor* field, const std::string& key) {
    const Reflection* reflection = old_message.GetReflection();
    const bool was_set = reflection->HasField(old_message, field),
               is_set = reflection->HasField(new_message, field);
    if (was_set && is_set && field->message_type() != nullptr)
      return Compare(reflection->GetMessage(old_message, field),
                     reflection->GetMessage(new_message, field), key);
    const auto text_of_field = [&](const Message& message, bool is_present) {
      return is_present ? ValueText(message, field, -1) : std::string("left out");
    };
    const std::string old_text = text_of_field(old_message, was_set),
                      new_text = text_of_field(new_message, is_set);
    if (was_set != is_set || old_text != new_text) AddSentence(key, old_text, new_text);
  }

  void CompareLists(const Message& old_message, const Message& new_message,
                    const FieldDescriptor* field, const std::string& key) {
    const Reflection* reflection = old_message.GetReflection();
    if (field->message_type() == nullptr) {
      const std::string old_text = ListText(old_message, field),
                        new_text = ListText(new_message, field);
      if (old_text != new_text) AddSentence(key, old_text, new_text);
      return;
    }
    const int num_before = reflection->FieldSize(old_message, field),
              num_now = reflection->FieldSize(new_message, field);
    if (num_before != num_now)
      AddSentence(key, Cat("a list of ", num_before), Cat("a list of ", num_now));
    for (int i = 0; i < std::min(num_before, num_now); ++i) {
      Compare(reflection->GetRepeatedMessage(old_message, field, i),
              reflection->GetRepeatedMessage(new_message, field, i),
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
  parser.AllowUnknownField(true);
  pb::Job job;
  if (text.empty() || !parser.ParseFromString(text, &job))
    return Status(Code::kBadData, "the text is not a job");
  return job;
}

std::vector<std::string> Differences(const Message& old_message, const Message& new_message) {
  JobComparison comparison;
  comparison.Compare(old_message, new_message, "");
  return comparison.TakeSentences();
}

std::vector<std::string> DifferencesAtResume(const pb::Job& old_job, const pb::Job& new_job) {
  pb::Job old_keys = WithoutResumableKeys(old_job), new_keys = WithoutResumableKeys(new_job);
  for (const std::string& key : new_job.checkpoints().accept()) {
    ClearKey(key, &old_keys);
    ClearKey(key, &new_keys);
  }
  return Differences(old_keys, new_keys);
}

}  // namespace tern::config
