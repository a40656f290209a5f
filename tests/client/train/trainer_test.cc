// The trainer in a job of one worker whose server answers at once.
#include "client/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "client/exchange/host_coder.h"
#include "common/base/hash.h"
#include "common/protocol/rounds/cells.h"
#include "common/tensors/safetensors.h"
#include "tests/client/train/train_job.h"
#include "worker/job_compute.h"
#include "worker/net_compute.h"

namespace tern::client {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<data::Samples> SomeImages(size_t count) {
  data::MemoryDataset dataset;
  dataset.channels = 1;
  dataset.height = dataset.width = 4;
  dataset.classes = 3;
  for (size_t i = 0; i < count; ++i) {
    dataset.labels.push_back(static_cast<uint8_t>(i % 3));
    for (size_t pixel = 0; pixel < 16; ++pixel)
      dataset.pixels.push_back(static_cast<uint8_t>((i % 3 * 5 == pixel ? 200 : 0) + i + pixel));
  }
  return std::move(*data::Samples::Make(std::make_unique<data::MemoryDataset>(std::move(dataset)),
                                        {}, 1, data::Split::kTrain));
}

// Answers every contribution at once, as the cells of a server would, unless the test holds it
// back.
class AnsweringPort : public Port {
 public:
  AnsweringPort(const setup::Setup& job, Replica& replica, Events& events)
      : replica_(replica), events_(events) {
    for (uint32_t lane = 0; lane <= job.plan.data_lanes[0]; ++lane) {
      for (auto& spec : protocol::CellsOfLane(job.plan, 0, lane)) specs_[spec.cell] = spec;
    }
  }

  void Contribute(protocol::Cell cell, protocol::Contribution contribution) override {
    const uint64_t round = protocol::ExchangeOf(contribution);
    if (take && take(cell, round)) return;
    auto sum = specs_.at(cell).open(1);
    EXPECT_TRUE(sum->Add(0, protocol::PayloadOf(contribution)).ok());
    Answer answer;
    answer.cell = cell;
    answer.payload = sum->Close();
    answer.outcome.mutable_of_round()->set_round(round);
    answer.outcome.set_learning_rate(0.1);
    answer.outcome.mutable_of_round()->set_contributors(1);
    if (change) change(&answer);
    if (cell.kind == protocol::Kind::kScale) coder->Scaled(answer);
    if (hold && hold(answer)) return;
    events_.Push(std::move(answer));
  }
  void Applied(uint64_t round) override { hash_after[round] = replica_.Hash(); }
  void Snapshot(Bytes state, uint64_t applied) override {
    snapshots.emplace_back(std::move(state), applied);
  }
  void Offer(std::vector<pb::Checkpoint>) override {}
  void Installed(uint64_t) override { ++installed; }
  void Finish(Status status, pb::Figures figures, uint64_t) override {
    finished.emplace_back(std::move(status), std::move(figures));
    if (on_finish) on_finish();
  }

  std::function<bool(protocol::Cell, uint64_t)> take;
  std::function<void(Answer*)> change;
  std::function<bool(const Answer&)> hold;  // if it returns true, the test delivers the answer
  std::function<void()> on_finish;
  Coder* coder = nullptr;
  std::map<uint64_t, uint64_t> hash_after;
  std::vector<std::pair<Bytes, uint64_t>> snapshots;
  int installed = 0;
  std::vector<std::pair<Status, pb::Figures>> finished;

 private:
  Replica& replica_;
  Events& events_;
  std::map<protocol::Cell, protocol::CellSpec> specs_;
};

constexpr uint64_t kSteps = 10;

class Step : public testing::Test {
 protected:
  explicit Step(std::vector<std::string> more = {}, const std::string& layers = kTwoDenseLayers) {
    folder_ = testing::TempDir() + "tern_step_" + std::to_string(std::rand());
    more.insert(more.end(),
                {"workers.count=1", "faults.compare_every_steps=4", "output_dir=" + folder_});
    job_ = SmallJob(more, layers);
    Reset();
  }
  ~Step() override { std::filesystem::remove_all(folder_); }

  // A worker that has not yet started.
  void Reset() {
    replica_ = std::move(*Replica::Make(*job_));
    compute_ = std::move(*worker::MakeNetCompute(
        *job_, 0, {replica_->point(), replica_->gradients(), replica_->statistics().data()}));
    evaluate_ = std::move(
        *worker::Evaluate::Make(*job_, *test_, *replica_, progress_, engine::Device::kCpu));
    port_.emplace(*job_, *replica_, events_);
    coder_.emplace(*job_, std::make_unique<HostCoder>(*job_, 0), *port_, events_, progress_);
    port_->coder = &*coder_;
    port_->on_finish = [this] { events_.Push(Ended{Ok()}); };
  }

