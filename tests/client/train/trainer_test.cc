// Tests of the Trainer, a worker's training loop, in a job of one worker. The test takes the place
// of the server and answers at once, except where a test delays an answer.
#include "client/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "client/exchange/host_coder.h"
#include "common/base/atomic_file.h"
#include "common/base/hash.h"
#include "common/protocol/rounds/cells.h"
#include "common/tensors/safetensors.h"
#include "tests/client/train/train_job.h"
#include "worker/job_compute.h"
#include "worker/net_compute.h"
#include "worker/wait_compute.h"

namespace tern::client {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<data::Samples> MakeImages(size_t count) {
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

// The worker's connection to the server. Answers every contribution at once with the sum that a
// server would send, unless a test's callback intervenes, and records the trainer's calls.
class AnsweringPort : public Port {
 public:
  AnsweringPort(const setup::Setup& job, Replica& replica, Events& events)
      : replica_(replica), events_(events) {
    for (uint32_t lane = 0; lane <= job.plan.data_lanes[0]; ++lane) {
      for (auto& spec : protocol::MakeCellsOfLane(job.plan, 0, lane)) specs_[spec.cell] = spec;
    }
  }

  void Contribute(protocol::Cell cell, protocol::Contribution contribution) override {
    const uint64_t round = protocol::ExchangeOf(contribution);
    if (on_contribute && on_contribute(cell, round)) return;
    auto cell_sum = specs_.at(cell).open(1);
    EXPECT_TRUE(cell_sum->Add(0, protocol::PayloadOf(contribution)).ok());
    Answer answer;
    answer.cell = cell;
    answer.payload = cell_sum->Close();
    answer.outcome.mutable_of_round()->set_round(round);
    answer.outcome.set_learning_rate(0.1);
    answer.outcome.mutable_of_round()->set_contributors(1);
    if (modify_answer) modify_answer(&answer);
    if (cell.kind == protocol::Kind::kScale) coder->ReceiveScalers(answer);
    if (delay_answer && delay_answer(answer)) return;
    events_.Push(std::move(answer));
  }
  void ReportApplied(uint64_t round) override { hash_after_round[round] = replica_.Hash(); }
  void SendSnapshot(Bytes state, uint64_t last_round) override {
    snapshots.emplace_back(std::move(state), last_round);
  }
  void OfferCheckpoints(std::vector<pb::Checkpoint>) override {}
  void ReportInstalled(uint64_t) override { ++num_installed; }
  void Finish(Status status, pb::Figures figures, uint64_t) override {
    finish_calls.emplace_back(std::move(status), std::move(figures));
    if (on_finish) on_finish();
  }

  // Called for each contribution, with its cell and round. If it returns true, no answer is sent.
  std::function<bool(protocol::Cell, uint64_t)> on_contribute;
  std::function<void(Answer*)> modify_answer;
  // Called with each answer. If it returns true, the answer is not sent at once; the test sends the
  // answer later.
  std::function<bool(const Answer&)> delay_answer;
  std::function<void()> on_finish;
  Coder* coder = nullptr;
  // The hash of the weights after each round.
  std::map<uint64_t, uint64_t> hash_after_round;
  std::vector<std::pair<Bytes, uint64_t>> snapshots;  // States sent, each with its last round.
  int num_installed = 0;
  std::vector<std::pair<Status, pb::Figures>> finish_calls;

 private:
  Replica& replica_;
  Events& events_;
  std::map<protocol::Cell, protocol::CellSpec> specs_;
};

constexpr uint64_t kSteps = 10;

class TrainerTest : public testing::Test {
 protected:
  explicit TrainerTest(std::vector<std::string> overrides = {},
                       const std::string& layers = kTwoDenseLayers) {
    folder_ = testing::TempDir() + "tern_step_" + std::to_string(std::rand());
    overrides.insert(overrides.end(),
                     {"workers.count=1", "faults.compare_every_steps=4", "output_dir=" + folder_});
    job_ = SmallJob(overrides, layers);
    ResetWorker();
  }
  ~TrainerTest() override { std::filesystem::remove_all(folder_); }

