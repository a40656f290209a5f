// What a job waited for and what would make it faster, in one or two sentences, as far as its
// figures show it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "setup/setup.h"
#include "setup/totals.h"

namespace tern::setup {

struct AdviceFacts {
  struct Worker {
    uint32_t rank = 0;
    uint64_t steps = 0;    // gradients computed
    double compute_s = 0;  // the seconds of computing them
    // As in pb::Counters; 0: not known, or nothing computes on CPUs.
    uint32_t compute_threads = 0, cpus = 0, machine_cpus = 0;
    uint64_t machine = 0;
  };
  Totals totals;                // of the job
  std::vector<Worker> workers;  // those present
  std::string codec;            // the job's codec
  double up_ratio = 0;          // how many times fewer bytes fp32's pushes have (RatioToFp32)
  uint32_t num_servers = 1;
  bool pushes_gradients = true;       // else parameters or their changes
  bool waits_for_all_workers = true;  // every round waits for every worker
  bool uses_network = true;           // whether servers have other addresses than loopback
};

AdviceFacts AdviceFactsOf(const Setup& setup, const std::vector<WorkerStatus>& workers);

// Returns at most two sentences without a period, the most important first; none if the figures
// show no cause, or the job has trained for less than a second or ten steps.
std::vector<std::string> AdviseOn(const AdviceFacts& facts);

}  // namespace tern::setup
