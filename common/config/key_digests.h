// A short digest of each key of a job, by which processes find out which keys differ between their
// jobs without telling each other the values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tern::config {

// The names of all keys that must be equal in all processes, in the order of job.proto:
// "train.algorithm". A list, and a message of net.proto, is one key.
const std::vector<std::string>& SharedKeys();
// By index in SharedKeys(): the digest of the key's value with defaults filled in; 0: it has none.
std::vector<uint32_t> KeyDigests(const pb::Job& job);

}  // namespace tern::config