  // Makes a new worker that has not started.
  void ResetWorker() {
    replica_ = std::move(*Replica::Make(*job_));
    compute_ = std::move(*worker::MakeNetCompute(
        *job_, 0, {replica_->point(), replica_->gradients(), replica_->statistics().data()}));
    evaluator_ = std::move(*worker::Evaluator::Make(*job_, *test_samples_, *replica_, progress_,
                                                    engine::Device::kCpu));
    port_.emplace(*job_, *replica_, events_);
    coder_.emplace(*job_, std::make_unique<HostCoder>(*job_, 0), *port_, events_, progress_);
    port_->coder = &*coder_;
    port_->on_finish = [this] { events_.Push(Ended{Ok()}); };
  }

  data::Batches MakeBatches() {
    data::Epochs::Options options;
    options.batch_total = 4;
    return *data::Batches::Make(*train_samples_, options);
  }
  worker::JobCompute MakeCompute() { return {MakeBatches(), 1, *compute_, *evaluator_}; }

  Status Run() {
    worker::JobCompute compute = MakeCompute();
    return RunWith(compute);
  }
  Status RunWith(Compute& compute) {
    auto trainer =
        Trainer::Make({*job_, 0, kSteps, compute, *replica_, *coder_, *port_, events_, progress_});
    return trainer.ok() ? (*trainer)->Run() : trainer.status();
  }

