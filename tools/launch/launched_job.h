// The job of `tern launch`: that of a file, or one for who has none, with what the command line
// changes in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::tools {

struct LaunchedJobOptions {
  bool has_programs = true;  // The workers are programs of the user's, not tern_worker.
  std::string job_file;      // "": a job with one server on this machine, and default_job is set
  std::vector<std::string> overrides;
  std::optional<uint32_t> num_workers;  // empty: the job's workers.count
  bool uses_free_ports = false;         // so does a job without a file
};

// Reads the job and checks that its workers are what options.has_programs says. kUsage if a number
// of workers, or the job of tern_worker, is missing; kBadJob if the job's workers are others.
Result<pb::Job> ReadJob(const LaunchedJobOptions& options);
// The same for a job that runs on this machine, with free ports as `options` say.
Result<pb::Job> ReadLaunchedJob(const LaunchedJobOptions& options);

// Where the programs and servers find the job with all its keys.
std::string LaunchedJobFile(const pb::Job& job);

}  // namespace tern::tools
