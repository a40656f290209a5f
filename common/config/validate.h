// The rules between keys of a job: what no option of a single key can say.
#pragma once

#include "common/config/fill.h"

namespace tern::config {

// Checks a job with its defaults filled in, after CheckRules. A rule one of whose keys is at fault
// already is passed over.
void CheckJob(const pb::Job& job, const Reading& reading);

}  // namespace tern::config