  std::string folder_;
  std::unique_ptr<setup::Setup> job_;
  const std::unique_ptr<data::Samples> train_samples_ = MakeImages(20),
                                       test_samples_ = MakeImages(9);
  Registry registry_;
  Progress progress_{registry_};
  Events events_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<worker::BatchCompute> compute_;
  std::unique_ptr<worker::Evaluator> evaluator_;
  std::optional<AnsweringPort> port_;
  std::optional<Coder> coder_;
};

TEST_F(TrainerTest, TrainsToTheEndAndWritesTheWeights) {
  events_.Push(ReadyToTrain{0});
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(port_->hash_after_round.size(), kSteps);
  ASSERT_EQ(port_->finish_calls.size(), 1u);
  EXPECT_EQ(port_->finish_calls[0].second.test_samples(), 9u);
  EXPECT_EQ(port_->finish_calls[0].second.test_top5_correct(), 9u) << "there are three classes";
  EXPECT_EQ(port_->finish_calls[0].second.parameters_hash(), port_->hash_after_round[kSteps]);
  const auto weights = tensors::ReadSafetensors(folder_ + "/weights.safetensors");
  EXPECT_TRUE(weights.ok()) << weights.status().message();
}

// Adds figures of worker 1 to the answers of this purpose; without `figures`, those of worker 0.
auto AddFigures(uint32_t purpose, const std::optional<pb::Figures>& figures) {
  return [purpose, figures](Answer* answer) {
    if (answer->cell != protocol::Cell{protocol::Kind::kFigures, 0, purpose}) return;
    pb::FiguresOfAll all;
    ASSERT_TRUE(
        all.ParseFromArray(answer->payload.data(), static_cast<int>(answer->payload.size())));
    all.add_by_rank(figures.has_value() ? figures->SerializeAsString() : all.by_rank(0));
    answer->payload = Bytes::Own(all.SerializeAsString());
  };
}

TEST_F(TrainerTest, EndsWithBothHashesIfReplicasDiffer) {
  const uint64_t other_hash = 0x1234567890abcdef;
  pb::Figures figures_of_worker1;
  figures_of_worker1.set_parameters_hash(other_hash);
  port_->modify_answer = AddFigures(protocol::kCompare, figures_of_worker1);
  events_.Push(ReadyToTrain{0});
  const Status status = Run();
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(),
              HasSubstr("after step 4: worker 0 has hash " + Hex(port_->hash_after_round[4]) +
                        ", worker 1 has " + Hex(other_hash)));
  EXPECT_EQ(port_->hash_after_round.size(), 4u) << "no further step";
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/weights.safetensors"));
}

TEST_F(TrainerTest, SendsStateBetweenTwoRounds) {
  port_->on_contribute = [this](protocol::Cell cell, uint64_t round) {
    if (cell.kind == protocol::Kind::kPush && round == 3) events_.Push(SnapshotWanted{});
    return false;
  };
  events_.Push(ReadyToTrain{0});
  EXPECT_TRUE(Run().ok());
  ASSERT_GE(port_->snapshots.size(), 1u);
  const auto& [state, applied] = port_->snapshots[0];
  EXPECT_EQ(applied, 2u);
  auto restored = std::move(*Replica::Make(*job_));
  ASSERT_TRUE(ReplicaState(*job_, *restored).Load(state).ok());
  EXPECT_EQ(restored->Hash(), port_->hash_after_round[2]);
}

TEST_F(TrainerTest, SendsStateAfterTheLastStepToo) {
  port_->on_finish = [this] {
    events_.Push(SnapshotWanted{});
    events_.Push(Ended{Ok()});
  };
  events_.Push(ReadyToTrain{0});
  EXPECT_TRUE(Run().ok());
  ASSERT_EQ(port_->snapshots.size(), 1u);
  EXPECT_EQ(port_->snapshots[0].second, kSteps);
}

TEST_F(TrainerTest, ContinuesFromAStateThatArrives) {
  auto donor = std::move(*Replica::Make(*job_));
  std::fill_n(donor->parameters(), job_->table.total, 0.25f);
  events_.Push(StateArrived{ReplicaState(*job_, *donor).Save(7), 7});
  events_.Push(ReadyToTrain{7});
  const uint64_t initial_hash = replica_->Hash();
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(port_->num_installed, 1);
  ASSERT_EQ(port_->hash_after_round.size(), kSteps - 7);
  EXPECT_EQ(port_->hash_after_round.begin()->first, 8u);
  EXPECT_NE(port_->hash_after_round[8], initial_hash);
}

// Buckets wait for the norm of the whole gradient, even if the job overlaps their exchange with the
// backward pass.
TEST_F(TrainerTest, ClipsTheWholeGradientBeforeAnyOfItIsSent) {
  std::map<std::string, uint64_t> hashes;
  for (const std::string clip_norm : {"0", "0.001"}) {
    for (const std::string overlap : {"true", "false"}) {
      job_ = SmallJob({"workers.count=1", "output_dir=" + folder_, "train.clip_norm=" + clip_norm,
                       "exchange.overlap=" + overlap},
                      kTwoDenseLayers);
      ResetWorker();
      events_.Push(ReadyToTrain{0});
      EXPECT_TRUE(Run().ok());
      hashes[clip_norm + overlap] = port_->hash_after_round[kSteps];
    }
  }
  EXPECT_EQ(hashes["0.001true"], hashes["0.001false"]);
  EXPECT_NE(hashes["0.001true"], hashes["0true"]);
}

class TrainerThatWaitsTest : public TrainerTest {
 protected:
  TrainerThatWaitsTest()
      : TrainerTest({"train.compute=wait", "train.compute_wait_ms=0", "train.clip_norm=0.001",
                     "train.weight_decay.rate=0.1", "train.weight_decay.where=in_gradient"}) {
    UseWaitCompute();
  }
  void UseWaitCompute() {
    compute_ = worker::MakeWaitCompute(*job_, job_->job.train(), 0, replica_->gradients());
  }
  // Trains to the end, and once more from the State that is asked for in round `round`. Without
  // computing, every step has the same gradients, also after the restart.
  void ExpectTheSameAfterARestartIn(uint64_t round, uint64_t last_round) {
    port_->on_contribute = [this, round](protocol::Cell cell, uint64_t of_round) {
      if (cell.kind == protocol::Kind::kPush && of_round == round) events_.Push(SnapshotWanted{});
      return false;
    };
    events_.Push(ReadyToTrain{0});
    EXPECT_TRUE(Run().ok());
    const uint64_t final_hash = port_->hash_after_round[last_round];
    ASSERT_FALSE(port_->snapshots.empty());
    const auto [state, applied] = port_->snapshots[0];
    ResetWorker();
    UseWaitCompute();
    events_.Push(StateArrived{state, applied});
    events_.Push(ReadyToTrain{applied});
    EXPECT_TRUE(Run().ok());
    EXPECT_EQ(port_->hash_after_round[last_round], final_hash);
  }
};

TEST_F(TrainerThatWaitsTest, ContinuesAfterARestartAsIfItHadNotBeenInterrupted) {
  ExpectTheSameAfterARestartIn(7, kSteps);
}

// The State of psgd also has the momentum that the workers averaged last.
TEST_F(TrainerThatWaitsTest, ContinuesWithTheMomentumThatWorkersAveraged) {
  job_ = SmallJob({"workers.count=1", "output_dir=" + folder_, "train.compute=wait",
                   "train.compute_wait_ms=0", "train.algorithm=psgd", "train.psgd.p=2",
                   "train.psgd.at_sync=average", "train.optimizer.name=momentum"},
                  kTwoDenseLayers);
  ResetWorker();
  UseWaitCompute();
  ExpectTheSameAfterARestartIn(3, kSteps / 2);
}

class TrainerWithBatchNormTest : public TrainerTest {
 protected:
  TrainerWithBatchNormTest()
      : TrainerTest({},
                    "\n      - {name: hidden, dense: {outputs: 2}}\n"
                    "      - {name: norm, batch_norm: {}}\n"
                    "      - {name: scores, dense: {outputs: 3}}\n") {}

