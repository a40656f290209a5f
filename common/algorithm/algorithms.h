// The algorithms of job.proto: every section of Train with the option (traits), found by
// reflection. facts.h has what the traits say about a single job.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tern::algorithm {

// The values of train.algorithm, in the order of job.proto.
const std::vector<std::string>& AlgorithmNames();

// The section and the traits of the job's algorithm; null if its name is unknown.
const google::protobuf::FieldDescriptor* SectionOf(const pb::Train& train);
const pb::AlgorithmTraits* TraitsOf(const pb::Train& train);

// The algorithm and the values of its keys, for people: "dcasgd_a (lambda: 2 rho: 0.95 ...)".
// REQUIRES that all defaults of the job are filled in.
std::string DescribeAlgorithm(const pb::Train& train);

// The names of the sections that are set in `train` and belong to other algorithms.
std::vector<std::string> SectionsOfOtherAlgorithms(const pb::Train& train);

// Names of the algorithms with this value of the trait `closes`, which says what closes a round.
std::vector<std::string> AlgorithmsWithCloses(pb::AlgorithmTraits::Closes closes);

}  // namespace tern::algorithm
