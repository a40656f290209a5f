// Rules that validate a job's configuration, and defaults. Each concerns the keys of a single
// algorithm, and can be expressed neither by the options of a key in job.proto nor by the
// algorithm's traits. It is in the file of its algorithm; rules.cc has the table.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "proto/job.pb.h"

namespace tern::algorithm {

// The interface through which the rules report faults and ask about other keys. A key is given with
// its full name, for example "train.ssgd.backup_workers".
class RuleReporter {
 public:
  virtual ~RuleReporter() = default;

  // Whether none of these keys has a fault yet. A rule skips keys that already have one.
  virtual bool AreValid(std::initializer_list<std::string> keys) const = 0;
  // Reports a fault: `saw` is the value at the key, `allowed` what is allowed there.
  virtual void Report(const std::string& key, const std::string& saw,
                      const std::string& allowed) = 0;
  virtual void ReportNumber(const std::string& key, double saw, const std::string& allowed) = 0;
  // Returns the first codec for pushes that does not send the (rounded) gradient itself. If another
  // key than the codec's name is the reason, the returned text names that key. Empty if there is no
  // such codec.
  virtual std::string FirstCodecNotSendingValues() const = 0;
  // Returns the names of the codecs that send the gradient itself unless error_feedback is on, for
  // example "one of fp32, fp16, bf16".
  virtual std::string CodecsSendingValues() const = 0;
};

// Sets the missing keys of the job's algorithm that have a default of their own.
void FillOwnDefaults(pb::Job* job);
// Returns why a part of the job's algorithm has no effect in this job, a sentence without a full
// stop; empty if all have. `steps_per_epoch`: 0 if it is not known; what depends on it then has an
// effect. REQUIRES a job without faults, with all defaults.
std::string WarningOfAlgorithm(const pb::Job& job, uint64_t steps_per_epoch = 0);
// Lets the job's algorithm be itself from the first step on, for trainings that are shorter than
// its first steps, in which it is another one.
void DropWarmup(pb::Job* job);
// Checks the rules of the job's algorithm. REQUIRES that all defaults of the job are filled in.
void CheckOwnRules(const pb::Job& job, RuleReporter* reporter);

}  // namespace tern::algorithm
