// Keys that `tern run` and `tern launch` make, on one machine, for a job with `security: curve` and
// without the section `keys`. They end with the run.
#pragma once

#include <memory>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::tools {

class EphemeralKeys {
 public:
  // Makes a pair of keys for each daemon of the job; none if the job needs none. kInternal if the
  // system has no files in memory.
  static Result<std::unique_ptr<EphemeralKeys>> MakeFor(const pb::Job& job);
  ~EphemeralKeys();  // Closes the descriptors.
  EphemeralKeys(const EphemeralKeys&) = delete;
  EphemeralKeys& operator=(const EphemeralKeys&) = delete;

  // Descriptors for GiveKeysFd (setup::MakeKeysFd), with a daemon's secret key and all public keys:
  // those of the servers, then those of the workers. A daemon that starts again gets the same.
  const std::vector<int>& fds() const { return fds_; }

 private:
  EphemeralKeys() = default;

  std::vector<int> fds_;
};

}  // namespace tern::tools
