// What job.proto says about the algorithms: each is a section of Train with the option (traits).
#pragma once

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tern::config {

// The values of train.algorithm, in the order of job.proto.
const std::vector<std::string>& AlgorithmNames();
// The traits of the job's algorithm; null if its name is unknown.
const pb::AlgorithmTraits* TraitsOf(const pb::Train& train);
// Sections in `train` that belong to other algorithms.
std::vector<std::string> SectionsOfOthers(const pb::Train& train);

// Names of the algorithms whose rounds close in this way.
std::vector<std::string> AlgorithmsThatClose(pb::AlgorithmTraits::Closes closes);

// Whether a local updater compensates for delay, and whether it keeps a mean square. If not, the
// keys about it are neither filled in nor allowed.
bool HasCompensation(const pb::LocalUpdater& local);
bool HasMeanSquare(const pb::LocalUpdater& local);

// Whether some tensor, or the pull, may be coded by the codec of this name.
bool UsesCodec(const pb::Exchange& exchange, const std::string& name);

// Whether DC-ASGD's workers form the term that compensates the delay, and not the servers. The job
// may say so (formed); if it does not, servers form it only if `values_pushed`: every push is the
// gradient itself, rounded at most (Codec::SendsValues), for the term takes the gradient's square.
// REQUIRES dcasgd_c or dcasgd_a. protocol::WorkersFormTerm asks it of a whole job.
bool WorkersFormTerm(const pb::Train& train, bool values_pushed);

inline bool IsCentral(const pb::Job& job) { return job.train().parameters() == pb::Train::central; }

}  // namespace tern::config
