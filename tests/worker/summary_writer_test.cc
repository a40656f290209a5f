// Tests of what a worker writes for TensorBoard. A bucket is a group of tensors. A chunk is a piece
// of a bucket that is encoded separately. A cell is one reduction over the workers, for example of
// the pushes of one chunk, or of the scalers (the codecs' scale factors) of one bucket.
#include "worker/summary_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "client/exchange/coder.h"
#include "client/exchange/host_coder.h"
#include "client/train/apply.h"
#include "common/codec/codecs.h"
#include "common/protocol/rounds/cells.h"
#include "tests/client/train/train_job.h"
#include "tests/worker/tensorboard/read_events.h"
#include "worker/tensorboard/histogram.h"

namespace tern::client {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::SizeIs;

constexpr double kLearningRate = 0.5;

class PayloadPort : public Port {
 public:
  void Contribute(protocol::Cell, protocol::Contribution contribution) override {
    payloads.Push(protocol::PayloadOf(contribution));
  }
  void ReportApplied(uint64_t) override {}
  void SendSnapshot(Bytes, uint64_t) override {}
  void OfferCheckpoints(std::vector<pb::Checkpoint>) override {}
  void ReportInstalled(uint64_t) override {}
  void Finish(Status, pb::Figures, uint64_t) override {}

  Channel<Bytes> payloads;
};

std::unique_ptr<setup::Setup> MakeJobWithTensorBoard(std::vector<std::string> settings,
                                                     const std::string& folder) {
  settings.insert(settings.begin(), {"output_dir=" + folder, "metrics.tensorboard=true",
                                     "train.optimizer.name=sgd", "train.weight_decay.rate=0"});
  return SmallJob(settings);
}

// Worker 1 of a job. No other worker contributes to the rounds.
class OnlyWorker {
 public:
  OnlyWorker(const setup::Setup& job)
      : replica(std::move(*Replica::Make(job))),
        summary_writer(worker::SummaryWriter::Make(job, 1, progress, traffic)),
        coder(job, std::make_unique<HostCoder>(job, 1), port, events, progress),
        job_(job),
        sums_(job),
        applier_(job, /*steps=*/1, *replica, sums_) {
    coder.SetObserver(summary_writer.get());
    coder.SetEarlierScalersFunction([this](uint64_t round, uint32_t bucket) {
      return sums_.ScalersOfEarlierRound(round, bucket);
    });
    for (uint32_t lane = 0; lane <= job.plan.data_lanes[0]; ++lane) {
      for (auto& spec : protocol::MakeCellsOfLane(job.plan, 0, lane)) cell_specs_[spec.cell] = spec;
    }
  }

  // Runs step number `step`, with other gradients than the step before.
  void RunStep(uint64_t step) {
    for (uint64_t i = 0; i < job_.table.total; ++i)
      replica->gradients()[i] = std::sin(static_cast<float>(17 * i + step)) / 3;
    for (uint32_t b = 0; b < job_.plan.buckets.size(); ++b) {
      const protocol::Bucket& bucket = job_.plan.buckets[b];
      coder.Push(step, b, replica->gradients());
      if (!bucket.shared_parts.empty() && job_.plan.shares_before(step)) {
        const Answer scale_answer = MakeAnswer({protocol::Kind::kScale, b, 0}, step);
        sums_.Store(scale_answer);
        coder.ReceiveScalers(scale_answer);
      }
      for (uint32_t c = 0; c < bucket.chunks.size(); ++c)
        sums_.Store(MakeAnswer({protocol::Kind::kPush, b, c}, step));
    }
    ASSERT_TRUE(applier_.ApplyRound(step).ok());
    coder.ShowMeans(step, sums_);
    progress.rounds.Add();
    progress.steps.Add();
    progress.loss.Set(1 / static_cast<double>(step));
    summary_writer->OnSteps(step);
  }

