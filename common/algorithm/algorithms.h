// The algorithms that job.proto has: each is a section of Train with the option (traits), found by
// reflection. What the traits say of one job is in facts.h.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tern::algorithm {

// In the order of job.proto: what train.algorithm may be.
const std::vector<std::string>& AlgorithmNames();

// The section and the traits of the algorithm that the job names; null if there is none of that
// name.
const google::protobuf::FieldDescriptor* SectionOf(const pb::Train& train);
const pb::AlgorithmTraits* TraitsOf(const pb::Train& train);

// Sections of other algorithms that are written in `train`.
std::vector<std::string> SectionsOfOthers(const pb::Train& train);

// Names of the algorithms whose rounds close so.
std::vector<std::string> AlgorithmsThatClose(pb::AlgorithmTraits::Closes closes);

}  // namespace tern::algorithm
