// The costs of one step of a job on one machine, for `tern predict`: measured here
// (measure.h) or read from a file that was written where the workers are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::tools {

// Seconds per element, on one core.
struct CodecSpeed {
  double prepare = 0;  // worker: statistics and scaler
  double encode = 0;   // worker
  double add = 0;      // server: one worker's code into the sum
  double close = 0;    // server: the sum's own code
  double decode = 0;   // worker: the sum's code into numbers
  double apply = 0;    // worker: decode and optimizer in one pass
};

struct Profile {
  std::string model;
  uint64_t parameters = 0;
  std::string machine;
  bool waits = false;  // train.compute: wait; a step uses no core
  // Forward and backward of b samples take compute_fixed_s + b compute_sample_s.
  double compute_fixed_s = 0, compute_sample_s = 0;
  // By tensor, as fractions of that time: when the first layer reads it, when its gradient is
  // final.
  std::vector<double> need, ready;
  double update_s = 0;  // per element: the optimizer alone
  double copy_s = 0;    // per element: one array into another
  // A message without payload over loopback, from one thread's send to the other's receive; the CPU
  // time in it, on each side; and the CPU time per byte of payload, on each side.
  double message_s = 0, message_cpu_s = 0, byte_cpu_s = 0;
  double hop_s = 0;                          // from one thread to the next
  std::map<std::string, CodecSpeed> codecs;  // by codec::Codec::name()

  // kBadData: keys are missing or invalid; `name` is used in messages.
  static Result<Profile> Parse(const std::string& json, const std::string& name);
  static Result<Profile> Read(const std::string& path);
  std::string ToJson() const;
  Status Write(const std::string& path) const;

  // kBadData if it was measured for another model.
  Status CheckFor(const setup::Setup& setup) const;
  // kBadData, with the measured codecs, if that codec was not measured.
  Result<CodecSpeed> SpeedOf(const std::string& codec) const;
};

// The names of the codecs that an exchange plan uses, each once.
std::vector<std::string> CodecsOf(const protocol::ExchangePlan& plan);

}  // namespace tern::tools
