#pragma once

#include <algorithm>
#include <string>

#include "proto/job.pb.h"

namespace tern::config {

// Whether a tensor, or what is pulled, may be coded by the codec of that name.
inline bool UsesCodec(const pb::Exchange& exchange, const std::string& name) {
  return exchange.codec() == name || exchange.pull_codec() == name ||
         std::any_of(exchange.rules().begin(), exchange.rules().end(),
                     [&](const pb::CodecRule& rule) { return rule.codec() == name; });
}

}  // namespace tern::config
