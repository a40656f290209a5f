#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "common/config/node.h"
#include "proto/job.pb.h"

namespace tern::config {

// Whether a job uses the codec `name` for any push (from workers to servers) or for the pull (from
// servers to workers).
inline bool UsesCodec(const pb::Exchange& exchange, const std::string& name) {
  return exchange.codec() == name || exchange.pull_codec() == name ||
         std::any_of(exchange.rules().begin(), exchange.rules().end(),
                     [&](const pb::CodecRule& rule) { return rule.codec() == name; });
}

// Calls `visit` with the key and the name of each codec for pushes.
inline void ForEachPushCodec(
    const pb::Exchange& exchange,
    const std::function<void(const std::string& key, const std::string& codec)>& visit) {
  visit("exchange.codec", exchange.codec());
  for (int i = 0; i < exchange.rules_size(); ++i)
    visit(Join(Join("exchange.rules", static_cast<size_t>(i)), "codec"), exchange.rules(i).codec());
}

}  // namespace tern::config
