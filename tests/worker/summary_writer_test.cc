// What a worker writes for TensorBoard, with a coder and the reduction cells of a server.
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

constexpr double kRate = 0.5;

class RecordingPort : public Port {
 public:
  void Contribute(protocol::Cell, protocol::Contribution contribution) override {
    payloads.Push(protocol::PayloadOf(contribution));
  }
  void Applied(uint64_t) override {}
  void Snapshot(Bytes, uint64_t) override {}
  void Offer(std::vector<pb::Checkpoint>) override {}
  void Installed(uint64_t) override {}
  void Finish(Status, pb::Figures, uint64_t) override {}

  Channel<Bytes> payloads;
};

std::unique_ptr<setup::Setup> JobWith(std::vector<std::string> more, const std::string& folder) {
  more.insert(more.begin(), {"output_dir=" + folder, "metrics.tensorboard=true",
                             "train.optimizer.name=sgd", "train.weight_decay.rate=0"});
  return SmallJob(more);
}

// Worker 1 of a job, the only contributor of its rounds.
class OnlyWorker {
 public:
  OnlyWorker(const setup::Setup& job)
      : replica(std::move(*Replica::Make(job))),
        board(worker::SummaryWriter::Make(job, 1, progress, traffic)),
        coder(job, std::make_unique<HostCoder>(job, 1), port, events, progress),
        job_(job),
        sums_(job),
        apply_(job, *replica, sums_) {
    coder.ShowTo(board.get());
    coder.SetEarlierScalers(
        [this](uint64_t round, uint32_t bucket) { return sums_.ScalersFromBefore(round, bucket); });
    for (uint32_t lane = 0; lane <= job.plan.data_lanes[0]; ++lane) {
      for (auto& spec : protocol::CellsOfLane(job.plan, 0, lane)) specs_[spec.cell] = spec;
    }
  }

  // Step `step`, with other gradients than the step before.
  void Step(uint64_t step) {
    for (uint64_t i = 0; i < job_.table.total; ++i)
      replica->gradients()[i] = std::sin(static_cast<float>(17 * i + step)) / 3;
    for (uint32_t b = 0; b < job_.plan.buckets.size(); ++b) {
      const protocol::Bucket& bucket = job_.plan.buckets[b];
      coder.Push(step, b, replica->gradients());
      if (!bucket.shared.empty() && job_.plan.shares_before(step)) {
        const Answer scaled = Sum({protocol::Kind::kScale, b, 0}, step);
        sums_.Put(scaled);
        coder.Scaled(scaled);
      }
      for (uint32_t c = 0; c < bucket.chunks.size(); ++c)
        sums_.Put(Sum({protocol::Kind::kPush, b, c}, step));
    }
    ASSERT_TRUE(apply_.Run(step).ok());
    progress.rounds.Add();
    progress.loss.Set(1 / static_cast<double>(step));
    board->At(step);
  }

  Registry registry;
  Progress progress{registry};
  net::Traffic traffic{registry};
  std::unique_ptr<Replica> replica;
  RecordingPort port;
  Events events;
  std::unique_ptr<worker::SummaryWriter> board;
  Coder coder;

 private:
  Answer Sum(const protocol::Cell& cell, uint64_t round) {
    auto sum = specs_[cell].open(round);
    EXPECT_TRUE(sum->Add(1, *port.payloads.Pop()).ok());
    Answer answer;
    answer.cell = cell;
    answer.outcome.mutable_of_round()->set_round(round);
    answer.outcome.mutable_of_round()->set_contributors(1);
    answer.outcome.set_learning_rate(kRate);
    answer.payload = sum->Close();
    return answer;
  }

  const setup::Setup& job_;
  Sums sums_;
  Apply apply_;
  std::map<protocol::Cell, protocol::CellSpec> specs_;
};

