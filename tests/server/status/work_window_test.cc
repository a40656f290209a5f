// Tests of the rates and shares of a worker's last ten seconds.
#include "server/status/work_window.h"

#include <gtest/gtest.h>

namespace tern::server {
namespace {

using std::chrono::seconds;

// Counters after `steps` steps of 0.1 s, of which half is computing and `wait_s` waiting.
pb::Counters After(uint64_t steps, double wait_s) {
  pb::Counters counters;
  const auto n = static_cast<double>(steps);
  counters.set_rounds(steps);
  counters.set_samples(8 * steps);
  counters.set_train_s(0.1 * n);
  counters.set_compute_s(0.05 * n);
  counters.set_encode_s(0.01 * n);
  counters.set_decode_s(0.02 * n);
  counters.set_data_s(0.01 * n);
  counters.set_wait_s(wait_s);
  counters.set_control_round_trips(steps);
  counters.set_control_round_trip_s(0.001 * n);
  pb::Traffic* push = counters.add_traffic();
  push->set_type("push");
  push->set_bytes_out(1000 * steps);
  pb::Traffic* sum = counters.add_traffic();
  sum->set_type("sum");
  sum->set_bytes_in(3000 * steps);
  return counters;
}

TEST(WorkWindow, KnowsNothingBeforeTheFirstStep) {
  WorkWindow window;
  window.Add(1, pb::Counters(), seconds(1));
  const WorkRates rates = window.Rates();
  EXPECT_EQ(rates.samples_per_s, 0);
  EXPECT_FALSE(rates.computing.has_value());
  EXPECT_FALSE(rates.up_bytes_per_step.has_value());
  EXPECT_FALSE(rates.round_trip_s.has_value());
}

TEST(WorkWindow, GivesTheRatesOfTheLastTenSeconds) {
  WorkWindow window;
  window.Add(1, After(0, 0), seconds(0));
  for (int second = 1; second <= 20; ++second)  // ten steps a second, then twenty
    window.Add(1, After(second <= 10 ? 10 * second : 100 + 20 * (second - 10), 0.2 * second),
               seconds(second));
  const WorkRates rates = window.Rates();
  EXPECT_DOUBLE_EQ(rates.samples_per_s, 160);
  EXPECT_DOUBLE_EQ(*rates.computing, 0.5);
  EXPECT_NEAR(*rates.coding, 0.3, 1e-12);
  EXPECT_NEAR(*rates.waiting, 2.0 / 20, 1e-12) << "2 s in 200 steps of 0.1 s";
  EXPECT_DOUBLE_EQ(*rates.up_bytes_per_step, 1000);
  EXPECT_DOUBLE_EQ(*rates.down_bytes_per_step, 3000);
  EXPECT_NEAR(*rates.round_trip_s, 0.001, 1e-12);
}

TEST(WorkWindow, WaitingIsAtMostWhatIsLeftOfTheTrainingTime) {
  WorkWindow window;
  window.Add(1, After(10, 100), seconds(1));  // 100 s of waiting for the start
  EXPECT_NEAR(*window.Rates().waiting, 0.2, 1e-12);
}

TEST(WorkWindow, AStoppedWorkerHasNoSpeedAndItsOldShares) {
  WorkWindow window;
  for (int second = 0; second <= 12; ++second) window.Add(1, After(50, 1), seconds(second));
  EXPECT_EQ(window.Rates().samples_per_s, 0);
  EXPECT_DOUBLE_EQ(*window.Rates().computing, 0.5);
}

TEST(WorkWindow, ANewProcessBeginsAnew) {
  WorkWindow window;
  window.Add(1, After(1000, 0), seconds(1));
  window.Add(2, After(1010, 0), seconds(2));  // by its number
  EXPECT_EQ(window.Rates().samples_per_s, 0);
  window.Add(2, After(5, 0), seconds(3));  // by its counters
  EXPECT_EQ(window.Rates().samples_per_s, 0);
  window.Add(2, After(15, 0), seconds(4));
  EXPECT_DOUBLE_EQ(window.Rates().samples_per_s, 80);
}

}  // namespace
}  // namespace tern::server
