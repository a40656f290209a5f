// The rules between keys that are one algorithm's own: what neither an option of a single key nor
// the traits of the algorithm say. Each stands in the file of its algorithm; rules.cc has the
// table.
#pragma once

#include <initializer_list>
#include <string>

#include "proto/job.pb.h"

namespace tern::algorithm {

// Whom a rule tells of a fault, and whom it asks. Keys are whole: "train.ssgd.backup_workers".
class Judge {
 public:
  virtual ~Judge() = default;

  // Whether no fault of these keys is known: a rule passes over keys that are at fault already.
  virtual bool Sound(std::initializer_list<std::string> keys) const = 0;
  // What was seen there, and what is allowed.
  virtual void Report(const std::string& key, const std::string& saw,
                      const std::string& allowed) = 0;
  virtual void ReportNumber(const std::string& key, double saw, const std::string& allowed) = 0;
  // The first codec of the up-link that pushes something else than the gradient, rounded at most,
  // and what makes it so if that is another key; empty if there is none.
  virtual std::string CodecOfOtherThanValues() const = 0;
  // What to choose from instead, unless there is error feedback: "fp32, fp16 or bf16".
  virtual std::string CodecsOfValues() const = 0;
};

// Checks the rules of the job's algorithm, on a job with its defaults filled in.
void CheckOwnRules(const pb::Job& job, Judge* judge);

}  // namespace tern::algorithm
