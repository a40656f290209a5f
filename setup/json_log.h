// Lines of the log as JSON (metrics.log_format: json).
#pragma once

#include <cstdint>
#include <string>

#include "common/base/daemon_log.h"

namespace tern::setup {

// Returns one JSON object on one line, without a newline: {"time": "2026-03-01T09:05:07.000123Z",
// "level": "INFO", "role": "worker", "rank": 1, "file": "trainer.cc", "line": 12, "message": "..."}
// and the line's numbers, each under its name. The time is RFC 3339, in UTC. Control characters are
// escaped, bytes that are not UTF-8 are replaced, and a number that is not finite becomes null.
std::string JsonLogLine(const LogLine& line, const std::string& role, uint32_t rank);

}  // namespace tern::setup
