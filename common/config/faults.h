// Collects all faults of a job, one line per fault, in the order of the file:
//
//   job.yaml:12:16: train.batch_total: saw 0; allowed: a whole number, at least 1
//   --set sede=5: sede: saw an unknown key; allowed: ..., seed, ...; did you mean seed?
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
  int set = -1;  // the index of the --set override that has it; -1: the job file
};

class Faults {
 public:
  // Messages call the job file `name`.
  Faults(std::string name, const std::vector<std::string>& overrides)
      : name_(std::move(name)), overrides_(overrides) {}

  void Add(const Position& at, const std::string& key, const std::string& saw,
           const std::string& allowed, const std::string& meant = "");
  // Suppresses further faults of `key`, because a fault that is already known causes them.
  void Mute(const std::string& key) { muted_.insert(key); }
  // Whether `key`, or a section that contains it, has a fault or is muted.
  bool HasFault(std::string_view key) const;

  bool empty() const { return faults_.empty(); }
  // Ok without faults; else kBadJob with at most 200 lines and the number of further faults.
  Status ToStatus() const;

 private:
  struct Fault {
    Position at;
    std::string text;
  };
  const std::string name_;
  const std::vector<std::string> overrides_;
  std::vector<Fault> faults_;
  std::set<std::string, std::less<>> muted_;
};

// `text` for use in a message: printable, on one line, cut to about 60 bytes.
std::string Excerpt(std::string_view text);

}  // namespace tern::config