  Registry registry;
  Progress progress{registry};
  net::Traffic traffic{registry};
  std::unique_ptr<Replica> replica;
  PayloadPort port;
  Events events;
  std::unique_ptr<worker::SummaryWriter> summary_writer;
  Coder coder;

 private:
  Answer MakeAnswer(const protocol::Cell& cell, uint64_t round) {
    auto sum = cell_specs_[cell].open(round);
    EXPECT_TRUE(sum->Add(1, *port.payloads.Pop()).ok());
    Answer answer;
    answer.cell = cell;
    answer.outcome.mutable_of_round()->set_round(round);
    answer.outcome.mutable_of_round()->set_contributors(1);
    answer.outcome.set_learning_rate(kLearningRate);
    answer.payload = sum->Close();
    return answer;
  }

  const setup::Setup& job_;
  Sums sums_;
  RoundApplier applier_;
  std::map<protocol::Cell, protocol::CellSpec> cell_specs_;
};

class SummaryWriterTest : public testing::TestWithParam<std::string> {
 protected:
  SummaryWriterTest() : folder_(testing::TempDir() + "tern_board_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~SummaryWriterTest() override { std::filesystem::remove_all(folder_); }
  tensorboard::ValuesByTag EventsByTag() const {
    const auto files = tensorboard::EventFiles(folder_ + "/events/worker.1");
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? tensorboard::ValuesByTag()
                         : tensorboard::ValuesOf(tensorboard::ReadEvents(files.front()));
  }

  std::string folder_;
};

void ExpectNear(const pb::HistogramProto& a, const pb::HistogramProto& b) {
  EXPECT_EQ(a.num(), b.num());
  EXPECT_NEAR(a.min(), b.min(), 1e-6);
  EXPECT_NEAR(a.max(), b.max(), 1e-6);
  EXPECT_NEAR(a.sum(), b.sum(), 1e-4);
  EXPECT_NEAR(a.sum_squares(), b.sum_squares(), 1e-4);
}

// The figures of step 2 for a tensor of the gradient.
void ExpectFigures(const tensorboard::ValuesByTag& events, const std::string& name,
                   const std::string& codec) {
  const double q = events.at("q/" + name).at(2).simple_value(),
               angle = events.at("angle/" + name).at(2).simple_value(),
               zeros = events.at("zeros/" + name).at(2).simple_value();
  if (codec == "fp32") {
    EXPECT_EQ(q, 0);
    EXPECT_NEAR(angle, 0, 1e-3);
  } else {
    EXPECT_GE(q, 0);
    EXPECT_LE(angle, 120);
  }
  EXPECT_GE(zeros, 0);
  EXPECT_LE(zeros, 1);
  // Only codecs with a clip, which is that of ternary codecs by default, clamp.
  const bool clamps = codec.starts_with("ternary") || codec.starts_with("qsgd_shared");
  EXPECT_EQ(events.count("clipped/" + name), clamps ? 1u : 0u);
  EXPECT_EQ(events.count("bias/" + name), clamps ? 1u : 0u);
  if (!clamps) return;
  EXPECT_LT(events.at("bias/" + name).at(2).simple_value(), 0.2);
  EXPECT_LT(events.at("clamped/" + name).at(2).simple_value(), 0.2);
}

// After a step from weights of 0, the weights are -kLearningRate times the decoded gradients.
TEST_P(SummaryWriterTest, HistogramsShowDecodedPushes) {
  std::vector<std::string> settings = {"exchange.codec=" + GetParam(), "exchange.chunk_kib=1",
                                       "metrics.histograms_every_steps=2"};
  if (GetParam() == "topk") settings.push_back("exchange.topk.ratio=0.1");
  if (GetParam() == "threshold") settings.push_back("exchange.threshold.value=0.1");
  const auto job = MakeJobWithTensorBoard(settings, folder_);
  std::map<std::string, pb::HistogramProto> gradient_histograms, decoded_histograms;
  {
    OnlyWorker worker(*job);
    worker.summary_writer->OnSteps(0);
    worker.RunStep(1);
    std::fill_n(worker.replica->parameters(), job->table.total, 0.f);
    worker.RunStep(2);
    for (uint64_t i = 0; i < job->table.total; ++i)
      worker.replica->parameters()[i] /= static_cast<float>(-kLearningRate);
    for (const auto& tensor : job->table.parameters) {
      gradient_histograms[tensor.name] =
          tensorboard::HistogramOf({worker.replica->gradients() + tensor.offset, tensor.count});
      decoded_histograms[tensor.name] =
          tensorboard::HistogramOf({worker.replica->parameters() + tensor.offset, tensor.count});
    }
  }
  const tensorboard::ValuesByTag events_by_tag = EventsByTag();
  for (const auto& [name, gradient_histogram] : gradient_histograms) {
    SCOPED_TRACE(name);
    ASSERT_EQ(events_by_tag.count("gradient/" + name) + events_by_tag.count("coded/" + name), 2u);
    EXPECT_THAT(events_by_tag.at("coded/" + name), ElementsAre(Key(2)));
    EXPECT_THAT(events_by_tag.at("averaged/" + name), ElementsAre(Key(2)));
    ExpectNear(events_by_tag.at("averaged/" + name).at(2).histo(), decoded_histograms[name]);
    EXPECT_EQ(events_by_tag.at("gradient/" + name).at(2).histo().SerializeAsString(),
              gradient_histogram.SerializeAsString());
    ExpectNear(events_by_tag.at("coded/" + name).at(2).histo(), decoded_histograms[name]);
    ExpectFigures(events_by_tag, name, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, SummaryWriterTest, testing::ValuesIn(codec::CodecNames()),
                         [](const auto& info) { return info.param; });

// This clip is the scaler itself, whether workers share it or not.
TEST_F(SummaryWriterTest, ShowsWhatTheOfficialClipCutsOff) {
  const auto job = MakeJobWithTensorBoard(
      {"exchange.codec=ternary", "exchange.clip=official", "exchange.clip_sigma=1",
       "exchange.scaler=per_worker", "metrics.histograms_every_steps=1"},
      folder_);
  {
    OnlyWorker worker(*job);
    worker.summary_writer->OnSteps(0);
    worker.RunStep(1);
  }
  const tensorboard::ValuesByTag events_by_tag = EventsByTag();
  ASSERT_EQ(events_by_tag.count("clipped/hidden.weight"), 1u);
  EXPECT_LT(events_by_tag.at("clipped/hidden.weight").at(1).histo().max(),
            0.9 * events_by_tag.at("gradient/hidden.weight").at(1).histo().max());
}

TEST_F(SummaryWriterTest, WritesScalarsEveryStepAndHistogramsPeriodically) {
  const auto job = MakeJobWithTensorBoard(
      {"exchange.codec=ternary", "metrics.histograms_every_steps=3"}, folder_);
  {
    OnlyWorker worker(*job);
    worker.summary_writer->OnSteps(0);
    for (uint64_t step = 1; step <= 7; ++step) worker.RunStep(step);
    worker.summary_writer->OnSteps(4);  // as if the job had gone back to its state after step 4
    for (uint64_t step = 5; step <= 6; ++step) worker.RunStep(step);
  }
  const tensorboard::ValuesByTag events_by_tag = EventsByTag();
  EXPECT_THAT(events_by_tag.at("train/loss"), SizeIs(7));
  EXPECT_EQ(events_by_tag.at("train/loss").at(4).simple_value(), 0.25);
  EXPECT_THAT(events_by_tag.at("learning_rate"), SizeIs(7));
  EXPECT_THAT(events_by_tag.at("coded/hidden.weight"), ElementsAre(Key(3), Key(6)));
  EXPECT_EQ(events_by_tag.count("bytes_up_per_step"), 1u);
  EXPECT_EQ(events_by_tag.count("test/accuracy"), 0u);
}

// TensorBoard drops events of a step from which a start event says that training begins again.
TEST_F(SummaryWriterTest, SaysWhereTrainingStarts) {
  const auto job = MakeJobWithTensorBoard({"exchange.codec=fp32"}, folder_);
  {
    OnlyWorker worker(*job);
    worker.summary_writer->OnSteps(0);
    for (uint64_t step = 1; step <= 3; ++step) worker.RunStep(step);
    worker.summary_writer->OnSteps(1);  // as if the job had gone back
    worker.RunStep(2);
  }
  std::vector<int64_t> steps, starts;
  for (const pb::Event& event :
       tensorboard::ReadEvents(tensorboard::EventFiles(folder_ + "/events/worker.1").front())) {
    const bool is_start = event.session_log().status() == pb::SessionLog::START;
    if (is_start) starts.push_back(event.step());
    const bool has_loss =
        event.summary().value_size() > 0 && event.summary().value(0).tag() == "train/loss";
    if (is_start || has_loss) steps.push_back(event.step());
  }
  EXPECT_THAT(starts, ElementsAre(1, 2));
  EXPECT_THAT(steps, ElementsAre(1, 1, 2, 3, 2, 2));
}

// With backup workers, a round may close before this worker has computed its gradient.
TEST_F(SummaryWriterTest, RepeatsNoLossOfAnEarlierStep) {
  const auto job = MakeJobWithTensorBoard({"exchange.codec=fp32"}, folder_);
  {
    OnlyWorker worker(*job);
    worker.summary_writer->OnSteps(0);
    worker.RunStep(1);
    worker.progress.rounds.Add();
    worker.summary_writer->OnSteps(2);
  }
  EXPECT_THAT(EventsByTag().at("train/loss"), ElementsAre(Key(1)));
  EXPECT_THAT(EventsByTag().at("learning_rate"), ElementsAre(Key(1), Key(2)));
}

TEST_F(SummaryWriterTest, NamesThePushedValues) {
  const auto job = MakeJobWithTensorBoard({"train.algorithm=psgd", "exchange.codec=fp32",
                                           "train.psgd.p=4", "metrics.histograms_every_steps=3"},
                                          folder_);
  {
    OnlyWorker worker(*job);
    worker.summary_writer->OnSteps(0);
    for (uint64_t step = 1; step <= 7; ++step) {
      worker.progress.rounds.Add();
      worker.summary_writer->OnSteps(step);
    }
    worker.RunStep(8);  // histograms were due at step 3; step 8 is the first push since then
  }
  EXPECT_THAT(EventsByTag().at("parameters/hidden.weight"), ElementsAre(Key(8)));
}

// Every second step workers push one of two fragments.
TEST_F(SummaryWriterTest, ShowsAllPartsOfTheModel) {
  const auto job =
      MakeJobWithTensorBoard({"train.algorithm=pqasgd", "exchange.codec=fp32", "train.pqasgd.p=4",
                              "train.pqasgd.fragments=2", "metrics.histograms_every_steps=8"},
                             folder_);
  std::vector<uint64_t> observed_steps;
  {
    OnlyWorker worker(*job);
    worker.summary_writer->OnSteps(0);
    for (uint64_t step = 1; step <= 20; ++step) {
      if (step % 2 == 0) observed_steps.push_back(worker.summary_writer->StepToObserve());
      worker.progress.rounds.Add();
      worker.summary_writer->OnSteps(step);
    }
  }
  EXPECT_THAT(observed_steps, ElementsAre(0, 0, 0, 8, 10, 0, 0, 16, 18, 0));
}

TEST_F(SummaryWriterTest, ContinuesWithoutAFile) {
  const auto job = MakeJobWithTensorBoard({}, "/dev/null/nowhere");
  Registry registry;
  const Progress progress(registry);
  const net::Traffic traffic(registry);
  EXPECT_EQ(worker::SummaryWriter::Make(*job, 0, progress, traffic), nullptr);
}

}  // namespace
}  // namespace tern::client
