#include "common/config/renamed.h"

#include <algorithm>

#include "common/config/fields.h"
#include "common/config/node.h"

namespace tern::config {

namespace {

bool HadName(const google::protobuf::FieldDescriptor& field, const std::string& name) {
  const auto& names = RuleOf(&field).formerly();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string FindRenamedKey(const std::string& parent, const std::string& name,
                           const google::protobuf::Descriptor& section) {
  for (int i = 0; i < section.field_count(); ++i) {
    if (HadName(*section.field(i), name)) return Join(parent, section.field(i)->name());
  }
  const std::string key = Join(parent, name);
  return FindKey([&](const auto& field) { return HadName(field, key); });
}

}  // namespace tern::config
