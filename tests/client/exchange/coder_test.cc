// Tests of the coder, which encodes gradients into pushes, and of RoundApplier, which updates the
// weights with the workers' sum. One or two workers run in this process without sockets; the
// servers' own sum objects (protocol::CellSpec::open) add up the workers' pushes.
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

// A worker: its replica, the coder, and the applier, which updates the weights. The port records
// what the coder sends.
struct TestWorker {
  TestWorker(const setup::Setup& job, uint32_t rank)
      : replica(std::move(*Replica::Make(job))),
        progress(registry),
        coder(job, std::make_unique<HostCoder>(job, rank), port, events, progress),
        sums(job),
        applier(job, /*steps=*/1, *replica, sums) {
    coder.SetEarlierScalersFunction([this](uint64_t round, uint32_t bucket) {
      return sums.ScalersOfEarlierRound(round, bucket);
    });
  }
  Registry registry;
  std::unique_ptr<Replica> replica;
  RecordingPort port;
  Events events;
  Progress progress;
  Coder coder;
  Sums sums;
  RoundApplier applier;
};

// Returns the servers' answer to the contributions of 2 workers to a cell, with learning rate 0.1.
// `payload` is the sum of the contributions.
Answer MakeAnswer(const protocol::Cell& cell, uint64_t round, Bytes payload) {
  Answer answer;
  answer.cell = cell;
  answer.outcome.mutable_of_round()->set_round(round);
  answer.outcome.mutable_of_round()->set_contributors(2);
  answer.outcome.set_learning_rate(0.1);
  answer.payload = std::move(payload);
  return answer;
}

// Two workers of a job, and the descriptions of the cells (sums of scalers or of pushes) of the
// job's only server.
struct Cluster {
  explicit Cluster(const setup::Setup& job) {
    for (uint32_t rank = 0; rank < 2; ++rank)
      workers.push_back(std::make_unique<TestWorker>(job, rank));
    for (uint32_t lane = 0; lane <= job.plan.data_lanes[0]; ++lane) {
      for (auto& spec : protocol::MakeCellsOfLane(job.plan, 0, lane))
        spec_by_cell[spec.cell] = spec;
    }
  }
  std::vector<std::unique_ptr<TestWorker>> workers;
  std::map<protocol::Cell, protocol::CellSpec> spec_by_cell;
};

// Runs one round of all workers. The replicas already have the gradients.
void RunRound(const setup::Setup& job, uint64_t round, Cluster* cluster) {
  auto* workers = &cluster->workers;
  auto& spec_by_cell = cluster->spec_by_cell;
  for (uint32_t b = 0; b < job.plan.buckets.size(); ++b) {
    for (auto& worker : *workers) worker->coder.Push(round, b, worker->replica->gradients());
    if (!job.plan.buckets[b].shared_parts.empty() && job.plan.shares_before(round)) {
      auto cell_sum = spec_by_cell[{protocol::Kind::kScale, b, 0}].open(round);
      for (uint32_t rank = 0; rank < workers->size(); ++rank) {
        ASSERT_TRUE(cell_sum->Add(rank, (*workers)[rank]->port.contributions.Pop()->payload).ok());
      }
      Answer scaler_answer;
      scaler_answer.cell = {protocol::Kind::kScale, b, 0};
      scaler_answer.outcome.mutable_of_round()->set_round(round);
      scaler_answer.payload = cell_sum->Close();
      for (auto& worker : *workers) {
        worker->sums.Store(scaler_answer);
        worker->coder.ReceiveScalers(scaler_answer);
      }
    }
    for (uint32_t c = 0; c < job.plan.buckets[b].chunks.size(); ++c) {
      auto cell_sum = spec_by_cell[{protocol::Kind::kPush, b, c}].open(round);
      for (uint32_t rank = 0; rank < workers->size(); ++rank) {
        const auto push = (*workers)[rank]->port.contributions.Pop();
        EXPECT_LE(push->payload.size(), job.plan.chunk(b, c).max_push_bytes);
        ASSERT_TRUE(cell_sum->Add(rank, push->payload).ok());
      }
      const Answer answer = MakeAnswer({protocol::Kind::kPush, b, c}, round, cell_sum->Close());
      EXPECT_LE(answer.payload.size(), job.plan.chunk(b, c).max_sum_bytes);
      for (auto& worker : *workers) worker->sums.Store(answer);
    }
  }
  for (auto& worker : *workers) {
    ASSERT_TRUE(worker->sums.HasAnswers(round));
    ASSERT_TRUE(worker->applier.ApplyRound(round).ok());
    worker->sums.DropRoundsUpTo(round);
  }
}

