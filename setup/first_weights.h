// The weights with which a job starts: those of model.weights, or random ones. Every daemon
// computes the same; the hellos carry the digest of model.weights.
#pragma once

#include "common/base/status.h"
#include "models/graph/weights.h"
#include "setup/setup.h"

namespace tern::setup {

// Reads the file model.weights, if the job has that key, into setup->given_weights, and sets
// setup->frozen_digest and the digest of setup->hello. kBadData or kBadJob if the file does not fit
// the model.
Status ReadGivenWeights(Setup* setup);

// REQUIRES that ReadGivenWeights was called if the job has model.weights.
models::Weights FirstWeights(const Setup& setup);

}  // namespace tern::setup
