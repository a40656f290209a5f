// Tests of cells: what a server combines over the workers in each round. A cell belongs to one lane
// (socket of a shard). Its kind is scale (the maximum of a bucket's scalers), push (the sum of a
// chunk's codes), or figures (losses and test scores by rank).
#include "common/protocol/rounds/cells.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ExchangePlan PlanOf(const std::string& codec) {
  pb::Job job;
  job.mutable_workers()->set_count(2);
  job.add_servers()->set_data_sockets(2);
  job.add_servers()->set_data_sockets(1);
  job.mutable_exchange()->set_codec(codec);
  job.mutable_exchange()->set_bucket_kib(1);
  job.mutable_exchange()->set_chunk_kib(1);
  return *ExchangePlan::Make(job, {{"a", 300}, {"b", 3}, {"c", 200}});
}

std::vector<Cell> CellKeysOfLane(const ExchangePlan& plan, LaneRef lane) {
  std::vector<Cell> cells;
  for (const CellSpec& spec : MakeCellsOfLane(plan, lane.shard, lane.lane))
    cells.push_back(spec.cell);
  return cells;
}

TEST(Cells, AreOnTheLaneOfThePlan) {
  const ExchangePlan plan = PlanOf("ternary");
  size_t num_cells = 0;
  for (LaneRef lane : {LaneRef{0, 0}, LaneRef{0, 1}, LaneRef{0, 2}, LaneRef{1, 0}, LaneRef{1, 1}}) {
    for (const Cell& cell : CellKeysOfLane(plan, lane)) {
      EXPECT_EQ(LaneOf(plan, cell), lane) << ToString(cell, 1);
      ++num_cells;
    }
  }
  EXPECT_EQ(num_cells, 4u + 2 + 3);  // 4 cells of figures, 2 of scalers, 3 of chunks
  EXPECT_THAT(CellKeysOfLane(plan, {0, 0}),
              testing::IsSupersetOf(
                  {Cell{Kind::kFigures, 0, kCompare}, Cell{Kind::kFigures, 0, kEvaluate}}));
  EXPECT_EQ(CellKeysOfLane(PlanOf("fp32"), {1, 0}).size(), 0u);
}

TEST(Cells, TakeTheMaximumOfScalers) {
  const ExchangePlan plan = PlanOf("ternary");
  const std::vector<CellSpec> cells = MakeCellsOfLane(plan, 0, 0);
  ASSERT_EQ(cells[4].cell.kind, Kind::kScale);
  auto max_reduction = cells[4].open(1);
  EXPECT_TRUE(max_reduction->Add(0, EncodeScalers({1.5f, 0.25f})).ok());
  EXPECT_TRUE(max_reduction->Add(1, EncodeScalers({0.5f, 2.f})).ok());
  const Bytes outcome = max_reduction->Close();
  EXPECT_THAT(*ParseScalers(outcome, 2, 1e6f), ElementsAre(1.5f, 2.f));
  EXPECT_TRUE(cells[4].check_outcome(outcome, 2).ok());
  EXPECT_FALSE(cells[4].check_outcome(Text("abc"), 2).ok());
}

TEST(Cells, RefuseInvalidScalers) {
  EXPECT_THAT(ParseScalers(EncodeScalers({1.f}), 2, 1e6f).status().message(),
              HasSubstr("4 bytes of scalers, expected 8"));
  for (float bad_scaler : {std::numeric_limits<float>::quiet_NaN(), -1.f, -0.f,
                           std::numeric_limits<float>::infinity()}) {
    const Status parse_status = ParseScalers(EncodeScalers({1.f, bad_scaler}), 2, 1e6f).status();
    EXPECT_EQ(parse_status.code(), Code::kMismatch);
    EXPECT_THAT(parse_status.message(), HasSubstr("scaler 1 is"));
  }
}

TEST(Cells, RefuseScalersThatAreTooLarge) {
  const ExchangePlan plan = PlanOf("ternary");
  EXPECT_EQ(plan.max_scaler, 1e6f);
  const std::vector<CellSpec> cells = MakeCellsOfLane(plan, 0, 0);
  auto max_reduction = cells[4].open(1);
  EXPECT_TRUE(max_reduction->Add(0, EncodeScalers({1.f, 1e6f})).ok());
  const Status add_status = max_reduction->Add(1, EncodeScalers({1.f, 3e38f}));
  EXPECT_EQ(add_status.code(), Code::kDiverged);
  EXPECT_THAT(add_status.message(),
              HasSubstr("scaler 1 is 3e+38, more than exchange.max_scaler, 1e+06"));
  EXPECT_FALSE(cells[4].check_outcome(EncodeScalers({1.f, 3e38f}), 2).ok())
      << "nor as an outcome that a worker hands back";
}

