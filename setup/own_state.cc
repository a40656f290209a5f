#include "setup/own_state.h"

#include <algorithm>

#include "common/algorithm/facts.h"
#include "common/algorithm/ranks.h"
#include "common/base/text.h"
#include "common/config/canonical.h"
#include "common/protocol/members/recovery.h"
#include "common/protocol/rounds/cells.h"

namespace tern::setup {

namespace {

bool HaveEqualServers(const pb::Job& a, const pb::Job& b) {
  return std::equal(a.servers().begin(), a.servers().end(), b.servers().begin(), b.servers().end(),
                    [](const pb::Server& one, const pb::Server& other) {
                      return one.data_sockets() == other.data_sockets();
                    });
}

// The samples of one step if all ranks are there.
uint64_t SamplesOfStep(const pb::Job& job) {
  return uint64_t{algorithm::BatchOfWorker(job)} * algorithm::NumRanks(job);
}

// What an epoch in progress loses; empty if its samples are those of a job that did not change. The
// samples of a step are one set, which the ranks divide, if they share the images.
std::string WhatEpochsLose(const pb::Job& old_job, const pb::Job& job) {
  if (job.train().compute() != pb::Train::net) return "";
  const uint64_t before = SamplesOfStep(old_job), now = SamplesOfStep(job);
  std::string why;
  if (before != now) {
    why =
        Cat("epochs are counted as if every step had had ", now, " samples (", before, " before)");
  } else if (job.data().partition() != pb::Data::shared &&
             algorithm::NumRanks(old_job) != algorithm::NumRanks(job)) {
    why = "each worker draws from other images than before";
  }
  return why.empty() ? ""
                     : why +
                           ": of the epoch in progress some images may be drawn twice, others "
                           "not at all";
}

}  // namespace

bool HasCodecMemory(const Setup& setup) {
  const auto& codecs = setup.plan.codec_of;
  return std::any_of(codecs.begin(), codecs.end(),
                     [](const auto& codec) { return codec->HasMemory(); });
}

bool WorkersKeepOwnState(const Setup& setup) {
  return algorithm::FactsOf(setup.job).has_own_point || HasCodecMemory(setup);
}

bool ServersKeepCodecState(const Setup& setup) {
  const std::vector<bool> keeps_state = protocol::ShardsThatKeepState(setup.plan);
  return !setup.plan.is_central &&
         std::any_of(keeps_state.begin(), keeps_state.end(), [](bool keeps) { return keeps; });
}

std::vector<std::string> WhatIsDropped(const pb::Job& old_job, const Setup& setup) {
  const pb::Job before = config::WithoutLocalKeys(old_job),
                now = config::WithoutLocalKeys(setup.job);
  const bool has_other_workers = algorithm::NumRanks(before) != algorithm::NumRanks(now);
  std::vector<std::string> sentences;
  if (has_other_workers && WorkersKeepOwnState(setup))
    sentences.push_back(Cat("dropped: ", protocol::kWorkersOwnState));
  if (!HaveEqualServers(before, now) && ServersKeepCodecState(setup))
    sentences.push_back(Cat("dropped: ", protocol::kServersCodecState));
  if (std::string loss = WhatEpochsLose(before, now); !loss.empty())
    sentences.push_back(std::move(loss));
  return sentences;
}

}  // namespace tern::setup
