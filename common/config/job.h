// Reads a job from YAML or protobuf text and validates it. Validation reports all faults at once,
// each with file, line, key, the value seen, the values allowed and, for a misspelt name, the
// nearest known one. Rules for single keys are options in job.proto; rules between keys are in
// validate.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/name_tables.h"
#include "common/config/place.h"
#include "proto/job.pb.h"

namespace tern::config {

// Reads a job file (*.textproto, *.pbtxt, *.prototxt: protobuf text; anything else: YAML), applies
// `overrides`, fills in defaults and validates. kBadJob with all faults, one per line, in the order
// of the file; kBadData if the file cannot be read. Each line is
//
//   FILE:LINE:COLUMN: KEY: saw X; did you mean Z? Allowed: Y
//
// with "--set KEY=VALUE" in place of FILE:LINE:COLUMN if an override is at fault, or the name of
// the environment variable that has the value. An override is
// "train.batch_total=64" or "servers.0.address=127.0.0.1:7501"; its value is YAML; `null` removes
// the key; the last of several overrides of a key wins.
// `place`: replaces keys of the file, before the overrides do.
// `warnings`, if not null: gets a sentence for each key that the job sets without effect
// (ignored_keys.h).
Result<pb::Job> LoadJob(const std::string& path, const std::vector<std::string>& overrides,
                        const NameTables& tables, const Place& place = {},
                        std::vector<std::string>* warnings = nullptr);
// Like LoadJob, for the text of a job file. `name`: the file's name in messages; its ending selects
// the syntax.
Result<pb::Job> ParseJob(const std::string& text, const std::string& name,
                         const std::vector<std::string>& overrides, const NameTables& tables,
                         const Place& place = {}, std::vector<std::string>* warnings = nullptr);

// The digest of the job without local keys (keys that may differ between hosts): equal in all
// processes of a job.
uint64_t JobDigest(const pb::Job& job);
// The digest of the keys that must not change between a checkpoint and a job that resumes from it.
// Excludes local keys, the job's length, servers, faults, evaluation (except the moving average),
// metrics and checkpoints, and the number of workers if it may change (MayChangeWorkers).
uint64_t StateDigest(const pb::Job& job);

// Returns the job as YAML, with defaults filled in. LoadJob can read the text.
std::string ToYaml(const pb::Job& job);

// Returns the job of one worker: `workers` and `data` have the values that workers.overrides gives
// for its rank.
pb::Job JobForRank(const pb::Job& job, uint32_t rank);

}  // namespace tern::config
