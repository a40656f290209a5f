// What every program makes of a job before it does anything: the net, its parameters, the exchange
// plan, the words of its hello. The one folder of common/ that knows models/, because servers,
// workers and tools all need the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/checkpoint/store.h"
#include "common/config/job.h"
#include "common/protocol/control.h"
#include "common/protocol/plan.h"
#include "models/shapes.h"
#include "proto/job.pb.h"
#include "proto/wire.pb.h"

namespace tern::setup {

struct Setup {
  pb::Job job;
  pb::NetDef net;
  models::ParameterTable table;
  protocol::ExchangePlan plan;
  protocol::Timings timings;
  pb::Hello hello;  // job and digests, host and pid of this process
};

// The names that a job may use, by table: what this build knows.
config::NameTables KnownNames();

// Reads, validates and resolves a job file. kBadJob or kBadData with every fault found.
Result<std::unique_ptr<Setup>> MakeSetup(const std::string& path,
                                         const std::vector<std::string>& overrides);

// Largest payload that a data socket (lane > 0) or control socket of this job can carry.
size_t MaxPayload(const Setup& setup, uint32_t lane);

// Whose checkpoints a daemon of this job reads and writes: OUTPUT_DIR/checkpoints/NAME.
checkpoint::Owner CheckpointOwner(const Setup& setup, const std::string& output_dir,
                                  const std::string& name);

// Locked in output_dir while shard 0 of a job lives, so that no second job writes there
// (common/base/folder_lock.h). Workers of other hosts have folders of their own.
inline constexpr const char* kServerLock = "server.lock";

// A random number that is not 0: an incarnation.
uint64_t RandomIncarnation();

}  // namespace tern::setup
