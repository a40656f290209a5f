// What is wrong with a job: all of it, one line each, in the order of the file.
//   job.yaml:12:16: train.batch_total: saw 0; allowed: a whole number, at least 1
//   --set train.stesp=5: train.stesp: saw an unknown key; allowed: algorithm, ...; did you mean
//   train.steps?
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tern::config {

// Where a value was written. Line and column start at 1.
struct Position {
  int line = 0;
  int column = 0;
  int set = -1;  // the index of the override that wrote it; -1: the file
};

class Faults {
 public:
  // `name` stands for the file in messages.
  Faults(std::string name, const std::vector<std::string>& overrides)
      : name_(std::move(name)), overrides_(overrides) {}

  void Add(const Position& at, const std::string& key, const std::string& saw,
           const std::string& allowed, const std::string& meant = "");
  // No further fault about `key` is worth telling: a known fault already is its cause.
  void Mute(const std::string& key) { muted_.insert(key); }
  // Whether `key`, or a key that it stands in, is muted or was found at fault.
  bool About(std::string_view key) const;

  bool empty() const { return faults_.empty(); }
  // kBadJob; at most 200 lines, and how many more there are.
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

// `text` for a message: on one line, printable, at most some 60 bytes.
std::string Shown(std::string_view text);

}  // namespace tern::config
