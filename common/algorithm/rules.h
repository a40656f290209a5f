// Validation rules between keys that concern a single algorithm and that neither options of keys
// nor the algorithm's traits can express. Each is in the file of its algorithm; rules.cc has the
// table.
#pragma once

#include <initializer_list>
#include <string>

#include "proto/job.pb.h"

namespace tern::algorithm {

// The rules report faults here and ask here about other keys. Keys are complete:
// "train.ssgd.backup_workers".
class RuleReporter {
 public:
  virtual ~RuleReporter() = default;

  // Whether none of these keys has a fault yet. A rule skips keys that already have one.
  virtual bool AreValid(std::initializer_list<std::string> keys) const = 0;
  // Reports what was seen at a key, and what is allowed there.
  virtual void Report(const std::string& key, const std::string& saw,
                      const std::string& allowed) = 0;
  virtual void ReportNumber(const std::string& key, double saw, const std::string& allowed) = 0;
  // The first codec for pushes that sends more than a rounded gradient, with the key that is
  // responsible if it is not the codec itself; empty if there is none.
  virtual std::string FirstCodecNotSendingValues() const = 0;
  // The codecs that send the gradient itself unless error_feedback is on: "one of fp32, fp16,
  // bf16".
  virtual std::string CodecsSendingValues() const = 0;
};

// Checks the rules of the job's algorithm. REQUIRES that all defaults of the job are filled in.
void CheckOwnRules(const pb::Job& job, RuleReporter* reporter);

}  // namespace tern::algorithm
