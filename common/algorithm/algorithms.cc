#include "common/algorithm/algorithms.h"

namespace tern::algorithm {

namespace {

using google::protobuf::FieldDescriptor;

const std::vector<const FieldDescriptor*>& Sections() {
  static const std::vector<const FieldDescriptor*> sections = [] {
    std::vector<const FieldDescriptor*> all;
    const auto* type = pb::Train::descriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      if (type->field(i)->options().HasExtension(pb::traits)) all.push_back(type->field(i));
    }
    return all;
  }();
  return sections;
}

}  // namespace

const std::vector<std::string>& AlgorithmNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const FieldDescriptor* section : Sections()) all.push_back(section->name());
    return all;
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

std::vector<std::string> SectionsOfOtherAlgorithms(const pb::Train& train) {
  std::vector<std::string> others;
  for (const FieldDescriptor* section : Sections()) {
    if (section->name() != train.algorithm() && train.GetReflection()->HasField(train, section))
      others.push_back(section->name());
  }
  return others;
}

std::vector<std::string> AlgorithmsThatClose(pb::AlgorithmTraits::Closes closes) {
  std::vector<std::string> names;
  for (const FieldDescriptor* section : Sections()) {
    if (section->options().GetExtension(pb::traits).closes() == closes)
      names.push_back(section->name());
  }
  return names;
}

}  // namespace tern::algorithm