  worker::JobCompute Computing() {
    data::Batches::Options options;
    options.batch_total = 4;
    return {*data::Batches::Make(*train_, options), 1, *compute_, *evaluate_};
  }

  Status Run() {
    worker::JobCompute compute = Computing();
    auto trainer =
        Trainer::Make({*job_, 0, kSteps, compute, *replica_, *coder_, *port_, events_, progress_});
    return trainer.ok() ? (*trainer)->Run() : trainer.status();
  }

  std::string folder_;
  std::unique_ptr<setup::Setup> job_;
  const std::unique_ptr<data::Samples> train_ = SomeImages(20), test_ = SomeImages(9);
  Registry registry_;
  Progress progress_{registry_};
  Events events_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<worker::BatchCompute> compute_;
  std::unique_ptr<worker::Evaluate> evaluate_;
  std::optional<AnsweringPort> port_;
  std::optional<Coder> coder_;
};

TEST_F(Step, TrainsToTheEndAndWritesTheWeights) {
  events_.Push(Ready{0});
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(port_->hash_after.size(), kSteps);
  ASSERT_EQ(port_->finished.size(), 1u);
  EXPECT_EQ(port_->finished[0].second.test_samples(), 9u);
  EXPECT_EQ(port_->finished[0].second.parameters_hash(), port_->hash_after[kSteps]);
  const auto weights = tensors::ReadSafetensors(folder_ + "/weights.safetensors");
  EXPECT_TRUE(weights.ok()) << weights.status().message();
}

TEST_F(Step, EndsWithBothHashesIfReplicasDiffer) {
  const uint64_t other = 0x1234567890abcdef;
  port_->change = [](Answer* answer) {
    if (answer->cell.kind != protocol::Kind::kFigures) return;
    pb::FiguresOfAll all;
    ASSERT_TRUE(
        all.ParseFromArray(answer->payload.data(), static_cast<int>(answer->payload.size())));
    pb::Figures theirs;
    theirs.set_parameters_hash(other);
    all.add_by_rank(theirs.SerializeAsString());
    answer->payload = Bytes::Own(all.SerializeAsString());
  };
  events_.Push(Ready{0});
  const Status status = Run();
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(),
              HasSubstr("after step 4: worker 0 has hash " + Hex(port_->hash_after[4]) +
                        ", worker 1 has " + Hex(other)));
  EXPECT_EQ(port_->hash_after.size(), 4u) << "no further step";
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/weights.safetensors"));
}

TEST_F(Step, SendsStateBetweenTwoRounds) {
  port_->take = [this](protocol::Cell cell, uint64_t round) {
    if (cell.kind == protocol::Kind::kPush && round == 3) events_.Push(SnapshotWanted{});
    return false;
  };
  events_.Push(Ready{0});
  EXPECT_TRUE(Run().ok());
  ASSERT_GE(port_->snapshots.size(), 1u);
  const auto& [state, applied] = port_->snapshots[0];
  EXPECT_EQ(applied, 2u);
  auto newcomer = std::move(*Replica::Make(*job_));
  ASSERT_TRUE(ReplicaState(*job_, *newcomer).Load(state).ok());
  EXPECT_EQ(newcomer->Hash(), port_->hash_after[2]);
}

TEST_F(Step, SendsStateAfterTheLastStepToo) {
  port_->on_finish = [this] {
    events_.Push(SnapshotWanted{});
    events_.Push(Ended{Ok()});
  };
  events_.Push(Ready{0});
  EXPECT_TRUE(Run().ok());
  ASSERT_EQ(port_->snapshots.size(), 1u);
  EXPECT_EQ(port_->snapshots[0].second, kSteps);
}

TEST_F(Step, ContinuesFromAStateThatArrives) {
  auto donor = std::move(*Replica::Make(*job_));
  std::fill_n(donor->parameters(), job_->table.total, 0.25f);
  events_.Push(StateArrived{ReplicaState(*job_, *donor).Save(7), 7});
  events_.Push(Ready{7});
  const uint64_t initial = replica_->Hash();
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(port_->installed, 1);
  ASSERT_EQ(port_->hash_after.size(), kSteps - 7);
  EXPECT_EQ(port_->hash_after.begin()->first, 8u);
  EXPECT_NE(port_->hash_after[8], initial);
}

class StepWithNorm : public Step {
 protected:
  StepWithNorm()
      : Step({},
             "\n      - {name: hidden, dense: {outputs: 2}}\n"
             "      - {name: norm, batch_norm: {}}\n"
             "      - {name: scores, dense: {outputs: 3}}\n") {}

