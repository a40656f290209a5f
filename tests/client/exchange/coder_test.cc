// The coder and the update, with the server's own sums (cells) but without sockets.
#include "client/exchange/coder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "client/exchange/host_coder.h"
#include "client/train/apply.h"
#include "common/codec/codecs.h"
#include "common/protocol/rounds/cells.h"
#include "tests/client/train/recording_port.h"
#include "tests/client/train/train_job.h"

namespace tern::client {
namespace {

struct OneWorker {
  OneWorker(const setup::Setup& job, uint32_t rank)
      : replica(std::move(*Replica::Make(job))),
        progress(registry),
        coder(job, std::make_unique<HostCoder>(job, rank), port, events, progress),
        sums(job),
        apply(job, *replica, sums) {
    coder.TakeScalersFrom(
        [this](uint64_t round, uint32_t bucket) { return sums.ScalersFromBefore(round, bucket); });
  }
  Registry registry;
  std::unique_ptr<Replica> replica;
  RecordingPort port;
  Events events;
  Progress progress;
  Coder coder;
  Sums sums;
  Apply apply;
};

Answer AnswerOf(const protocol::Cell& cell, uint64_t round, Bytes payload) {
  Answer answer;
  answer.cell = cell;
  answer.outcome.mutable_of_round()->set_round(round);
  answer.outcome.mutable_of_round()->set_contributors(2);
  answer.outcome.set_learning_rate(0.1);
  answer.payload = std::move(payload);
  return answer;
}

struct Cluster {
  explicit Cluster(const setup::Setup& job) {
    for (uint32_t rank = 0; rank < 2; ++rank)
      workers.push_back(std::make_unique<OneWorker>(job, rank));
    for (uint32_t lane = 0; lane <= job.plan.data_lanes[0]; ++lane) {
      for (auto& spec : protocol::CellsOfLane(job.plan, 0, lane)) specs[spec.cell] = spec;
    }
  }
  std::vector<std::unique_ptr<OneWorker>> workers;
  std::map<protocol::Cell, protocol::CellSpec> specs;
};

// Runs one round of all workers. The replicas already have the gradients.
void RunRound(const setup::Setup& job, uint64_t round, Cluster* cluster) {
  auto* workers = &cluster->workers;
  auto& specs = cluster->specs;
  for (uint32_t b = 0; b < job.plan.buckets.size(); ++b) {
    for (auto& worker : *workers) worker->coder.Push(round, b, worker->replica->gradients());
    if (!job.plan.buckets[b].shared.empty() && job.plan.shares_before(round)) {
      auto sum = specs[{protocol::Kind::kScale, b, 0}].open(round);
      for (uint32_t rank = 0; rank < workers->size(); ++rank) {
        ASSERT_TRUE(sum->Add(rank, (*workers)[rank]->port.contributions.Pop()->payload).ok());
      }
      Answer scaled;
      scaled.cell = {protocol::Kind::kScale, b, 0};
      scaled.outcome.mutable_of_round()->set_round(round);
      scaled.payload = sum->Close();
      for (auto& worker : *workers) {
        worker->sums.Put(scaled);
        worker->coder.Scaled(scaled);
      }
    }
    for (uint32_t c = 0; c < job.plan.buckets[b].chunks.size(); ++c) {
      auto sum = specs[{protocol::Kind::kPush, b, c}].open(round);
      for (uint32_t rank = 0; rank < workers->size(); ++rank) {
        const auto pushed = (*workers)[rank]->port.contributions.Pop();
        EXPECT_LE(pushed->payload.size(), job.plan.chunk(b, c).max_push_bytes);
        ASSERT_TRUE(sum->Add(rank, pushed->payload).ok());
      }
      const Answer answer = AnswerOf({protocol::Kind::kPush, b, c}, round, sum->Close());
      EXPECT_LE(answer.payload.size(), job.plan.chunk(b, c).max_sum_bytes);
      for (auto& worker : *workers) worker->sums.Put(answer);
    }
  }
  for (auto& worker : *workers) {
    ASSERT_TRUE(worker->sums.Has(round));
    ASSERT_TRUE(worker->apply.Run(round).ok());
    worker->sums.Drop(round);
  }
}

void SetGradients(const setup::Setup& job, uint64_t round, Cluster* cluster) {
  for (uint32_t rank = 0; rank < cluster->workers.size(); ++rank) {
    for (uint64_t i = 0; i < job.table.total; ++i) {
      cluster->workers[rank]->replica->gradients()[i] =
          std::sin(static_cast<float>(i * (rank + 1) + round));
    }
  }
}

TEST(Coder, WithFp32TheRoundIsTheMeanGradient) {
  const auto job =
      SmallJob({"exchange.codec=fp32", "train.optimizer.name=sgd", "train.weight_decay.rate=0.01",
                "train.weight_decay.where=local", "exchange.bucket_kib=1", "exchange.chunk_kib=1"});
  Cluster cluster(*job);
  SetGradients(*job, 1, &cluster);
  const std::vector<float> before(cluster.workers[0]->replica->parameters(),
                                  cluster.workers[0]->replica->parameters() + job->table.total);
  RunRound(*job, 1, &cluster);
  for (const models::Parameter& p : job->table.parameters) {
    for (uint64_t i = p.offset; i < p.offset + p.count; ++i) {
      const double mean =
          (std::sin(static_cast<float>(i + 1)) + std::sin(static_cast<float>(2 * i + 1))) / 2.0;
      const double g = mean + (p.is_bias ? 0 : 0.01 * before[i]);
      EXPECT_NEAR(cluster.workers[0]->replica->parameters()[i], before[i] - 0.1 * g, 1e-6)
          << p.name << " " << i;
    }
  }
}

// For tensors whose gradients differ by orders of magnitude: selects a fraction of each tensor, or
// the largest elements of the model.
TEST(Coder, SelectsByAThresholdPerTensorOrForTheModel) {
  for (const std::string scope : {"local", "global"}) {
    const auto job = SmallJob({"exchange.codec=threshold", "exchange.threshold.ratio=0.1",
                               "exchange.threshold.scope=" + scope, "exchange.bucket_kib=1",
                               "train.optimizer.name=sgd", "train.weight_decay.rate=0"});
    EXPECT_EQ(job->plan.buckets.size() == 1, scope == "global");
    Cluster cluster(*job);
    for (auto& worker : cluster.workers) {
      float scale = 1;
      for (const models::Parameter& p : job->table.parameters) {
        for (uint64_t i = p.offset; i < p.offset + p.count; ++i)
          worker->replica->gradients()[i] = scale * (2 + std::sin(static_cast<float>(i)));
        scale /= 8;
      }
    }
    const float* w = cluster.workers[0]->replica->parameters();
    const std::vector<float> before(w, w + job->table.total);
    RunRound(*job, 1, &cluster);
    uint64_t changed = 0, tensors = 0;
    float smallest_sent = HUGE_VALF, largest_kept = 0;
    for (const models::Parameter& p : job->table.parameters) {
      const uint64_t others = changed;
      for (uint64_t i = p.offset; i < p.offset + p.count; ++i) {
        const float g = cluster.workers[0]->replica->gradients()[i];
        changed += w[i] != before[i];
        (w[i] != before[i] ? smallest_sent : largest_kept) =
            w[i] != before[i] ? std::min(smallest_sent, g) : std::max(largest_kept, g);
      }
      tensors += changed > others;
    }
    if (scope == "local") {
      EXPECT_EQ(tensors, job->table.parameters.size());
    } else {
      EXPECT_GT(smallest_sent, largest_kept);
      EXPECT_NEAR(static_cast<double>(changed), 0.1 * static_cast<double>(job->table.total), 1);
    }
  }
}

// Codes depend on the element's position in its tensor, not on chunks, also for codecs with
// memories.
class EveryCodec : public testing::TestWithParam<std::string> {};

TEST_P(EveryCodec, KeepsReplicasEqualForEveryPlan) {
  uint64_t hash = 0;
  for (const std::string chunk : {"1", "4096"}) {
    const auto job = SmallJob({"exchange.codec=" + GetParam(), "exchange.chunk_kib=" + chunk});
    Cluster cluster(*job);
    for (uint64_t round = 1; round <= 5; ++round) {
      SetGradients(*job, round, &cluster);
      RunRound(*job, round, &cluster);
      EXPECT_EQ(cluster.workers[0]->replica->Hash(), cluster.workers[1]->replica->Hash());
    }
    if (hash != 0) {
      EXPECT_EQ(hash, cluster.workers[0]->replica->Hash());
    }
    hash = cluster.workers[0]->replica->Hash();
  }
}

TEST(Coder, ScalersOfRunsOfElementsDoNotDependOnThePlan) {
  for (const std::string scaler : {"shared", "per_worker", "previous"}) {
    std::vector<uint64_t> hashes;
    for (const std::string chunk : {"1", "4096"}) {
      const auto job = SmallJob({"exchange.codec=ternary", "exchange.scaler_elements=100",
                                 "exchange.scaler=" + scaler, "exchange.chunk_kib=" + chunk});
      Cluster cluster(*job);
      for (uint64_t round = 1; round <= 4; ++round) {
        SetGradients(*job, round, &cluster);
        RunRound(*job, round, &cluster);
        EXPECT_EQ(cluster.workers[0]->replica->Hash(), cluster.workers[1]->replica->Hash());
      }
      hashes.push_back(cluster.workers[0]->replica->Hash());
    }
    EXPECT_EQ(hashes[0], hashes[1]) << scaler;
  }
}

// With plain SGD, a weight changes by -rate * scaler * k / N. From the second round on, the scaler
// is the margin times the largest of the previous round.
TEST(Coder, EncodesWithTheScalersOfThePreviousRound) {
  const auto job =
      SmallJob({"exchange.codec=ternary", "exchange.scaler=previous", "exchange.scaler_margin=1.5",
                "exchange.clip=none", "train.optimizer.name=sgd", "train.weight_decay.rate=0"});
  Cluster cluster(*job);
  OneWorker& worker = *cluster.workers[0];
  const auto& tensor = job->table.parameters[0];
  std::vector<float> largest = {0};  // by round
  for (uint64_t round = 1; round <= 4; ++round) {
    SetGradients(*job, round, &cluster);
    float max = 0;
    for (auto& one : cluster.workers) {
      for (uint64_t i = 0; i < tensor.count; ++i) {
        one->replica->gradients()[i] *=
            static_cast<float>(round * round);  // grows by more than 1.5
        max = std::max(max, std::abs(one->replica->gradients()[i]));
      }
    }
    largest.push_back(max);
    const std::vector<float> before(worker.replica->parameters(),
                                    worker.replica->parameters() + tensor.count);
    RunRound(*job, round, &cluster);
    const float scaler = round == 1 ? largest[1] : 1.5f * largest[round - 1];
    std::map<int, int> seen;
    for (uint64_t i = 0; i < tensor.count; ++i) {
      const double k = 2 * (before[i] - worker.replica->parameters()[i]) / (0.1 * scaler);
      EXPECT_NEAR(k, std::round(k), 1e-4 * (1 + std::abs(before[i]) / (0.1 * scaler)));
      ++seen[static_cast<int>(std::lround(k))];
    }
    EXPECT_GE(seen.begin()->first, -2);
    EXPECT_LE(seen.rbegin()->first, 2);
    EXPECT_GT(seen.size(), 2u);
    EXPECT_EQ(worker.progress.clamped.value() == 0, round == 1);
  }
  EXPECT_EQ(cluster.workers[0]->replica->Hash(), cluster.workers[1]->replica->Hash());
}

INSTANTIATE_TEST_SUITE_P(Of, EveryCodec, testing::ValuesIn(codec::CodecNames()),
                         [](const auto& info) { return info.param; });

// With two open rounds, a round's gradients are ready while the previous round still waits for its
// scalers, so the memory for them is not known yet.
TEST(Coder, AddsThePreviousRoundsMemoryEvenIfItsScalersArriveLate) {
  const auto job =
      SmallJob({"exchange.codec=ternary", "exchange.rules=[{tensors: '*.weight', codec: topk}]",
                "exchange.topk.ratio=0.1"});
  const auto said_when = [&](bool late) {
    OneWorker worker(*job, 0);
    std::vector<std::string> pushed;
    std::vector<float> g[2] = {std::vector<float>(job->table.total),
                               std::vector<float>(job->table.total)};
    for (uint64_t i = 0; i < job->table.total; ++i) {
      g[0][i] = std::sin(static_cast<float>(i));
      g[1][i] = std::cos(static_cast<float>(3 * i));
    }
    const auto ready = [&](uint64_t round) {
      worker.coder.Push(round, 0, g[round - 1].data());
      return worker.port.contributions.Pop()->payload;  // its scalers
    };
    const auto scale = [&](uint64_t round, const Bytes& scalers) {
      worker.coder.Scaled(AnswerOf({protocol::Kind::kScale, 0, 0}, round, scalers));
      pushed.emplace_back(worker.port.contributions.Pop()->payload.view());
    };
    const Bytes first = ready(1);
    if (!late) scale(1, first);
    const Bytes second = ready(2);
    if (late) scale(1, first);
    scale(2, second);
    return pushed;
  };
  const std::vector<std::string> in_turn = said_when(false);
  EXPECT_EQ(said_when(true), in_turn);
  EXPECT_NE(in_turn[0], in_turn[1]);
}

// With error feedback, the parameters are closer to those with fp32, because what fp16 lost is
// added later.
TEST(Coder, AddsWhatFp16LostToTheNextGradient) {
  const auto distance_with = [](const std::string& feedback) {
    const std::vector<std::string> plain = {"train.optimizer.name=sgd"};
    auto with = plain;
    with.insert(with.end(), {"exchange.codec=bf16", "exchange.error_feedback=" + feedback});
    auto without = plain;
    without.push_back("exchange.codec=fp32");
    const auto coded = SmallJob(with), exact = SmallJob(without);
    Cluster a(*coded), b(*exact);
    for (uint64_t round = 1; round <= 40; ++round) {
      SetGradients(*coded, 1, &a);
      SetGradients(*exact, 1, &b);
      RunRound(*coded, round, &a);
      RunRound(*exact, round, &b);
    }
    double distance = 0;
    for (uint64_t i = 0; i < coded->table.total; ++i) {
      distance +=
          std::abs(a.workers[0]->replica->parameters()[i] - b.workers[0]->replica->parameters()[i]);
    }
    return distance;
  };
  EXPECT_LT(distance_with("true"), 0.7 * distance_with("false"));
}

TEST(Coder, MixesCodecsByRule) {
  const auto job =
      SmallJob({"exchange.codec=ternary", "exchange.rules=[{tensors: '*.bias', codec: fp32}]"});
  EXPECT_EQ(job->plan.codec_of[0]->name(), "ternary");
  EXPECT_EQ(job->plan.codec_of[1]->name(), "fp32");
  Cluster cluster(*job);
  SetGradients(*job, 1, &cluster);
  RunRound(*job, 1, &cluster);
  EXPECT_EQ(cluster.workers[0]->replica->Hash(), cluster.workers[1]->replica->Hash());
}

TEST(Coder, NamesTensorRoundAndWorkerOfAGradientThatIsNotFinite) {
  const auto job = SmallJob();
  OneWorker worker(*job, 1);
  worker.replica->gradients()[job->table.parameters[2].offset] =
      std::numeric_limits<float>::quiet_NaN();
  for (uint32_t b = 0; b < job->plan.buckets.size(); ++b)
    worker.coder.Push(9, b, worker.replica->gradients());
  const auto event = worker.events.Pop();
  const Status status = std::get<Ended>(*event).status;
  EXPECT_EQ(status.code(), Code::kDiverged);
  for (const char* part : {"scores.weight", "round 9", "worker 1"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST(Apply, RefusesASumOfTheWrongSize) {
  const auto job = SmallJob();
  OneWorker worker(*job, 0);
  for (const protocol::Bucket& bucket : job->plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      worker.sums.Put(AnswerOf({protocol::Kind::kPush, chunk.bucket, chunk.index}, 1,
                               Bytes::Own(std::string(3, 'x'))));
    }
  }
  EXPECT_EQ(worker.apply.Run(1).code(), Code::kMismatch);
}

}  // namespace
}  // namespace tern::client
