// Writes the section `model` of a job.
#pragma once

#include <string>

#include "proto/job.pb.h"

namespace tern::config {

// Returns `model` as YAML, "model:" and below it its keys, without defaults: a part of a job file
// that LoadJob reads.
std::string ModelToYaml(const pb::Model& model);

}  // namespace tern::config