  // Lets FiguresExchange compare workers that have equal weights and these batch-norm statistics,
  // one array per worker.
  Status Compare(const std::vector<std::vector<float>>& statistics) {
    worker::JobCompute compute = MakeCompute();
    Gradient gradient(*job_, compute, *replica_, progress_);
    FiguresExchange figures_exchange(*job_, 0, compute, *replica_, gradient);
    pb::FiguresOfAll figures_of_all;
    for (const std::vector<float>& of_worker : statistics) {
      pb::Figures figures = *figures_exchange.MakeComparisonFigures();
      figures.mutable_statistics()->Assign(of_worker.begin(), of_worker.end());
      figures_of_all.add_by_rank(figures.SerializeAsString());
    }
    Answer answer{{protocol::Kind::kFigures, 0, protocol::kCompare},
                  {},
                  Bytes::Own(figures_of_all.SerializeAsString())};
    return figures_exchange.OnAnswer(answer, 4);
  }
};

// Each array has the means of 2 channels, then their variances. Means and second moments are
// averaged over the workers, so the resulting variance includes that between the workers' means.
TEST_F(TrainerWithBatchNormTest, EvaluatesWithTheStatisticsOfAllWorkers) {
  EXPECT_THAT(replica_->mean_statistics(), ::testing::ElementsAre(0, 0, 1, 1));
  ASSERT_TRUE(Compare({{1, 5, 2, 3}, {3, 5, 4, 5}}).ok());
  EXPECT_THAT(replica_->mean_statistics(), ::testing::ElementsAre(2, 5, 4, 4));
  EXPECT_THAT(replica_->statistics(), ::testing::ElementsAre(0, 0, 1, 1))
      << "each worker keeps its own";
  const Status status = Compare({{1, 5, 2, 3}, {3, 5}});
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), HasSubstr("worker 1 has 2 statistics of batch norms, this one 4"));
}

TEST_F(TrainerWithBatchNormTest, LoadsTheStatisticsOfAStateThatArrives) {
  auto donor = std::move(*Replica::Make(*job_));
  donor->statistics() = {7, 8, 9, 10};
  donor->mean_statistics() = {1, 2, 3, 4};
  ASSERT_TRUE(ReplicaState(*job_, *replica_).Load(ReplicaState(*job_, *donor).Save(3)).ok());
  EXPECT_EQ(replica_->statistics(), donor->statistics());
  EXPECT_EQ(replica_->mean_statistics(), donor->mean_statistics());
}

