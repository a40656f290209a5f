// What one step of a job costs on one machine, for `tern predict`: measured on this machine
// (measure.h), or read from a file that was written on a worker's machine.
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
  double prepare = 0;  // on a worker: statistics and scaler
  double encode = 0;   // on a worker
  double add = 0;      // on a server: adding one worker's code to the sum
  double close = 0;    // on a server: encoding the sum
  double decode = 0;   // on a worker: decoding the sum into floats
  double apply = 0;    // on a worker: decoding and the optimizer in one pass
};

struct Profile {
  std::string model;
  uint64_t parameters = 0;
  std::string machine;
  bool waits = false;  // train.compute: wait; a step uses no core
  // Forward and backward of b samples take compute_fixed_s + b compute_sample_s.
  double compute_fixed_s = 0, compute_sample_s = 0;
  // By tensor, as fractions of that time: when the first layer reads the tensor (need), and when
  // its gradient is final (ready).
  std::vector<double> need, ready;
  double update_s = 0;  // per element: the optimizer alone
  double copy_s = 0;    // per element: copying an array
  // A message over loopback: its time without payload, from one thread's send to the other's
  // receive; its CPU time on each side; and the CPU time per byte of payload on each side.
  double message_s = 0, message_cpu_s = 0, byte_cpu_s = 0;
  double hop_s = 0;                          // passing an item from one thread to another
  std::map<std::string, CodecSpeed> codecs;  // by codec::Codec::name()

  // kBadData: keys are missing or invalid; messages call the profile `name`.
  static Result<Profile> Parse(const std::string& json, const std::string& name);
  static Result<Profile> Read(const std::string& path);
  std::string ToJson() const;
  Status Write(const std::string& path) const;

  // kBadData if it was measured for another model.
  Status CheckFor(const setup::Setup& setup) const;
  // kBadData, with the list of measured codecs, if `codec` was not measured.
  Result<CodecSpeed> SpeedOf(const std::string& codec) const;
};

// The names of the codecs that an exchange plan uses, each once.
std::vector<std::string> CodecsOf(const protocol::ExchangePlan& plan);

}  // namespace tern::tools
