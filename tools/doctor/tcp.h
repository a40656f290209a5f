// What the kernel's TCP does on long ways: between sites that are tens of milliseconds apart, its
// settings decide how much of a link a job gets.
#pragma once

#include <cstdint>
#include <string>

#include "proto/job.pb.h"
#include "tools/doctor/finding.h"

namespace tern::tools {

struct TcpSettings {
  // A connection that rested for longer than its round trip begins slowly again.
  bool slow_start_after_idle = false;
  // The largest buffers of a connection; 0: not known.
  uint64_t send_bytes = 0, receive_bytes = 0;
};
// Reads the settings of this machine, or of this network namespace. `root` stands for "/" in tests.
TcpSettings ReadTcpSettings(const std::string& root = "");

Finding JudgeTcp(const TcpSettings& settings);

// A finding if a server of the job listens on other than loopback addresses. Resolves names.
Findings CheckTcp(const pb::Job& job);

}  // namespace tern::tools
