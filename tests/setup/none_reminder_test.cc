#include "setup/none_reminder.h"

#include <gtest/gtest.h>

namespace tern::setup {
namespace {

using std::chrono::seconds;

pb::Job JobWith(pb::Job::Security security) {
  pb::Job job;
  job.set_security(security);
  return job;
}

TEST(NoneReminder, IsDueEachMinuteUnderNone) {
  NoneReminder reminder(JobWith(pb::Job::none));
  int num_due = 0;
  for (int second = 1000; second <= 1000 + 185; ++second)
    num_due += reminder.IsDue(seconds(second));
  EXPECT_EQ(num_due, 3);
}

TEST(NoneReminder, IsNeverDueUnderOthers) {
  for (const pb::Job::Security security : {pb::Job::loopback, pb::Job::curve}) {
    NoneReminder reminder(JobWith(security));
    for (int second = 0; second <= 185; ++second) EXPECT_FALSE(reminder.IsDue(seconds(second)));
  }
}

}  // namespace
}  // namespace tern::setup
