// The table of the algorithms that have rules of their own: the function of each is in the file of
// its name.
#include "common/algorithm/rules.h"

namespace tern::algorithm {

void CheckOdsgd(const pb::Job& job, Judge* judge);
void CheckDcasgdC(const pb::Job& job, Judge* judge);
void CheckDcasgdA(const pb::Job& job, Judge* judge);
void CheckSoftsync(const pb::Job& job, Judge* judge);
void CheckEasgd(const pb::Job& job, Judge* judge);

namespace {

struct Row {
  const char* algorithm;
  void (*check)(const pb::Job& job, Judge* judge);
};

const Row kTable[] = {
    {"odsgd", CheckOdsgd},       {"dcasgd_c", CheckDcasgdC}, {"dcasgd_a", CheckDcasgdA},
    {"softsync", CheckSoftsync}, {"easgd", CheckEasgd},
};

}  // namespace

void CheckOwnRules(const pb::Job& job, Judge* judge) {
  for (const Row& row : kTable) {
    if (job.train().algorithm() == row.algorithm) row.check(job, judge);
  }
}

}  // namespace tern::algorithm
