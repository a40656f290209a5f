#include "common/config/overrides.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "common/base/text.h"
#include "common/config/yaml.h"

namespace tern::config {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

// Splits a dotted key: "servers[0].address" and "servers.0.address" both give servers, 0, address.
std::vector<std::string> SplitKey(std::string_view key) {
  std::vector<std::string> names(1);
  for (const char c : key) {
    if (c == '.' || c == '[') {
      names.emplace_back();
    } else if (c != ']') {
      names.back() += c;
    }
  }
  return names;
}

std::optional<size_t> ParseIndex(const std::string& text) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return index;
}

// Erases the positions of `key` and of all keys in it.
void ErasePositions(const std::string& key, KeyPositions* key_positions) {
  for (auto it = key_positions->lower_bound(key);
       it != key_positions->end() && it->first.compare(0, key.size(), key) == 0;) {
    const bool is_inside = it->first.size() == key.size() || it->first[key.size()] == '.' ||
                           it->first[key.size()] == '[';
    it = is_inside ? key_positions->erase(it) : std::next(it);
  }
}

// One override.
class Application {
 public:
  Application(int number, const std::string& text, const ParseContext& context)
      : position_{1, 1, number}, override_text_(text), context_(context) {}

  void Apply(pb::Job* job) {
    const size_t equals_at = override_text_.find('=');
    if (equals_at == std::string::npos)
      return context_.faults->Add(position_, "", "no '='", "KEY=VALUE");
    value_ = override_text_.substr(equals_at + 1);
    path_ = SplitKey(std::string_view(override_text_).substr(0, equals_at));
    DescendAndReplace(job);
  }

 private:
  // Follows the rest of the path, from path_[depth_] on, starting in `message`, whose key is key_.
  // Then replaces the value.
  void DescendAndReplace(Message* message) {
    while (message != nullptr) {
      const Descriptor* type = message->GetDescriptor();
      const FieldDescriptor* field = type->FindFieldByName(path_[depth_]);
      if (field == nullptr)
        return ReportUnknownKey(position_, key_, path_[depth_], type, context_.faults);
      key_ = Join(key_, path_[depth_++]);
      if (depth_ == path_.size()) return Replace(field, message);
      message = field->is_repeated() ? MutableItem(field, message) : MutableSection(field, message);
    }
  }

  Message* MutableSection(const FieldDescriptor* field, Message* message) {
    if (field->message_type() == nullptr) return ReportNoSuchKey(field);
    return message->GetReflection()->MutableMessage(message, field);
  }

  Message* MutableItem(const FieldDescriptor* field, Message* message) {
    const auto num_items =
        static_cast<size_t>(message->GetReflection()->FieldSize(*message, field));
    const std::optional<size_t> index = ParseIndex(path_[depth_]);
    if (!index || *index >= num_items) {
      context_.faults->Add(position_, key_, "the item " + Excerpt(path_[depth_]),
                           num_items == 0 ? "the whole list: it has no items"
                                          : "items 0 to " + std::to_string(num_items - 1));
      return nullptr;
    }
    key_ = Join(key_, *index);
    ++depth_;
    if (field->message_type() == nullptr || depth_ == path_.size()) return ReportNoSuchKey(field);
    return message->GetReflection()->MutableRepeatedMessage(message, field,
                                                            static_cast<int>(*index));
  }

  Message* ReportNoSuchKey(const FieldDescriptor* field) {
    const bool is_item = field->is_repeated();
    const std::string allowed = is_item && field->message_type() != nullptr
                                    ? "one key of the item, or the whole list"
                                    : (is_item ? "the whole list" : "no keys below this one");
    context_.faults->Add(position_, key_,
                         "the key " + Excerpt(override_text_.substr(0, override_text_.find('='))),
                         allowed);
    return nullptr;
  }

  void Replace(const FieldDescriptor* field, Message* message) {
    const Node node = ParseValue(field);
    ErasePositions(key_, context_.key_positions);
    message->GetReflection()->ClearField(message, field);
    (*context_.key_positions)[key_] = position_;
    if (node.kind != Node::Kind::kNull || node.has_fault)
      FillField(node, key_, field, message, context_);
  }

  Node ParseValue(const FieldDescriptor* field) const {
    const bool is_text =
        field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field->is_repeated();
    const bool is_yaml =
        value_.empty() || value_ == "null" || value_[0] == '"' || value_[0] == '\'';
    if (!is_text || is_yaml)
      return ParseYaml(value_, key_, position_.override_index, context_.faults);
    Node node;
    node.kind = Node::Kind::kScalar;
    node.position = position_;
    node.text = value_;
    return node;
  }

  const Position position_;
  const std::string override_text_;
  const ParseContext& context_;
  std::string value_;              // VALUE
  std::vector<std::string> path_;  // the names and list indices of KEY
  size_t depth_ = 0;               // how many entries of path_ were followed so far
  std::string key_;                // the dotted key of these entries
};

}  // namespace

void ApplyOverrides(const std::vector<Override>& overrides, pb::Job* job,
                    const ParseContext& context) {
  for (size_t i = 0; i < overrides.size(); ++i) {
    Application(static_cast<int>(i), overrides[i].text, context).Apply(job);
  }
}

void SetNumServers(const Place& place, pb::Job* job) {
  const auto num_servers = static_cast<int>(place.servers.size());
  if (num_servers == 0) return;
  auto* servers = job->mutable_servers();
  const pb::Server last = servers->empty() ? pb::Server() : *servers->rbegin();
  while (servers->size() < num_servers) *servers->Add() = last;
  while (servers->size() > num_servers) servers->RemoveLast();
}

std::vector<Override> PlaceOverrides(const Place& place) {
  std::vector<Override> overrides;
  for (size_t s = 0; s < place.servers.size(); ++s) {
    overrides.push_back(
        {tern::Cat("servers.", s, ".address=", place.servers[s]), kServersVariable});
  }
  if (!place.workers.empty())
    overrides.push_back({"workers.count=" + place.workers, kWorkersVariable});
  if (!place.output_dir.empty())
    overrides.push_back({"output_dir=" + place.output_dir, kOutputVariable});
  return overrides;
}

}  // namespace tern::config