// Calls on_need(step, tensor) whenever the forward pass is about to use a tensor.
class WatchedCompute : public worker::BatchCompute {
 public:
  WatchedCompute(std::unique_ptr<worker::BatchCompute> inner_compute,
                 std::function<void(uint64_t step, uint32_t tensor)> on_need)
      : inner_compute_(std::move(inner_compute)), on_need_(std::move(on_need)) {}
  double Forward(const data::Batch& batch, const engine::Need& need) override {
    return inner_compute_->Forward(batch, [&](uint32_t tensor) {
      on_need_(batch.step + 1, tensor);
      return need(tensor);
    });
  }
  void Backward(const std::function<void(uint32_t)>& ready) override {
    inner_compute_->Backward(ready);
  }

 private:
  std::unique_ptr<worker::BatchCompute> inner_compute_;
  std::function<void(uint64_t, uint32_t)> on_need_;
};

// Accepts images as bytes, as a GPU does, and converts them to floats. Checks that a forward pass
// gets the batch that the trainer announced for it, if it announced one.
class ByteCompute : public worker::BatchCompute {
 public:
  ByteCompute(std::unique_ptr<worker::BatchCompute> inner_compute, const kernels::PixelRule& rule)
      : inner_compute_(std::move(inner_compute)), tables_(rule) {}
  double Forward(const data::Batch& batch, const engine::Need& need) override {
    EXPECT_TRUE(announced_batch_ == nullptr || announced_batch_ == &batch);
    announced_batch_ = std::exchange(next_announced_batch_, nullptr);
    EXPECT_TRUE(batch.images.empty());
    float_batch_.step = batch.step;
    float_batch_.labels = batch.labels;
    float_batch_.images.resize(batch.bytes.size());
    for (size_t n = 0; n < batch.labels.size(); ++n) {
      tables_.ToFloats(batch.bytes.data() + n * 16, 4, 4, batch.draws[n],
                       float_batch_.images.data() + n * 16);
    }
    return inner_compute_->Forward(float_batch_, need);
  }
  void Backward(const std::function<void(uint32_t)>& ready) override {
    inner_compute_->Backward(ready);
  }
  bool TakesBytes() const override { return true; }
  data::PinFunction BytesPin() const override {
    return [this](const void*, size_t) {
      return std::shared_ptr<void>(nullptr, [this](void*) { EXPECT_EQ(num_releases, 1); });
    };
  }
  void AnnounceNextBatch(const data::Batch* next) override {
    ++num_announced;
    next_announced_batch_ = next;
  }
  void ReleaseBatches() override { ++num_releases; }

  uint64_t num_announced = 0;
  int num_releases = 0;

 private:
  std::unique_ptr<worker::BatchCompute> inner_compute_;
  const kernels::PixelTables tables_;
  data::Batch float_batch_;
  // The batches that were announced for the current forward pass and for the next one.
  const data::Batch *announced_batch_ = nullptr, *next_announced_batch_ = nullptr;
};

TEST_F(TrainerTest, GivesTheSameResultFromImagesAsBytes) {
  events_.Push(ReadyToTrain{0});
  ASSERT_TRUE(Run().ok());
  const auto hashes_from_floats = port_->hash_after_round;

  ResetWorker();
  auto compute = std::make_unique<ByteCompute>(std::move(compute_), train_samples_->rule());
  const ByteCompute& byte_compute = *compute;
  compute_ = std::move(compute);
  events_.Push(ReadyToTrain{0});
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(port_->hash_after_round, hashes_from_floats);
  EXPECT_EQ(byte_compute.num_announced, kSteps);
  EXPECT_EQ(byte_compute.num_releases, 1) << "released once, before the batches are freed";
}

class TrainerWithManyBucketsTest : public TrainerTest {
 protected:
  TrainerWithManyBucketsTest() : TrainerTest({"exchange.bucket_kib=1"}) {}
};

