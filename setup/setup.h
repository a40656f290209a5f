// Derives from a job what every program needs: the network, its table of parameters, the exchange
// plan (how the model is cut into pieces for the servers) and the first message to other daemons. A
// job whose workers are programs of the user's (train.compute: client or module) has no network;
// its table comes from such a program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/checkpoint/store.h"
#include "common/config/job.h"
#include "common/net/security.h"
#include "common/protocol/members/control.h"
#include "common/protocol/plan/plan.h"
#include "models/graph/shapes.h"
#include "models/graph/weights.h"
#include "proto/job.pb.h"
#include "proto/wire.pb.h"

namespace tern::setup {

struct Setup {
  pb::Job job;
  // Of this daemon among those of its role; set by StartDaemon and the client.
  uint32_t rank = 0;
  // What the environment says of the job's place (setup/environment.h), a line each, for the log.
  std::vector<std::string> place_lines;
  // What may be a mistake in the job, a sentence each (common/config/ignored_keys.h).
  std::vector<std::string> job_warnings;
  uint64_t launch = 0;  // which launch started this process (setup/environment.h); 0: none did
  pb::NetDef net;
  models::ParameterTable table;
  protocol::ExchangePlan plan;
  protocol::Timings timings;
  // Has only the job's name, the digests of job, keys, model, plan and given weights, the launch,
  // and this process's host and pid.
  pb::Hello hello;
  // The weights of model.weights (setup/first_weights.h); null: the job has none, or this daemon
  // holds no weights.
  std::shared_ptr<const models::Weights> given_weights;
  // The digest of those that are frozen, which checkpoints do not contain; 0: there are none.
  uint64_t frozen_digest = 0;
  std::string commit = "unknown";  // of which the program was built, for its metrics
  // This daemon's keys, and those of its peers; null: as net::Security::Mechanism::kNull.
  std::shared_ptr<const net::Security> security;
  // The secret of keys.checkpoint; null if the job has none. Like `security`, set by StartDaemon.
  std::shared_ptr<const net::SecretKey> checkpoint_secret;
  // With train.compute: client or module, the table that the program brought along, serialized.
  // Workers send it with their hellos. Empty: none is known yet, so `table` and `plan` are empty.
  std::string tensor_table;
};

// Whether the workers are programs that compute gradients and update weights themselves.
inline bool IsClientJob(const pb::Job& job) { return job.train().compute() == pb::Train::client; }
// Whether the workers are programs that compute gradients, and Tern has the weights.
inline bool IsModuleJob(const pb::Job& job) { return job.train().compute() == pb::Train::module; }
// Whether the table of tensors comes from a program.
inline bool HasForeignTable(const pb::Job& job) { return IsClientJob(job) || IsModuleJob(job); }
// The length of a client's job, in steps: nobody knows it before the end.
inline constexpr uint64_t kUnknownSteps = uint64_t{1} << 62;

// The names of models, codecs, algorithms and so on that a job may use in this build, by table
// (common/config/name_tables.h).
config::NameTables KnownNames();

// Reads and validates the job file at `path`, as the environment (setup/environment.h) and then
// `overrides` (KEY=VALUE) change it. kBadJob or kBadData; the message says why.
// `warnings`: as in config::LoadJob.
Result<pb::Job> LoadJob(const std::string& path, const std::vector<std::string>& overrides,
                        std::vector<std::string>* warnings = nullptr);
// LoadJob, and derives the setup without the weights of model.weights. kBadJob or kBadData if that
// is not possible; the message says why. A table that comes from a program is that of the file
// train.tensors; kBadJob if the job has no such key.
Result<std::unique_ptr<Setup>> MakeSetup(const std::string& path,
                                         const std::vector<std::string>& overrides);
// The same for those who get the program's table later: a server, or the program itself.
Result<std::unique_ptr<Setup>> MakeSetupWithoutTensors(const std::string& path,
                                                       const std::vector<std::string>& overrides);
inline constexpr size_t kMaxTensorTableBytes = 1 << 20;  // of a program's table, serialized
// Derives the table and the plan of a job from a program's `tensors`. kBadData if the table is not
// valid.
Status SetTensors(const pb::TensorTable& tensors, Setup* setup);

// The job's train.freeze, as MakeParameterTable and the engine take it.
std::vector<std::string> FrozenPatterns(const pb::Job& job);

// Describes a daemon's checkpoints, which are in OUTPUT_DIR/checkpoints/NAME, and what they belong
// to. With a checkpoint secret, they have tags: BLAKE2b-256 with the secret as its key. If workers
// hold the weights, those of another layout are taken.
checkpoint::Owner CheckpointOwner(const Setup& setup, const std::string& output_dir,
                                  const std::string& name);

// The file in output_dir that shard 0 locks while the job runs, so that no second job writes there
// (common/base/folder_lock.h). Workers on other hosts have their own folders.
inline constexpr const char* kServerLock = "server.lock";

// A random non-zero number that identifies one start of a daemon (its incarnation), or of all of a
// job (its launch).
uint64_t RandomIncarnation();

}  // namespace tern::setup
