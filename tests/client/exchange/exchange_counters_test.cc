#include "client/exchange/exchange_counters.h"

#include <gtest/gtest.h>

#include "tests/setup/small_job.h"

namespace tern::client {
namespace {

using std::chrono::seconds;

class ExchangeCountersTest : public testing::Test {
 protected:
  // Pushes all chunks in round `round`.
  void Push(uint64_t round, Time now) {
    for (const protocol::Cell& cell : Cells()) counters_.OnPush(cell, round, now);
  }
  void Answer(uint64_t round, Time now) {
    for (const protocol::Cell& cell : Cells()) {
      protocol::Exchange::Delivery answer;
      answer.cell = cell;
      answer.outcome.mutable_of_round()->set_round(round);
      counters_.OnAnswer(answer, now);
    }
  }
  std::vector<protocol::Cell> Cells() const {
    std::vector<protocol::Cell> cells;
    for (uint32_t b = 0; b < setup_->plan.buckets.size(); ++b) {
      for (uint32_t c = 0; c < setup_->plan.buckets[b].chunks.size(); ++c)
        cells.push_back({protocol::Kind::kPush, b, c});
    }
    return cells;
  }
  pb::Counters Values() const {
    pb::Counters values;
    counters_.AddTo(&values);
    return values;
  }

  const std::unique_ptr<setup::Setup> setup_ = setup::SmallSetup();
  Registry registry_;
  ExchangeCounters counters_{setup_->plan, registry_};
};

TEST_F(ExchangeCountersTest, BusyTimeCountsOverlappingExchangesOnce) {
  Push(1, seconds(10));
  Push(2, seconds(12));
  Answer(1, seconds(13));
  Answer(2, seconds(15));
  Push(3, seconds(20));
  Answer(3, seconds(21));
  EXPECT_EQ(Values().exchanges(), 3u);
  EXPECT_DOUBLE_EQ(Values().exchange_s(), 3 + 3 + 1);
  EXPECT_DOUBLE_EQ(Values().exchange_busy_s(), 5 + 1);
}

// With backup workers, round 2 closes without this worker, whose push comes after the answer.
TEST_F(ExchangeCountersTest, APushAfterItsAnswerIsNotWaitedFor) {
  Push(1, seconds(10));
  Answer(1, seconds(11));
  Answer(2, seconds(12));
  Push(2, seconds(13));
  Push(3, seconds(20));
  Answer(3, seconds(22));
  EXPECT_EQ(Values().exchanges(), 2u);
  EXPECT_DOUBLE_EQ(Values().exchange_s(), 1 + 2);
  EXPECT_DOUBLE_EQ(Values().exchange_busy_s(), 1 + 2);
}

TEST_F(ExchangeCountersTest, RoundsMayBeginAgainAtALowerNumber) {
  Push(7, seconds(10));
  Answer(7, seconds(11));
  Push(8, seconds(11));
  counters_.DropOpenExchanges();
  Push(5, seconds(20));
  Answer(5, seconds(23));
  EXPECT_EQ(Values().exchanges(), 2u);
  EXPECT_DOUBLE_EQ(Values().exchange_busy_s(), 1 + 3);
}

}  // namespace
}  // namespace tern::client
