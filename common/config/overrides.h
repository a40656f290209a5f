// --set KEY=VALUE: one key of a job that was read already.
#pragma once

#include <string>
#include <vector>

#include "common/config/fill.h"
#include "proto/job.pb.h"

namespace tern::config {

// Applies the overrides in order; a later one wins. KEY is dotted, items of a list by their number:
// servers.0.address or servers[0].address. VALUE is YAML, replaces what was there (a list or a map
// as a whole), and takes the key away if it is null; where the key takes a text, VALUE is that
// text, with or without quotes.
void ApplyOverrides(const std::vector<std::string>& overrides, pb::Job* job,
                    const Reading& reading);

}  // namespace tern::config
