// What every daemon serves on its metrics port, and where the page of the whole job is.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/counters.h"
#include "common/net/http_server.h"
#include "proto/job.pb.h"
#include "setup/setup.h"

namespace tern::setup {

// The route /metrics: all of `registry`, with the metrics of this process (ProcessMetrics), and
// tern_build_info and tern_job_info, which this function registers. `registry` outlives the routes.
// `rank`: of the daemon.
net::HttpRoutes MetricsRoutes(const Setup& setup, uint32_t rank, Registry& registry);

// The port at which server shard `shard`, or worker `rank`, serves its metrics. 0: it does not.
uint16_t ServerMetricsPort(const pb::Metrics& metrics, uint32_t shard);
uint16_t WorkerMetricsPort(const pb::Metrics& metrics, uint32_t rank);

// The route / of a daemon that does not serve the page of the job: says where that page is. `name`:
// the daemon, for example "worker 3".
net::HttpRoutes::mapped_type SignpostRoute(const pb::Job& job, const std::string& name);

// The address of the job's page, which server shard 0 serves: http://HOST:PORT/. The host is
// metrics.host or, if that stands for all addresses of a machine, the host of shard 0's address.
// Empty if the job has no metrics.port.
std::string PageUrl(const pb::Job& job);

}  // namespace tern::setup