class SummaryWriterTest : public testing::TestWithParam<std::string> {
 protected:
  SummaryWriterTest() : folder_(testing::TempDir() + "tern_board_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~SummaryWriterTest() override { std::filesystem::remove_all(folder_); }
  tensorboard::ByTag Shown() const {
    const auto files = tensorboard::EventFiles(folder_ + "/events/worker.1");
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? tensorboard::ByTag()
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

// From W = 0, the step is -rate times the decoded push.
TEST_P(SummaryWriterTest, HistogramsShowDecodedPushes) {
  std::vector<std::string> keys = {"exchange.codec=" + GetParam(), "exchange.chunk_kib=1",
                                   "metrics.histograms_every_steps=2"};
  if (GetParam() == "topk") keys.push_back("exchange.topk.ratio=0.1");
  if (GetParam() == "threshold") keys.push_back("exchange.threshold.value=0.1");
  const auto job = JobWith(keys, folder_);
  std::map<std::string, pb::HistogramProto> gradients, coded;
  {
    OnlyWorker worker(*job);
    worker.board->At(0);
    worker.Step(1);
    std::fill_n(worker.replica->parameters(), job->table.total, 0.f);
    worker.Step(2);
    for (uint64_t i = 0; i < job->table.total; ++i)
      worker.replica->parameters()[i] /= static_cast<float>(-kRate);
    for (const auto& tensor : job->table.parameters) {
      gradients[tensor.name] =
          tensorboard::HistogramOf({worker.replica->gradients() + tensor.offset, tensor.count});
      coded[tensor.name] =
          tensorboard::HistogramOf({worker.replica->parameters() + tensor.offset, tensor.count});
    }
  }
  const tensorboard::ByTag shown = Shown();
  for (const auto& [name, gradient] : gradients) {
    SCOPED_TRACE(name);
    ASSERT_EQ(shown.count("gradient/" + name) + shown.count("coded/" + name), 2u);
    EXPECT_THAT(shown.at("coded/" + name), ElementsAre(Key(2)));
    EXPECT_EQ(shown.at("gradient/" + name).at(2).histo().SerializeAsString(),
              gradient.SerializeAsString());
    ExpectNear(shown.at("coded/" + name).at(2).histo(), coded[name]);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, SummaryWriterTest, testing::ValuesIn(codec::CodecNames()),
                         [](const auto& info) { return info.param; });

TEST_F(SummaryWriterTest, WritesScalarsEveryStepAndHistogramsPeriodically) {
  const auto job = JobWith({"exchange.codec=ternary", "metrics.histograms_every_steps=3"}, folder_);
  {
    OnlyWorker worker(*job);
    worker.board->At(0);
    for (uint64_t step = 1; step <= 7; ++step) worker.Step(step);
    worker.board->At(4);  // resumes after step 4, with nothing done since
    for (uint64_t step = 5; step <= 6; ++step) worker.Step(step);
  }
  const tensorboard::ByTag shown = Shown();
  EXPECT_THAT(shown.at("train/loss"), SizeIs(7));
  EXPECT_EQ(shown.at("train/loss").at(4).simple_value(), 0.25);
  EXPECT_THAT(shown.at("learning_rate"), SizeIs(7));
  EXPECT_THAT(shown.at("coded/hidden.weight"), ElementsAre(Key(3), Key(6)));
  EXPECT_EQ(shown.count("bytes_up_per_step"), 1u);
  EXPECT_EQ(shown.count("test/accuracy"), 0u);
}

TEST_F(SummaryWriterTest, NamesThePushedValues) {
  const auto job = JobWith({"train.algorithm=psgd", "exchange.codec=fp32", "train.psgd.p=4",
                            "metrics.histograms_every_steps=3"},
                           folder_);
  {
    OnlyWorker worker(*job);
    worker.board->At(0);
    for (uint64_t step = 1; step <= 7; ++step) {
      worker.progress.rounds.Add();
      worker.board->At(step);
    }
    worker.Step(8);  // the first step that pushes after step 3 was due
  }
  EXPECT_THAT(Shown().at("parameters/hidden.weight"), ElementsAre(Key(8)));
}

TEST_F(SummaryWriterTest, ContinuesWithoutAFile) {
  const auto job = JobWith({}, "/dev/null/nowhere");
  Registry registry;
  const Progress progress(registry);
  const net::Traffic traffic(registry);
  EXPECT_EQ(worker::SummaryWriter::Make(*job, 0, progress, traffic), nullptr);
}

}  // namespace
}  // namespace tern::client
