// --set KEY=VALUE: sets one key of a job that was read from a file.
#pragma once

#include <string>
#include <vector>

#include "common/config/fill.h"
#include "proto/job.pb.h"

namespace tern::config {

// Applies the overrides in order; if several set the same key, the last one counts. KEY is dotted,
// with list items by number: servers.0.address or servers[0].address. VALUE is YAML; it replaces
// the old value (a list or a map as a whole), or removes the key if it is null. For a key of type
// text, VALUE is the text, with or without quotes.
void ApplyOverrides(const std::vector<std::string>& overrides, pb::Job* job,
                    const ParseContext& context);

}  // namespace tern::config
