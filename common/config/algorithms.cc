#include "common/config/algorithms.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

namespace tern::config {

namespace {

using google::protobuf::FieldDescriptor;

std::vector<const FieldDescriptor*> Sections() {
  std::vector<const FieldDescriptor*> sections;
  const auto* type = pb::Train::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    if (type->field(i)->options().HasExtension(pb::traits)) sections.push_back(type->field(i));
  }
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

const pb::AlgorithmTraits* TraitsOf(const pb::Train& train) {
  for (const FieldDescriptor* section : Sections()) {
    if (section->name() == train.algorithm()) return &section->options().GetExtension(pb::traits);
  }
  return nullptr;
}

std::vector<std::string> SectionsOfOthers(const pb::Train& train) {
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

bool HasCompensation(const pb::LocalUpdater& local) {
  return local.name() == "dcasgd_c" || local.name() == "dcasgd_a";
}

bool HasMeanSquare(const pb::LocalUpdater& local) { return local.name() == "dcasgd_a"; }

bool UsesCodec(const pb::Exchange& exchange, const std::string& name) {
  return exchange.codec() == name || exchange.pull_codec() == name ||
         std::any_of(exchange.rules().begin(), exchange.rules().end(),
                     [&](const pb::CodecRule& rule) { return rule.codec() == name; });
}

bool WorkersFormTerm(const pb::Train& train, bool values_pushed) {
  const pb::Dcasgd& job = train.algorithm() == "dcasgd_c" ? train.dcasgd_c() : train.dcasgd_a();
  return job.has_formed() ? job.formed() == pb::Dcasgd::on_worker : !values_pushed;
}

}  // namespace tern::config
