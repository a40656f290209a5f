// How a program of the user's is started as a worker, on this machine or on another host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/job.pb.h"
#include "tools/run/process.h"

namespace tern::tools {

// How many threads OpenMP gets in each of `num_programs` programs on this machine; 0: the
// environment says it.
size_t ThreadsOfPrograms(uint32_t num_programs);

// Makes *spec that of worker `rank`, which runs `program`, a path: with the variables of which
// `tern launch --help` tells. `job_file`: the job with all its keys, an absolute path.
void SetUsersProgram(const std::string& program, const pb::Job& job, const std::string& job_file,
                     uint32_t rank, size_t num_threads, ProcessSpec* spec);

}  // namespace tern::tools