  // Compares figures of workers with equal weights and these statistics.
  Status Compare(const std::vector<std::vector<float>>& statistics) {
    worker::JobCompute compute = Computing();
    Gradient gradient(*job_, compute, *replica_, progress_);
    FiguresExchange figures(*job_, 0, compute, *replica_, gradient);
    pb::FiguresOfAll all;
    for (const std::vector<float>& of_one : statistics) {
      pb::Figures one = *figures.Compare();
      one.mutable_statistics()->Assign(of_one.begin(), of_one.end());
      all.add_by_rank(one.SerializeAsString());
    }
    Answer answer{
        {protocol::Kind::kFigures, 0, protocol::kCompare}, {}, Bytes::Own(all.SerializeAsString())};
    return figures.OnAnswer(answer, 4);
  }
};

// Means and second moments are averaged, so the variance between the workers' means is included.
TEST_F(StepWithNorm, EvaluatesWithTheStatisticsOfAllWorkers) {
  EXPECT_THAT(replica_->mean_statistics(), ::testing::ElementsAre(0, 0, 1, 1));
  ASSERT_TRUE(Compare({{1, 5, 2, 3}, {3, 5, 4, 5}}).ok());
  EXPECT_THAT(replica_->mean_statistics(), ::testing::ElementsAre(2, 5, 4, 4));
  EXPECT_THAT(replica_->statistics(), ::testing::ElementsAre(0, 0, 1, 1)) << "each its own";
  const Status status = Compare({{1, 5, 2, 3}, {3, 5}});
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), HasSubstr("worker 1 has 2 statistics of batch norms, this one 4"));
}

TEST_F(StepWithNorm, LoadsTheStatisticsOfAStateThatArrives) {
  auto donor = std::move(*Replica::Make(*job_));
  donor->statistics() = {7, 8, 9, 10};
  donor->mean_statistics() = {1, 2, 3, 4};
  ASSERT_TRUE(ReplicaState(*job_, *replica_).Load(ReplicaState(*job_, *donor).Save(3)).ok());
  EXPECT_EQ(replica_->statistics(), donor->statistics());
  EXPECT_EQ(replica_->mean_statistics(), donor->mean_statistics());
}

// A forward pass with callbacks of the test.
class WatchedCompute : public worker::BatchCompute {
 public:
  WatchedCompute(std::unique_ptr<worker::BatchCompute> inner,
                 std::function<void(uint64_t step, uint32_t)> asked)
      : inner_(std::move(inner)), asked_(std::move(asked)) {}
  double Forward(const data::Batch& batch, const engine::Need& need) override {
    return inner_->Forward(batch, [&](uint32_t tensor) {
      asked_(batch.step + 1, tensor);
      return need(tensor);
    });
  }
  void Backward(const std::function<void(uint32_t)>& ready) override { inner_->Backward(ready); }

 private:
  std::unique_ptr<worker::BatchCompute> inner_;
  std::function<void(uint64_t, uint32_t)> asked_;
};

// Takes batches as bytes, as a GPU does, and checks that each was announced.
class ByteCompute : public worker::BatchCompute {
 public:
  ByteCompute(std::unique_ptr<worker::BatchCompute> inner, const kernels::PixelRule& rule)
      : inner_(std::move(inner)), tables_(rule) {}
  double Forward(const data::Batch& batch, const engine::Need& need) override {
    EXPECT_TRUE(due_ == nullptr || due_ == &batch);
    due_ = std::exchange(coming_, nullptr);
    EXPECT_TRUE(batch.images.empty());
    floats_.step = batch.step;
    floats_.labels = batch.labels;
    floats_.images.resize(batch.bytes.size());
    for (size_t n = 0; n < batch.labels.size(); ++n) {
      tables_.ToFloats(batch.bytes.data() + n * 16, 4, 4, batch.draws[n],
                       floats_.images.data() + n * 16);
    }
    return inner_->Forward(floats_, need);
  }
  void Backward(const std::function<void(uint32_t)>& ready) override { inner_->Backward(ready); }
  bool TakesBytes() const override { return true; }
  data::Pin BytesPin() const override {
    return [this](const void*, size_t) {
      return std::shared_ptr<void>(nullptr, [this](void*) { EXPECT_EQ(let_go, 1); });
    };
  }
  void Announce(const data::Batch* next) override {
    ++expected;
    coming_ = next;
  }
  void ReleaseBatches() override { ++let_go; }

  uint64_t expected = 0;
  int let_go = 0;

 private:
  std::unique_ptr<worker::BatchCompute> inner_;
  const kernels::PixelTables tables_;
  data::Batch floats_;
  const data::Batch *due_ = nullptr, *coming_ = nullptr;
};

