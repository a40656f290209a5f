// What job.proto says of the algorithms: each is a section of Train with the option (traits), so
// this folder knows none of them by name.
#pragma once

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tern::config {

// In the order of job.proto: what train.algorithm may be.
const std::vector<std::string>& AlgorithmNames();
// Of the algorithm that the job names; null if there is none of that name.
const pb::AlgorithmTraits* TraitsOf(const pb::Train& train);
// Sections of other algorithms that are written in `train`.
std::vector<std::string> SectionsOfOthers(const pb::Train& train);

// Names of the algorithms whose rounds close so.
std::vector<std::string> AlgorithmsThatClose(pb::AlgorithmTraits::Closes closes);

// Whether a local updater compensates a delay, and whether by a mean square: without, keys that are
// about it are neither filled in nor allowed.
bool HasCompensation(const pb::LocalUpdater& local);
bool HasMeanSquare(const pb::LocalUpdater& local);

// Whether a tensor, or what is pulled, may be coded by the codec of that name.
bool UsesCodec(const pb::Exchange& exchange, const std::string& name);

// Whether DC-ASGD's workers form the term that compensates the delay, and not the servers. The job
// may say so (formed); if it does not, servers form it only if `values_pushed`: every push is the
// gradient itself, rounded at most (Codec::SendsValues), for the term takes the gradient's square.
// REQUIRES dcasgd_c or dcasgd_a. protocol::WorkersFormTerm asks it of a whole job.
bool WorkersFormTerm(const pb::Train& train, bool values_pushed);

inline bool IsCentral(const pb::Job& job) { return job.train().parameters() == pb::Train::central; }

}  // namespace tern::config
