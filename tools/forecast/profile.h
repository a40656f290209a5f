// What one step of a job costs on one machine, for `tern forecast`: measured on this machine
// (measure.h), or read from a file that was written on a worker's machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::tools {

// What the phases of a codec cost: seconds per element on one core.
struct CodecSpeed {
  double prepare_s = 0;  // A worker computes statistics and the scaler (multiplier of its codes).
  double encode_s = 0;   // A worker encodes its gradient.
  double add_s = 0;      // A server adds one worker's code to the sum.
  double close_s = 0;    // A server encodes the sum.
  double decode_s = 0;   // A worker decodes the sum into floats.
  double apply_s = 0;    // A worker decodes the sum and runs the optimizer in one pass.
};

struct Profile {
  std::string model;
  uint64_t parameters = 0;
  std::string machine;
  bool waits = false;  // The job has `train.compute: wait`: a step only waits and uses no core.
  // Forward and backward of b samples take compute_fixed_s + b * compute_sample_s seconds.
  double compute_fixed_s = 0, compute_sample_s = 0;
  // By tensor, as fractions of the time of forward and backward: when a layer first reads the
  // tensor (need_shares), and when the tensor's gradient is final (ready_shares).
  std::vector<double> need_shares, ready_shares;
  double update_s = 0;  // Seconds per element of the optimizer alone.
  double copy_s = 0;    // Seconds per element to copy an array.
  // A message over loopback: its seconds without payload, from the send to the receive; its CPU
  // time on each side without payload; and the CPU time per byte of payload on each side.
  double message_s = 0, message_cpu_s = 0, byte_cpu_s = 0;
  double hop_s = 0;                          // Seconds to pass an item from one thread to another.
  std::map<std::string, CodecSpeed> codecs;  // By codec::Codec::name().

  // Reads a profile from JSON. Returns kBadData if keys are missing or invalid; the message calls
  // the profile `name`.
  static Result<Profile> Parse(const std::string& json, const std::string& name);
  static Result<Profile> Read(const std::string& path);
  std::string ToJson() const;
  Status Write(const std::string& path) const;

  // Returns kBadData if the profile is of a model with another number of parameters or tensors.
  Status CheckFor(const setup::Setup& setup) const;
  // Returns the speed of `codec`, or kBadData if it was not measured; the message lists the codecs
  // that were.
  Result<CodecSpeed> SpeedOf(const std::string& codec) const;
};

}  // namespace tern::tools