// Sets the workers' gradients to values that depend on the element, the rank and the round.
void SetGradients(const setup::Setup& job, uint64_t round, Cluster* cluster) {
  for (uint32_t rank = 0; rank < cluster->workers.size(); ++rank) {
    for (uint64_t i = 0; i < job.table.total; ++i) {
      cluster->workers[rank]->replica->gradients()[i] =
          std::sin(static_cast<float>(i * (rank + 1) + round));
    }
  }
}

TEST(Coder, AppliesTheMeanGradientWithFp32) {
  const auto job =
      SmallJob({"exchange.codec=fp32", "train.optimizer.name=sgd", "train.weight_decay.rate=0.01",
                "train.weight_decay.where=local", "exchange.bucket_kib=1", "exchange.chunk_kib=1"});
  Cluster cluster(*job);
  SetGradients(*job, 1, &cluster);
  const std::vector<float> weights_before(
      cluster.workers[0]->replica->parameters(),
      cluster.workers[0]->replica->parameters() + job->table.total);
  RunRound(*job, 1, &cluster);
  for (const models::Parameter& p : job->table.parameters) {
    for (uint64_t i = p.offset; i < p.offset + p.count; ++i) {
      const double mean =
          (std::sin(static_cast<float>(i + 1)) + std::sin(static_cast<float>(2 * i + 1))) / 2.0;
      const double g = mean + (p.is_bias ? 0 : 0.01 * weights_before[i]);
      EXPECT_NEAR(cluster.workers[0]->replica->parameters()[i], weights_before[i] - 0.1 * g, 1e-6)
          << p.name << " " << i;
    }
  }
}

// The gradients of the tensors differ by orders of magnitude. With the scope `local`, the codec
// selects the largest elements of each tensor; with `global`, those of the whole model.
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
    const std::vector<float> weights_before(w, w + job->table.total);
    RunRound(*job, 1, &cluster);
    uint64_t num_changed = 0, num_changed_tensors = 0;
    float smallest_sent = HUGE_VALF, largest_unsent = 0;
    for (const models::Parameter& p : job->table.parameters) {
      const uint64_t num_changed_before = num_changed;
      for (uint64_t i = p.offset; i < p.offset + p.count; ++i) {
        const float g = cluster.workers[0]->replica->gradients()[i];
        num_changed += w[i] != weights_before[i];
        (w[i] != weights_before[i] ? smallest_sent : largest_unsent) =
            w[i] != weights_before[i] ? std::min(smallest_sent, g) : std::max(largest_unsent, g);
      }
      num_changed_tensors += num_changed > num_changed_before;
    }
    if (scope == "local") {
      EXPECT_EQ(num_changed_tensors, job->table.parameters.size());
    } else {
      EXPECT_GT(smallest_sent, largest_unsent);
      EXPECT_NEAR(static_cast<double>(num_changed), 0.1 * static_cast<double>(job->table.total), 1);
    }
  }
}

class EveryCodec : public testing::TestWithParam<std::string> {};

