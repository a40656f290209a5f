// Collects all faults of a job, one line per fault: in the order of the file, then those of the
// environment, then those of --set options.
//
//   job.yaml:12:16: train.batch_total: saw 0; allowed: a whole number, at least 1
//   --set sede=5: sede: saw an unknown key; did you mean seed? Allowed: one of name, ...
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tern::config {

// Where a value is written. Line and column count from 1.
struct Position {
  int line = 0;
  int column = 0;
  // The index of the override that has the value; -1: the value is in the job file.
  int override_index = -1;
};

class Faults {
 public:
  // `name`: what messages call the job file. `override_names`: what they call each override, such
  // as "--set seed=5".
  Faults(std::string name, std::vector<std::string> override_names)
      : file_name_(std::move(name)), override_names_(std::move(override_names)) {}

  // Adds a fault of `key` at `position`: the value seen and the values allowed, in words.
  // `suggestion`, if not empty, is a name that the user may have misspelt.
  void Add(const Position& position, const std::string& key, const std::string& saw,
           const std::string& allowed, const std::string& suggestion = "");
  // HasFault then returns true for `key`, so that callers report no consequences of a known fault.
  void Mute(const std::string& key) { muted_keys_.insert(key); }
  // Whether `key`, or a section that contains it, has a fault or is muted.
  bool HasFault(std::string_view key) const;

  // A position as messages show it: "job.yaml:12:16", or "--set seed=5".
  std::string PlaceText(const Position& position) const;

  bool empty() const { return faults_.empty(); }
  // Ok without faults; else kBadJob with at most 200 lines and the number of further faults.
  Status ToStatus() const;

 private:
  struct Fault {
    Position position;
    std::string text;
  };
  const std::string file_name_;
  const std::vector<std::string> override_names_;
  std::vector<Fault> faults_;
  std::set<std::string, std::less<>> muted_keys_;  // Keys with a fault, and keys given to Mute.
};

// Returns `text` as messages show it: printable, on one line, cut to about 60 bytes.
std::string Excerpt(std::string_view text);

}  // namespace tern::config