TEST_F(Step, GivesTheSameResultFromBytes) {
  events_.Push(Ready{0});
  ASSERT_TRUE(Run().ok());
  const auto by_floats = port_->hash_after;

  Reset();
  auto compute = std::make_unique<ByteCompute>(std::move(compute_), train_->rule());
  const ByteCompute& seen = *compute;
  compute_ = std::move(compute);
  events_.Push(Ready{0});
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(port_->hash_after, by_floats);
  EXPECT_EQ(seen.expected, kSteps);
  EXPECT_EQ(seen.let_go, 1) << "before the batches went";
}

class StepOfManyBuckets : public Step {
 protected:
  StepOfManyBuckets() : Step({"exchange.bucket_kib=1"}) {}
};

// The answer to bucket 0, which has the last layer, of round r arrives only after the forward pass
// of step r + 1 has passed the layers before it.
TEST_F(StepOfManyBuckets, BeginsTheNextForwardBeforeAllAnswersHaveArrived) {
  events_.Push(Ready{0});
  ASSERT_TRUE(Run().ok());
  const auto expected = port_->hash_after;

  Reset();
  const uint32_t late = job_->plan.buckets[0].first_tensor;
  ASSERT_GE(late, 1u);
  std::optional<Answer> held;
  uint64_t releases = 0;
  port_->hold = [&](const Answer& answer) {
    // Rounds 4, 8 and the last end before figures are compared, so they must not stay open.
    if (answer.cell != protocol::Cell{protocol::Kind::kPush, 0, 0} ||
        answer.outcome.of_round().round() % 4 == 0 || answer.outcome.of_round().round() == kSteps)
      return false;
    held = answer;
    return true;
  };
  compute_ = std::make_unique<WatchedCompute>(std::move(compute_), [&](uint64_t, uint32_t tensor) {
    if (tensor != late || !held.has_value()) return;
    events_.Push(*std::exchange(held, std::nullopt));
    ++releases;
  });
  events_.Push(Ready{0});
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(port_->hash_after, expected);
  EXPECT_EQ(releases, kSteps - 3);  // except rounds 4, 8 and the last
}

TEST_F(Step, EndsAfterTheRoundThatTheJobStopsAfter) {
  port_->change = [](Answer* answer) {
    pb::Outcome::OfRound* outcome = answer->outcome.mutable_of_round();
    if (outcome->round() == 4) outcome->set_stop_after(5);
  };
  events_.Push(Ready{0});
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(port_->hash_after.rbegin()->first, 5u);
}

TEST_F(Step, AJoiningWorkerStopsAfterTheJobsLastRound) {
  events_.Push(Ready{0, 3});
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(port_->hash_after.rbegin()->first, 3u);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/weights.safetensors"));
}

TEST_F(Step, LeavesAfterItsStepOnASignal) {
  events_.Push(Ready{0});
  uint64_t newest = 0;
  port_->take = [&](protocol::Cell cell, uint64_t round) {
    events_.Push(LeaveWanted{Status(Code::kTerminated, "stopped")});
    if (cell.kind == protocol::Kind::kPush) newest = round;
    return false;
  };
  EXPECT_EQ(Run().code(), Code::kTerminated);
  EXPECT_LE(newest, 2u);  // the next step may have begun when the signal arrives
  EXPECT_EQ(port_->finished.at(0).first.code(), Code::kTerminated);
}

TEST_F(Step, EndsWithTheJob) {
  port_->take = [this](protocol::Cell, uint64_t round) {
    if (round == 2) events_.Push(Ended{Status(Code::kPeerLost, "worker 1 was lost")});
    return round == 2;
  };
  events_.Push(Ready{0});
  EXPECT_EQ(Run().code(), Code::kPeerLost);
  EXPECT_EQ(port_->hash_after.size(), 1u);
}

TEST_F(Step, EndsOnASumOfTheWrongSize) {
  port_->change = [](Answer* answer) {
    if (answer->cell.kind == protocol::Kind::kPush) answer->payload = Bytes::Own(std::string("x"));
  };
  events_.Push(Ready{0});
  EXPECT_EQ(Run().code(), Code::kMismatch);
}

TEST_F(Step, AGradientThatIsNotFiniteNamesTensorWorkerAndRound) {
  std::fill_n(replica_->parameters(), job_->table.total, 3e38f);
  events_.Push(Ready{0});
  const Status status = Run();
  EXPECT_EQ(status.code(), Code::kDiverged);
  EXPECT_THAT(status.message(), HasSubstr("is not finite at round 1 on worker 0"));
}

}  // namespace
}  // namespace tern::client
