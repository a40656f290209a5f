// Canonical forms of a job: with defaults filled in, and without keys that a digest ignores.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "proto/job.pb.h"

namespace tern::config {

// Sets the missing keys that have a default and an effect, and adds the missing sections, except
// those of codecs and algorithms that the job does not use. Adds no sections of net.proto, where
// the presence of a layer's kind or an initializer is significant.
void FillDefaults(google::protobuf::Message* message);

// Returns the job with all defaults and without local keys (keys that may differ between hosts).
// JobDigest is the digest of the result.
pb::Job WithoutLocalKeys(const pb::Job& job);
// Whether the job's number of workers may change when it resumes from a checkpoint. It may not
// without rounds, where servers count each worker's pushes, nor where a worker's checkpoint has the
// state of a program of the user's.
bool MayChangeWorkers(const pb::Job& job);
// Like WithoutLocalKeys, and also without the keys that may change when a job resumes from a
// checkpoint. StateDigest is the digest of the result.
pb::Job WithoutResumableKeys(const pb::Job& job);

// Whether a job can have the key or section `key`, for example "train.optimizer.momentum".
bool IsKey(const std::string& key);
// Removes a key or section from the job. Does nothing if the job does not have it.
void ClearKey(const std::string& key, pb::Job* job);

}  // namespace tern::config
