#pragma once

#include <algorithm>
#include <string>

#include "proto/job.pb.h"

namespace tern::config {

// Whether a job uses the codec `name` for any push (from workers to servers) or for the pull (from
// servers to workers).
inline bool UsesCodec(const pb::Exchange& exchange, const std::string& name) {
  return exchange.codec() == name || exchange.pull_codec() == name ||
         std::any_of(exchange.rules().begin(), exchange.rules().end(),
                     [&](const pb::CodecRule& rule) { return rule.codec() == name; });
}

}  // namespace tern::config
