// Tells which codecs a job uses, for what.
#pragma once

#include <functional>
#include <string>

#include "common/config/node.h"
#include "proto/job.pb.h"

namespace tern::config {

// The name of the section of `exchange` with the keys of a codec, if the codec has keys: its own
// name, or that of the codec whose codes it entropy-codes.
inline std::string SectionOfCodec(const std::string& codec) {
  return codec == "qsgd_shared_ans" ? "qsgd_shared" : codec;
}

// Calls `visit` with the key and the name of each codec for pushes.
inline void ForEachPushCodec(
    const pb::Exchange& exchange,
    const std::function<void(const std::string& key, const std::string& codec)>& visit) {
  visit("exchange.codec", exchange.codec());
  for (int i = 0; i < exchange.rules_size(); ++i)
    visit(Join(Join("exchange.rules", static_cast<size_t>(i)), "codec"), exchange.rules(i).codec());
}

// Whether a job uses the codec `name`, or one with the same section, for any push (from workers to
// servers).
inline bool PushesWithCodec(const pb::Exchange& exchange, const std::string& name) {
  bool pushes = false;
  ForEachPushCodec(exchange, [&](const std::string&, const std::string& codec) {
    pushes = pushes || SectionOfCodec(codec) == name;
  });
  return pushes;
}

// Whether any push has a codec that reads exchange.error_feedback.
inline bool ReadsErrorFeedback(const pb::Exchange& exchange) {
  return PushesWithCodec(exchange, "fp16") || PushesWithCodec(exchange, "bf16");
}

// PushesWithCodec, or the same for the pull (from servers to workers).
inline bool UsesCodec(const pb::Exchange& exchange, const std::string& name) {
  return PushesWithCodec(exchange, name) || SectionOfCodec(exchange.pull_codec()) == name;
}

}  // namespace tern::config