// Bucket 0 (a bucket is a group of tensors) has the last layer. The test delays the answer to
// bucket 0 of round r until the forward pass of step r + 1 has passed all earlier layers.
TEST_F(TrainerWithManyBucketsTest, BeginsTheNextForwardBeforeAllAnswersHaveArrived) {
  events_.Push(ReadyToTrain{0});
  ASSERT_TRUE(Run().ok());
  const auto expected_hashes = port_->hash_after_round;

  ResetWorker();
  const uint32_t last_tensor = job_->plan.buckets[0].first_tensor;
  ASSERT_GE(last_tensor, 1u);
  std::optional<Answer> delayed_answer;
  uint64_t num_delayed = 0;
  port_->delay_answer = [&](const Answer& answer) {
    // The workers' hashes are compared after rounds 4, 8 and the last, so these rounds must be
    // applied before the next step.
    if (answer.cell != protocol::Cell{protocol::Kind::kPush, 0, 0} ||
        answer.outcome.of_round().round() % 4 == 0 || answer.outcome.of_round().round() == kSteps)
      return false;
    delayed_answer = answer;
    return true;
  };
  compute_ = std::make_unique<WatchedCompute>(std::move(compute_), [&](uint64_t, uint32_t tensor) {
    if (tensor != last_tensor || !delayed_answer.has_value()) return;
    events_.Push(*std::exchange(delayed_answer, std::nullopt));
    ++num_delayed;
  });
  events_.Push(ReadyToTrain{0});
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(port_->hash_after_round, expected_hashes);
  EXPECT_EQ(num_delayed, kSteps - 3);  // All rounds except 4, 8 and the last.
}

TEST_F(TrainerTest, EndsAfterTheRoundThatTheJobStopsAfter) {
  port_->modify_answer = [](Answer* answer) {
    pb::Outcome::OfRound* outcome = answer->outcome.mutable_of_round();
    if (outcome->round() == 4) outcome->set_stop_after(5);
  };
  events_.Push(ReadyToTrain{0});
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(port_->hash_after_round.rbegin()->first, 5u);
}

TEST_F(TrainerTest, AJoiningWorkerStopsAfterTheJobsLastRound) {
  events_.Push(ReadyToTrain{0, 3});
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(port_->hash_after_round.rbegin()->first, 3u);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/weights.safetensors"));
}

TEST_F(TrainerTest, FinishesItsStepAndLeavesOnASignal) {
  events_.Push(ReadyToTrain{0});
  // The coder's thread may still push after Run() has returned.
  const auto newest_round = std::make_shared<std::atomic<uint64_t>>(0);
  port_->on_contribute = [this, newest_round](protocol::Cell cell, uint64_t round) {
    events_.Push(LeaveWanted{Status(Code::kTerminated, "stopped")});
    if (cell.kind == protocol::Kind::kPush) *newest_round = round;
    return false;
  };
  EXPECT_EQ(Run().code(), Code::kTerminated);
  EXPECT_LE(*newest_round, 2u);  // Step 2 may have begun when the signal arrives.
  EXPECT_EQ(port_->finish_calls.at(0).first.code(), Code::kTerminated);
}

TEST_F(TrainerTest, EndsWithTheJob) {
  port_->on_contribute = [this](protocol::Cell, uint64_t round) {
    if (round == 2) events_.Push(Ended{Status(Code::kPeerLost, "worker 1 was lost")});
    return round == 2;
  };
  events_.Push(ReadyToTrain{0});
  EXPECT_EQ(Run().code(), Code::kPeerLost);
  EXPECT_EQ(port_->hash_after_round.size(), 1u);
}

TEST_F(TrainerTest, AnErrorLeavesTheCurveSoFar) {
  port_->on_contribute = [this](protocol::Cell cell, uint64_t round) {
    const bool ends = round == 6 && cell.kind == protocol::Kind::kPush;
    if (ends) events_.Push(Ended{Status(Code::kDiverged, "not finite")});
    return ends;
  };
  events_.Push(ReadyToTrain{0});
  EXPECT_EQ(Run().code(), Code::kDiverged);
  const Result<std::string> csv = ReadWholeFile(folder_ + "/curve.csv");
  ASSERT_TRUE(csv.ok()) << csv.status().message();
  const std::vector<CurveRow> rows = ParseCurve(*csv);
  ASSERT_EQ(rows.size(), 1u);  // Losses are compared every four steps.
  EXPECT_EQ(rows[0].step, 4u);
  EXPECT_TRUE(rows[0].train_loss.has_value());
}

