#include "common/algorithm/algorithms.h"

#include <google/protobuf/text_format.h>

namespace tern::algorithm {

namespace {

using google::protobuf::FieldDescriptor;

const std::vector<const FieldDescriptor*>& Sections() {
  static const std::vector<const FieldDescriptor*> sections = [] {
    std::vector<const FieldDescriptor*> algorithm_sections;
    const auto* type = pb::Train::descriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      if (type->field(i)->options().HasExtension(pb::traits))
        algorithm_sections.push_back(type->field(i));
    }
    return algorithm_sections;
  }();
  return sections;
}

}  // namespace

const std::vector<std::string>& AlgorithmNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> section_names;
    for (const FieldDescriptor* section : Sections()) section_names.push_back(section->name());
    return section_names;
  }();
  return names;
}

const FieldDescriptor* SectionOf(const pb::Train& train) {
  for (const FieldDescriptor* section : Sections()) {
    if (section->name() == train.algorithm()) return section;
  }
  return nullptr;
}

const pb::AlgorithmTraits* TraitsOf(const pb::Train& train) {
  const FieldDescriptor* section = SectionOf(train);
  return section == nullptr ? nullptr : &section->options().GetExtension(pb::traits);
}

std::string DescribeAlgorithm(const pb::Train& train) {
  const FieldDescriptor* section = SectionOf(train);
  if (section == nullptr) return train.algorithm();
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string keys;
  printer.PrintToString(train.GetReflection()->GetMessage(train, section), &keys);
  if (!keys.empty() && keys.back() == ' ') keys.pop_back();
  return keys.empty() ? train.algorithm() : train.algorithm() + " (" + keys + ")";
}

std::vector<std::string> SectionsOfOtherAlgorithms(const pb::Train& train) {
  std::vector<std::string> other_sections;
  for (const FieldDescriptor* section : Sections()) {
    if (section->name() != train.algorithm() && train.GetReflection()->HasField(train, section))
      other_sections.push_back(section->name());
  }
  return other_sections;
}

std::vector<std::string> AlgorithmsWithCloses(pb::AlgorithmTraits::Closes closes) {
  std::vector<std::string> names;
  for (const FieldDescriptor* section : Sections()) {
    if (section->options().GetExtension(pb::traits).closes() == closes)
      names.push_back(section->name());
  }
  return names;
}

}  // namespace tern::algorithm