// The size of the chunks must not change the result: a code depends on an element's position in its
// tensor, not in its chunk. This must hold for codecs that store rounding errors, too.
TEST_P(EveryCodec, KeepsReplicasEqualForEveryPlan) {
  uint64_t previous_hash = 0;
  for (const std::string chunk_kib : {"1", "4096"}) {
    const auto job = SmallJob({"exchange.codec=" + GetParam(), "exchange.chunk_kib=" + chunk_kib});
    Cluster cluster(*job);
    for (uint64_t round = 1; round <= 5; ++round) {
      SetGradients(*job, round, &cluster);
      RunRound(*job, round, &cluster);
      EXPECT_EQ(cluster.workers[0]->replica->Hash(), cluster.workers[1]->replica->Hash());
    }
    if (previous_hash != 0) {
      EXPECT_EQ(previous_hash, cluster.workers[0]->replica->Hash());
    }
    previous_hash = cluster.workers[0]->replica->Hash();
  }
}

TEST(Coder, ScalersOfRunsOfElementsDoNotDependOnThePlan) {
  for (const std::string scaler : {"shared", "per_worker", "previous"}) {
    std::vector<uint64_t> hashes;
    for (const std::string chunk_kib : {"1", "4096"}) {
      const auto job = SmallJob({"exchange.codec=ternary", "exchange.scaler_elements=100",
                                 "exchange.scaler=" + scaler, "exchange.chunk_kib=" + chunk_kib});
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

// Chunks contain whole blocks, so that their size has no effect.
TEST(Coder, RotatedCodesDoNotDependOnThePlan) {
  for (const std::string setting :
       {"exchange.scaler=shared", "exchange.scaler=per_worker", "exchange.scaler=previous",
        "exchange.scaler_elements=128", "exchange.codec=ternary_ans", "exchange.codec=qsgd",
        "exchange.codec=qsgd_shared", "exchange.rules=[{tensors: \"*.bias\", codec: topk}]"}) {
    std::vector<uint64_t> hashes;
    for (const std::string chunk_kib : {"1", "4096"}) {
      const auto job = SmallJob({"exchange.codec=ternary", setting, "exchange.rotate=64",
                                 "exchange.chunk_kib=" + chunk_kib});
      Cluster cluster(*job);
      for (uint64_t round = 1; round <= 4; ++round) {
        SetGradients(*job, round, &cluster);
        RunRound(*job, round, &cluster);
        EXPECT_EQ(cluster.workers[0]->replica->Hash(), cluster.workers[1]->replica->Hash());
      }
      hashes.push_back(cluster.workers[0]->replica->Hash());
    }
    EXPECT_EQ(hashes[0], hashes[1]) << setting;
  }
}

// With plain SGD, a weight changes by -rate * scaler * k / N, where k is the sum of the ternary
// codes {-1, 0, 1} of the N = 2 workers. From the second round on, the scaler is scaler_margin
// times the largest gradient magnitude of the previous round.
TEST(Coder, EncodesWithTheScalersOfThePreviousRound) {
  const auto job =
      SmallJob({"exchange.codec=ternary", "exchange.scaler=previous", "exchange.scaler_margin=1.5",
                "exchange.clip=none", "train.optimizer.name=sgd", "train.weight_decay.rate=0"});
  Cluster cluster(*job);
  TestWorker& worker = *cluster.workers[0];
  const auto& tensor = job->table.parameters[0];
  std::vector<float> largest_of_round = {0};  // The tensor's largest magnitude, indexed by round.
  for (uint64_t round = 1; round <= 4; ++round) {
    SetGradients(*job, round, &cluster);
    float max_magnitude = 0;
    for (auto& each : cluster.workers) {
      for (uint64_t i = 0; i < tensor.count; ++i) {
        each->replica->gradients()[i] *=
            static_cast<float>(round * round);  // Grows faster than the margin 1.5 per round.
        max_magnitude = std::max(max_magnitude, std::abs(each->replica->gradients()[i]));
      }
    }
    largest_of_round.push_back(max_magnitude);
    const std::vector<float> weights_before(worker.replica->parameters(),
                                            worker.replica->parameters() + tensor.count);
    RunRound(*job, round, &cluster);
    const float scaler = round == 1 ? largest_of_round[1] : 1.5f * largest_of_round[round - 1];
    std::map<int, int> count_of_k;
    for (uint64_t i = 0; i < tensor.count; ++i) {
      const double k = 2 * (weights_before[i] - worker.replica->parameters()[i]) / (0.1 * scaler);
      EXPECT_NEAR(k, std::round(k), 1e-4 * (1 + std::abs(weights_before[i]) / (0.1 * scaler)));
      ++count_of_k[static_cast<int>(std::lround(k))];
    }
    EXPECT_GE(count_of_k.begin()->first, -2);
    EXPECT_LE(count_of_k.rbegin()->first, 2);
    EXPECT_GT(count_of_k.size(), 2u);
    EXPECT_EQ(worker.progress.num_clamped.value() == 0, round == 1);
  }
  EXPECT_EQ(cluster.workers[0]->replica->Hash(), cluster.workers[1]->replica->Hash());
}

INSTANTIATE_TEST_SUITE_P(Of, EveryCodec, testing::ValuesIn(codec::CodecNames()),
                         [](const auto& info) { return info.param; });

// A worker may have two open rounds. Then it pushes the gradients of round 2 while round 1 still
// waits for its scalers. At that time it is not known yet which error the encoding of round 1
// leaves; round 2 must add this error to its gradients.
TEST(Coder, AddsThePreviousRoundsMemoryEvenIfItsScalersArriveLate) {
  const auto job =
      SmallJob({"exchange.codec=ternary", "exchange.rules=[{tensors: '*.weight', codec: topk}]",
                "exchange.topk.ratio=0.1"});
  const auto pushes_if_scalers_are_late = [&](bool scalers_are_late) {
    TestWorker worker(*job, 0);
    std::vector<std::string> pushes;
    std::vector<float> g[2] = {std::vector<float>(job->table.total),
                               std::vector<float>(job->table.total)};
    for (uint64_t i = 0; i < job->table.total; ++i) {
      g[0][i] = std::sin(static_cast<float>(i));
      g[1][i] = std::cos(static_cast<float>(3 * i));
    }
    const auto push_gradients = [&](uint64_t round) {
      worker.coder.Push(round, 0, g[round - 1].data());
      return worker.port.contributions.Pop()->payload;  // The scalers that the worker sends first.
    };
    const auto deliver_scalers = [&](uint64_t round, const Bytes& scalers) {
      worker.coder.ReceiveScalers(MakeAnswer({protocol::Kind::kScale, 0, 0}, round, scalers));
      pushes.emplace_back(worker.port.contributions.Pop()->payload.view());
    };
    const Bytes scalers1 = push_gradients(1);
    if (!scalers_are_late) deliver_scalers(1, scalers1);
    const Bytes scalers2 = push_gradients(2);
    if (scalers_are_late) deliver_scalers(1, scalers1);
    deliver_scalers(2, scalers2);
    return pushes;
  };
  const std::vector<std::string> pushes_in_order = pushes_if_scalers_are_late(false);
  EXPECT_EQ(pushes_if_scalers_are_late(true), pushes_in_order);
  EXPECT_NE(pushes_in_order[0], pushes_in_order[1]);
}

// All go back to an earlier round: what later gradients left in the memory is not theirs.
TEST(Coder, DropsItsMemoryWhereItsPushesAreDropped) {
  const auto job = SmallJob({"exchange.codec=bf16", "exchange.error_feedback=true"});
  TestWorker worker(*job, 0);
  std::vector<float> g(job->table.total);
  for (uint64_t i = 0; i < g.size(); ++i) g[i] = std::sin(static_cast<float>(i));
  const auto push_of_round = [&](uint64_t round) {
    worker.coder.Push(round, 0, g.data());
    return std::string(worker.port.contributions.Pop()->payload.view());
  };
  const std::string first_push = push_of_round(1);
  EXPECT_NE(push_of_round(2), first_push);
  worker.coder.DropPushesAndMemories();
  EXPECT_EQ(push_of_round(1), first_push);
}

TEST(Coder, DropsScalersThatCameBeforeTheirGradients) {
  const auto job = SmallJob({"exchange.codec=ternary"});
  TestWorker worker(*job, 0);
  const std::vector<float> g(job->table.total, 0.5f);
  const std::vector<float> scalers(job->plan.buckets[0].shared_parts.size(), 2.f);
  for (const bool are_dropped : {false, true}) {
    worker.coder.ReceiveScalers(
        MakeAnswer({protocol::Kind::kScale, 0, 0}, 1, protocol::EncodeScalers(scalers)));
    worker.coder.AwaitEncoding();
    if (are_dropped) worker.coder.DropPushesAndMemories();
    worker.coder.Push(1, 0, g.data());
    const auto kind = worker.port.contributions.Pop()->cell.kind;
    EXPECT_EQ(kind, are_dropped ? protocol::Kind::kScale : protocol::Kind::kPush);
  }
}

// With error feedback, training with bf16 codes ends closer to training with fp32, because the
// rounding error of each round is added to the next gradient.
TEST(Coder, AddsTheRoundingErrorOfBf16ToTheNextGradient) {
  const auto distance_with = [](const std::string& feedback) {
    const std::vector<std::string> plain_sgd = {"train.optimizer.name=sgd"};
    auto coded_overrides = plain_sgd;
    coded_overrides.insert(coded_overrides.end(),
                           {"exchange.codec=bf16", "exchange.error_feedback=" + feedback});
    auto exact_overrides = plain_sgd;
    exact_overrides.push_back("exchange.codec=fp32");
    const auto coded_job = SmallJob(coded_overrides), exact_job = SmallJob(exact_overrides);
    Cluster coded_cluster(*coded_job), exact_cluster(*exact_job);
    for (uint64_t round = 1; round <= 40; ++round) {
      SetGradients(*coded_job, 1, &coded_cluster);
      SetGradients(*exact_job, 1, &exact_cluster);
      RunRound(*coded_job, round, &coded_cluster);
      RunRound(*exact_job, round, &exact_cluster);
    }
    double distance = 0;
    for (uint64_t i = 0; i < coded_job->table.total; ++i) {
      distance += std::abs(coded_cluster.workers[0]->replica->parameters()[i] -
                           exact_cluster.workers[0]->replica->parameters()[i]);
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
  TestWorker worker(*job, 1);
  worker.replica->gradients()[job->table.parameters[2].offset] =
      std::numeric_limits<float>::quiet_NaN();
  for (uint32_t b = 0; b < job->plan.buckets.size(); ++b)
    worker.coder.Push(9, b, worker.replica->gradients());
  const auto event = worker.events.Pop();
  const Status status = std::get<Ended>(*event).status;
  EXPECT_EQ(status.code(), Code::kDiverged);
  for (const char* expected : {"scores.weight", "round 9", "worker 1"}) {
    EXPECT_NE(status.message().find(expected), std::string::npos) << status.message();
  }
  EXPECT_EQ(status.message().find("outer"), std::string::npos) << status.message();
}

TEST(Coder, NamesTheOuterRateOfAChangeThatIsNotFinite) {
  const auto job = SmallJob({"train.algorithm=pqasgd", "train.pqasgd.outer.learning_rate=0.7"});
  TestWorker worker(*job, 0);
  worker.replica->gradients()[0] = std::numeric_limits<float>::infinity();
  worker.coder.Push(1, 0, worker.replica->gradients());
  const auto event = worker.events.Pop();
  const std::string sentence = std::get<Ended>(*event).status.message();
  EXPECT_NE(sentence.find("lower the learning rate, or train.pqasgd.outer.learning_rate"),
            std::string::npos)
      << sentence;
}

TEST(RoundApplier, RefusesASumOfTheWrongSize) {
  const auto job = SmallJob();
  TestWorker worker(*job, 0);
  for (const protocol::Bucket& bucket : job->plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      worker.sums.Store(MakeAnswer({protocol::Kind::kPush, chunk.bucket, chunk.index}, 1,
                                   Bytes::Own(std::string(3, 'x'))));
    }
  }
  EXPECT_EQ(worker.applier.ApplyRound(1).code(), Code::kMismatch);
}

}  // namespace
}  // namespace tern::client