// Evaluates to the given result, in place of the test set.
class FixedEvaluation : public worker::JobCompute {
 public:
  FixedEvaluation(const data::Batches& batches, worker::BatchCompute& compute,
                  worker::Evaluator& evaluator, Result<Score> result)
      : JobCompute(batches, 1, compute, evaluator), result_(std::move(result)) {}
  Result<Score> Evaluate(uint32_t, uint32_t, Confusion*) override { return result_; }

 private:
  const Result<Score> result_;
};

// Test images are decoded for the first time after the last step, unless the job evaluates before.
TEST_F(TrainerTest, DamagedTestImagesDoNotCostTheWeights) {
  const std::string weights_path = folder_ + "/weights.safetensors";
  const Status damaged(Code::kBadData, "0.png: damaged PNG"), broken(Code::kInternal, "broken");
  events_.Push(ReadyToTrain{0});
  FixedEvaluation broken_compute(MakeBatches(), *compute_, *evaluator_, broken);
  EXPECT_EQ(RunWith(broken_compute).code(), Code::kInternal);
  EXPECT_FALSE(std::filesystem::exists(weights_path)) << "a device may have failed";
  for (const Result<Score>& result : {Result<Score>(damaged), Result<Score>(Score{})}) {
    ResetWorker();
    events_.Push(ReadyToTrain{0});
    FixedEvaluation compute(MakeBatches(), *compute_, *evaluator_, result);
    const Status status = RunWith(compute);
    EXPECT_EQ(status.code(), Code::kBadData);
    EXPECT_EQ(status.message(), "the weights are written, but their last evaluation has failed: " +
                                    (result.ok() ? "all test images are damaged; expected one that "
                                                   "can be decoded"
                                                 : damaged.message()));
    ASSERT_EQ(port_->finish_calls.size(), 1u);
    EXPECT_EQ(port_->finish_calls[0].second.test_samples(), 0u);
    EXPECT_EQ(port_->finish_calls[0].second.parameters_hash(), port_->hash_after_round[kSteps]);
    EXPECT_TRUE(std::filesystem::remove(weights_path));
  }
}

TEST_F(TrainerTest, ScoresOfAPartOfTheTestSetAreNone) {
  pb::Figures failed;
  failed.set_test_failed(true);
  port_->modify_answer = AddFigures(protocol::kEvaluate, failed);
  events_.Push(ReadyToTrain{0});
  EXPECT_TRUE(Run().ok()) << "worker 1 ends the job";
  EXPECT_EQ(port_->finish_calls.at(0).second.test_samples(), 0u);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/weights.safetensors"));
}

TEST_F(TrainerTest, ScoresAreNoneIfAWorkerIsLostAfterTheComparison) {
  port_->modify_answer = AddFigures(protocol::kCompare, std::nullopt);
  events_.Push(ReadyToTrain{0});
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(port_->finish_calls.at(0).second.test_samples(), 0u);
}

TEST_F(TrainerTest, EndsOnASumOfTheWrongSize) {
  port_->modify_answer = [](Answer* answer) {
    if (answer->cell.kind == protocol::Kind::kPush) answer->payload = Bytes::Own(std::string("x"));
  };
  events_.Push(ReadyToTrain{0});
  EXPECT_EQ(Run().code(), Code::kMismatch);
}

TEST_F(TrainerTest, AGradientThatIsNotFiniteNamesTensorWorkerAndRound) {
  std::fill_n(replica_->parameters(), job_->table.total, 3e38f);
  events_.Push(ReadyToTrain{0});
  const Status status = Run();
  EXPECT_EQ(status.code(), Code::kDiverged);
  EXPECT_THAT(status.message(), HasSubstr("is not finite at round 1 on worker 0"));
}

}  // namespace
}  // namespace tern::client
