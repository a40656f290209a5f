// Parameters that are not trained: train.freeze. Also the patterns by which jobs name tensors, in
// which * and ? are wildcards.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "models/graph/parameters.h"

namespace tern::models {

// Whether `name` matches one of the patterns.
bool MatchesAny(const std::vector<std::string>& patterns, const std::string& name);
// kBadJob if a pattern matches no parameter and no statistic of the table. The message begins with
// `key`, the job's key that has the patterns.
Status CheckPatterns(const std::string& key, const std::vector<std::string>& patterns,
                     const ParameterTable& table);
// kBadJob if the pattern matches no parameter of the table, frozen or not. Otherwise as above.
Status CheckParameterPattern(const std::string& key, const std::string& pattern,
                             const ParameterTable& table);
// Whether the pattern matches the name of one of the parameters.
bool MatchesOneOf(const std::string& pattern, const std::vector<Parameter>& parameters);

// Moves the parameters that match one of the patterns from `parameters` to `frozen` of the table,
// and sets the offsets of both. Marks the statistics of layers without other parameters as frozen.
// kBadJob if a pattern matches no parameter, or no parameter is left. REQUIRES a table in which
// nothing is frozen.
Status FreezeParameters(const std::vector<std::string>& patterns, ParameterTable* table);

}  // namespace tern::models
