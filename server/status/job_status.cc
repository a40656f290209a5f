#include "server/status/job_status.h"

#include "common/base/text.h"

namespace tern::server {

std::string WaitingFor(const JobStatus& status) {
  if (status.state == "running" || status.state == "ending") return "";
  std::vector<std::string> missing;
  for (const WorkerRow& row : status.workers)
    if (row.state != "waiting" && row.state != "done") missing.push_back(Cat("worker ", row.rank));
  for (const ShardRow& row : status.shards)
    if (row.state != "present") missing.push_back(Cat("server shard ", row.shard));
  return missing.empty() ? "the start of the job" : Join(missing);
}

}  // namespace tern::server