TEST(Cells, GatherFiguresByRank) {
  const ExchangePlan plan = PlanOf("fp32");
  const std::vector<CellSpec> cells = MakeCellsOfLane(plan, 0, 0);
  auto sum_reduction = cells[0].open(1);
  pb::Figures figures;
  for (uint32_t rank : {1, 0}) {
    figures.set_test_correct(100 + rank);
    EXPECT_TRUE(sum_reduction->Add(rank, Text(figures.SerializeAsString())).ok());
  }
  const Bytes outcome = sum_reduction->Close();
  EXPECT_TRUE(cells[0].check_outcome(outcome, 2).ok());
  pb::FiguresOfAll figures_of_all;
  ASSERT_TRUE(figures_of_all.ParseFromString(View(outcome)));
  ASSERT_EQ(figures_of_all.by_rank_size(), 2);
  ASSERT_TRUE(figures.ParseFromString(figures_of_all.by_rank(1)));
  EXPECT_EQ(figures.test_correct(), 101u);
  EXPECT_FALSE(sum_reduction->Add(0, Text(std::string(plan.max_figures_bytes() + 1, 'x'))).ok());
  EXPECT_FALSE(sum_reduction->Add(0, Text("\xff\xff")).ok());
  EXPECT_FALSE(cells[0].check_outcome(Text(""), 2).ok());
}

TEST(Cells, CompareHashesOfReplicas) {
  const ExchangePlan plan = PlanOf("fp32");
  const std::vector<CellSpec> cells = MakeCellsOfLane(plan, 0, 0);
  EXPECT_FALSE(cells[kEvaluate].check_agreement);
  for (const uint64_t other_hash : {0xaa, 0xbb}) {
    auto figures_of_all = cells[kCompare].open(31);
    pb::Figures figures;
    for (const uint32_t rank : {0, 1}) {
      figures.set_parameters_hash(rank == 0 ? 0xaa : other_hash);
      EXPECT_TRUE(figures_of_all->Add(rank, Text(figures.SerializeAsString())).ok());
    }
    const Status agreement = cells[kCompare].check_agreement(figures_of_all->Close(), 31);
    EXPECT_EQ(agreement.ok(), other_hash == 0xaa);
    if (agreement.ok()) continue;
    EXPECT_EQ(agreement.code(), Code::kMismatch);
    EXPECT_EQ(
        agreement.message(),
        "the replicas differ after round 30: worker 0 has hash 00000000000000aa, worker 1 has "
        "00000000000000bb");
  }
}

TEST(Cells, AddUpChunks) {
  const ExchangePlan plan = PlanOf("fp32");
  for (const CellSpec& spec : MakeCellsOfLane(plan, 0, 1)) {
    const Chunk& chunk = plan.chunk(spec.cell.bucket, spec.cell.chunk);
    const std::vector<float> ones(chunk.count, 1.f), threes(chunk.count, 3.f);
    auto sum_reduction = spec.open(1);
    EXPECT_FALSE(sum_reduction->Add(0, EncodeScalers(std::vector<float>(chunk.count + 1))).ok());
    EXPECT_FALSE(sum_reduction->Add(0, Text("short")).ok());
    sum_reduction = spec.open(1);
    EXPECT_TRUE(sum_reduction->Add(1, EncodeScalers(threes)).ok());
    EXPECT_TRUE(sum_reduction->Add(0, EncodeScalers(ones)).ok());
    const Bytes outcome = sum_reduction->Close();
    EXPECT_EQ(outcome.size(), chunk.max_sum_bytes);
    // The outcome is the workers' mean.
    EXPECT_THAT(*ParseScalers(outcome, chunk.count, 1e6f), testing::Each(2.f));
    EXPECT_TRUE(spec.check_outcome(outcome, 2).ok());
    EXPECT_FALSE(spec.check_outcome(Text("short"), 2).ok());
  }
}

}  // namespace
}  // namespace tern::protocol::test
