// The base of the checks of rules between keys.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/config/fill.h"
#include "proto/job.pb.h"

namespace tern::config {

class BetweenKeys {
 protected:
  BetweenKeys(const pb::Job& job, const Reading& reading) : job_(job), reading_(reading) {}

  // Whether none of these keys has a fault already.
  bool Sound(std::initializer_list<std::string> keys) const {
    return std::none_of(keys.begin(), keys.end(),
                        [&](const std::string& key) { return reading_.faults->About(key); });
  }
  void Report(const std::string& key, const std::string& saw, const std::string& allowed) {
    reading_.faults->Add(PositionOf(*reading_.origins, key), key, saw, allowed);
  }
  // The names in a table that the caller of the validation passed; empty if it passed none.
  const std::vector<std::string>& Names(const std::string& table) const {
    static const std::vector<std::string> none;
    const auto names = reading_.tables.find(table);
    return names == reading_.tables.end() ? none : names->second;
  }
  bool IsIn(const std::string& table, const std::string& name) const {
    const std::vector<std::string>& names = Names(table);
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  const pb::Job& job_;
  const Reading& reading_;
};

}  // namespace tern::config
