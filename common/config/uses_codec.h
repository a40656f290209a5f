#pragma once

#include <algorithm>
#include <string>

#include "proto/job.pb.h"

namespace tern::config {

// Whether some tensor, or the pull, may be coded by the codec of this name.
inline bool UsesCodec(const pb::Exchange& exchange, const std::string& name) {
  return exchange.codec() == name || exchange.pull_codec() == name ||
         std::any_of(exchange.rules().begin(), exchange.rules().end(),
                     [&](const pb::CodecRule& rule) { return rule.codec() == name; });
}

}  // namespace tern::config
