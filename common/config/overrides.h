// --set KEY=VALUE: sets one key of a job after it was read.
#pragma once

#include <string>
#include <vector>

#include "common/config/fill.h"
#include "proto/job.pb.h"

namespace tern::config {

// Applies the overrides in order; a later one wins. KEY is dotted, with list items by number:
// servers.0.address or servers[0].address. VALUE is YAML; it replaces the old value (a list or a
// map as a whole), or removes the key if it is null. For a key of type text, VALUE is that text,
// with or without quotes.
void ApplyOverrides(const std::vector<std::string>& overrides, pb::Job* job,
                    const Reading& reading);

}  // namespace tern::config
