// The base class of checkers of rules that relate several keys of a job.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/config/fill.h"
#include "proto/job.pb.h"

namespace tern::config {

class CrossKeyChecker {
 protected:
  CrossKeyChecker(const pb::Job& job, const ParseContext& context) : job_(job), context_(context) {}

  // Whether none of these keys has a fault yet.
  bool AreValid(std::initializer_list<std::string> keys) const {
    return std::none_of(keys.begin(), keys.end(),
                        [&](const std::string& key) { return context_.faults->HasFault(key); });
  }
  // Adds a fault of `key`: what value the job has, and which values are allowed.
  void Report(const std::string& key, const std::string& saw, const std::string& allowed) {
    context_.faults->Add(PositionOf(*context_.key_positions, key), key, saw, allowed);
  }
  // The names in a table; empty if the caller of the validation passed no such table.
  const std::vector<std::string>& NamesInTable(const std::string& table) const {
    static const std::vector<std::string> no_names;
    const auto entry = context_.tables.find(table);
    return entry == context_.tables.end() ? no_names : entry->second;
  }
  bool IsInTable(const std::string& table, const std::string& name) const {
    const std::vector<std::string>& names = NamesInTable(table);
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  const pb::Job& job_;
  const ParseContext& context_;
};

}  // namespace tern::config
