// Sets keys of a job that was read from a file, as --set KEY=VALUE does.
#pragma once

#include <string>
#include <vector>

#include "common/config/fill.h"
#include "common/config/place.h"
#include "proto/job.pb.h"

namespace tern::config {

struct Override {
  std::string text;  // KEY=VALUE
  std::string name;  // what messages call it: "--set seed=5"
};

// Applies the overrides in order; if several set the same key, the last one counts. KEY is dotted,
// with list items by number: servers.0.address or servers[0].address. VALUE is YAML; it replaces
// the old value (a list or a map as a whole), or removes the key if it is null. For a key of type
// text, VALUE is the text, with or without quotes.
void ApplyOverrides(const std::vector<Override>& overrides, pb::Job* job,
                    const ParseContext& context);

// Gives `job` as many shards as `place` has. Call before their addresses are set.
void SetNumServers(const Place& place, pb::Job* job);
// The values of `place` as overrides, with the names of their variables.
std::vector<Override> PlaceOverrides(const Place& place);

}  // namespace tern::config
