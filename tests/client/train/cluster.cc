#include "tests/client/train/cluster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <thread>

#include "client/exchange/coder.h"
#include "client/exchange/host_coder.h"
#include "client/train/replica.h"
#include "client/train/trainer.h"
#include "common/algorithm/algorithms.h"
#include "common/algorithm/facts.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/exchange.h"
#include "common/tensors/safetensors.h"
#include "models/graph/arena.h"
#include "server/central_lane.h"
#include "tests/sim/rng.h"

namespace tern::client {

namespace {

// Returns a pseudorandom number in [0, 1) that is a function of `key`.
double Uniform(uint64_t key) { return static_cast<double>(sim::Mix(key) >> 11) * 0x1p-53; }

// Computes AnalyticGradient instead of a network's gradient, and records the weights that it used.
class AnalyticCompute : public Compute {
 public:
  AnalyticCompute(const setup::Setup& job, uint32_t rank, Replica& replica, Trace* trace)
      : job_(job), rank_(rank), replica_(replica), trace_(trace) {}

  uint64_t steps_per_epoch() const override { return 16; }
  void Begin(uint64_t steps_done) override { step_ = steps_done; }
  void End() override {}
  Result<uint32_t> FetchSamples() override {
    ++step_;
    return job_.job.train().batch_total() / job_.plan.workers;
  }
  double Forward(const BeforeTensorRead& need) override {
    for (uint32_t t = 0; need && t < job_.table.parameters.size(); ++t) {
      if (!need(t)) return 1;
    }
    const float* weights = replica_.point();
    trace_->points.emplace_back(weights, weights + job_.table.total);
    return 1;
  }
  void Backward(const OnGradientReady& ready) override {
    AnalyticGradient(rank_, step_, replica_.point(), job_.table.total, replica_.gradients());
    for (auto t = static_cast<uint32_t>(job_.table.parameters.size()); t-- > 0;) ready(t);
  }

  Result<Score> Evaluate(uint32_t, uint32_t, Confusion*) override { return Score{.samples = 1}; }

 private:
  const setup::Setup& job_;
  const uint32_t rank_;
  Replica& replica_;
  Trace* trace_;
  uint64_t step_ = 0;
};

// A worker of the cluster.
struct Member {
  Registry registry;
  Progress progress{registry};
  Events events;  // The answers and other events that the worker's Trainer reads.
  std::unique_ptr<Replica> replica;
  std::unique_ptr<Coder> coder;
  std::unique_ptr<Port> port;
  Trace trace;
};

// The servers, and the protocol between each worker and them, without sockets. A lane is the
// protocol object that a shard runs for one of its sockets; here one real lane holds the whole
// model. In algorithms with rounds, messages arrive in the order in which they are sent. In those
// without rounds, the lane receives one worker's pushes of the whole model at a time, while no
// worker computes. Which worker comes next is a random choice that is a function of a seed.
class Servers {
 public:
  Servers(const setup::Setup& job, const ClusterOptions& options,
          std::vector<std::unique_ptr<Member>>* members, std::vector<uint32_t>* push_order)
      : job_(job), members_(*members), push_order_(*push_order), random_(options.seed) {
    auto schedule = update::Schedule::Make(job.job.train(), options.steps);
    EXPECT_TRUE(schedule.ok());
    schedule_.emplace(std::move(*schedule));
    for (const protocol::Bucket& bucket : job.plan.buckets) num_chunks_ += bucket.chunks.size();
    has_rounds_ = algorithm::TraitsOf(job.job.train())->closes() == pb::AlgorithmTraits::all_come;
    InitLane();
    pb::Members membership;
    membership.set_epoch(1);
    membership.set_steps(options.steps);
    // Worker `rank` has the incarnation (the number of its process) 10 + rank, and its connection
    // is the lane's peer 100 + rank.
    for (uint32_t rank = 0; rank < members_.size(); ++rank) {
      membership.add_incarnations(10 + rank);
      exchanges_.emplace_back(protocol::Exchange::Options{rank, 10 + rank, 1 << 30, {}});
    }
    protocol::Sends sends;
    lane().OnMembers(membership, &sends);
    for (uint32_t rank = 0; rank < members_.size(); ++rank) {
      pb::Hello hello;
      hello.set_rank(rank);
      hello.set_incarnation(10 + rank);
      lane().OnHello(100 + rank, hello, &sends);
      std::vector<protocol::Exchange::Outgoing> no_sends;
      exchanges_[rank].OnLaneUp(kLane, 7, {}, &no_sends);
    }
    worker_states_.resize(members_.size());
  }

  void Contribute(uint32_t rank, protocol::Cell cell, protocol::Contribution contribution) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cell.kind == protocol::Kind::kFigures) {
      return GatherFigures(rank, cell, protocol::ExchangeOf(contribution),
                           protocol::PayloadOf(contribution));
    }
    const bool is_without_rounds = std::holds_alternative<protocol::AtClock>(contribution);
    std::vector<protocol::Exchange::Outgoing> out;
    exchanges_[rank].Contribute(cell, kLane, std::move(contribution), {}, &out);
    for (auto& outgoing : out) {
      if (!is_without_rounds) {
        ProcessPush(rank, outgoing.message);
        continue;
      }
      worker_states_[rank].pending_pushes.push_back(std::move(outgoing.message));
      if (worker_states_[rank].pending_pushes.size() == num_chunks_) ProcessNextWorker();
    }
  }
  void ReportApplied(uint32_t rank, uint64_t round) {
    const std::lock_guard<std::mutex> lock(mutex_);
    exchanges_[rank].SetApplied(round);
  }

 private:
  static constexpr protocol::LaneRef kLane{0, 1};  // shard 0, lane 1
  // The state of one worker's exchange, in algorithms without rounds.
  struct WorkerState {
    std::vector<protocol::Message> pending_pushes;  // Pushes that the lane has not received yet.
    size_t num_unanswered = 0;                      // How many chunks still wait for an answer.
    bool has_finished = false;                      // Whether the worker has made its last step.
  };

  void InitLane() {
    protocol::RoundLane::Options options;
    options.workers = static_cast<uint32_t>(members_.size());
    options.window = algorithm::FactsOf(job_.job).window;
    options.incarnation = 7;
    options.answers_hellos = false;
    options.learning_rate = [this](uint64_t round) { return schedule_->Rate(round - 1); };
    if (job_.plan.is_central) {
      checkpoints_ = std::make_unique<server::LaneCheckpoints>(job_, 0, 1);
      auto central_lane = server::CentralLane::Make(
          job_, 0, 1, options, server::InitialWeights(job_),
          [this](uint64_t step) { return schedule_->Rate(step); }, *checkpoints_);
      EXPECT_TRUE(central_lane.ok()) << central_lane.status().message();
      central_lane_ = std::move(*central_lane);
      return;
    }
    std::vector<protocol::CellSpec> cells = protocol::MakeCellsOfLane(job_.plan, 0, 0);
    for (auto& spec : protocol::MakeCellsOfLane(job_.plan, 0, 1)) cells.push_back(std::move(spec));
    round_lane_ = std::make_unique<protocol::RoundLane>(options, std::move(cells));
  }
  protocol::Lane& lane() { return central_lane_ ? central_lane_->lane() : *round_lane_; }

  void ProcessPush(uint32_t rank, const protocol::Message& message) {
    protocol::Sends sends;
    lane().OnMessage(100 + rank, message, &sends);
    for (const protocol::Send& send : sends)
      DeliverAnswer(static_cast<uint32_t>(send.to - 100), send);
  }

  void DeliverAnswer(uint32_t rank, const protocol::Send& send) {
    protocol::Kind kind;
    const pb::Outcome* outcome = protocol::AsOutcome(send.message.head, &kind);
    ASSERT_NE(outcome, nullptr) << send.message.head.ShortDebugString();
    std::vector<protocol::Exchange::Outgoing> sends;
    for (auto& answer :
         exchanges_[rank].OnOutcome(kLane, kind, *outcome, send.message.payload, {}, &sends)) {
      if (!outcome->has_pulled() && worker_states_[rank].num_unanswered > 0)
        --worker_states_[rank].num_unanswered;
      if (kind == protocol::Kind::kScale) members_[rank]->coder->ReceiveScalers(answer);
      members_[rank]->events.Push(std::move(answer));
    }
  }

  // As long as no worker is computing, picks a random worker and delivers its pushes of all chunks.
  void ProcessNextWorker() {
    for (;;) {
      std::vector<uint32_t> ready_ranks;
      for (uint32_t rank = 0; rank < worker_states_.size(); ++rank) {
        const WorkerState& worker = worker_states_[rank];
        if (worker.pending_pushes.size() == num_chunks_) {
          ready_ranks.push_back(rank);
        } else if (!worker.has_finished && worker.num_unanswered == 0) {
          return;  // This worker is computing.
        }
      }
      if (ready_ranks.empty()) return;
      const uint32_t rank = ready_ranks[random_.Below(ready_ranks.size())];
      push_order_.push_back(rank);
      worker_states_[rank].num_unanswered = num_chunks_;
      for (const protocol::Message& message :
           std::exchange(worker_states_[rank].pending_pushes, {}))
        ProcessPush(rank, message);
    }
  }

  // Collects the workers' figures (losses, test scores); when all have come, sends them to each
  // worker.
  void GatherFigures(uint32_t rank, const protocol::Cell& cell, uint64_t round,
                     const Bytes& payload) {
    std::vector<std::optional<std::string>>& figures_by_rank = figures_[{cell, round}];
    figures_by_rank.resize(members_.size());
    figures_by_rank[rank] = std::string(payload.view());
    if (!has_rounds_) worker_states_[rank].has_finished = true;
    if (std::any_of(figures_by_rank.begin(), figures_by_rank.end(),
                    [](const auto& each) { return !each.has_value(); }))
      return has_rounds_ ? void() : ProcessNextWorker();
    pb::FiguresOfAll figures_of_all;
    for (const auto& each : figures_by_rank) figures_of_all.add_by_rank(*each);
    Answer answer;
    answer.cell = cell;
    answer.outcome.mutable_of_round()->set_round(round);
    answer.payload = Bytes::Own(figures_of_all.SerializeAsString());
    for (auto& member : members_) member->events.Push(answer);
  }

  const setup::Setup& job_;
  std::vector<std::unique_ptr<Member>>& members_;
  std::vector<uint32_t>& push_order_;
  sim::Rng random_;
  std::optional<update::Schedule> schedule_;
  size_t num_chunks_ = 0;
  bool has_rounds_ = true;
  std::mutex mutex_;
  // CentralLane requires checkpoints. No files are written, because nobody calls Begin.
  std::unique_ptr<server::LaneCheckpoints> checkpoints_;
  std::unique_ptr<server::CentralLane> central_lane_;
  std::unique_ptr<protocol::RoundLane> round_lane_;
  std::vector<protocol::Exchange> exchanges_;
  std::vector<WorkerState> worker_states_;
  // By cell and round: the figures of each rank, once they have arrived.
  std::map<std::pair<protocol::Cell, uint64_t>, std::vector<std::optional<std::string>>> figures_;
};

// Connects one worker's training threads to Servers, and records the worker's trace.
class ClusterPort : public Port {
 public:
  ClusterPort(uint32_t rank, const setup::Setup& job, bool asks_for_states, Member& member,
              Servers& servers)
      : rank_(rank),
        job_(job),
        asks_for_states_(asks_for_states),
        member_(member),
        servers_(servers) {}

  void Contribute(protocol::Cell cell, protocol::Contribution contribution) override {
    if (cell.kind == protocol::Kind::kFigures && cell.chunk == protocol::kCompare) {
      pb::Figures figures;
      EXPECT_TRUE(figures.ParseFromString(std::string(protocol::PayloadOf(contribution).view())));
      member_.trace.num_loss_samples = figures.train_samples();
    }
    if (protocol::IsPull(contribution)) ++member_.trace.num_pulls;
    if (asks_for_states_ && cell.kind == protocol::Kind::kPush)
      member_.events.Push(SnapshotWanted{});
    servers_.Contribute(rank_, cell, std::move(contribution));
  }
  void ReportApplied(uint64_t round) override {
    member_.trace.weights_after_round[round] = Weights();
    servers_.ReportApplied(rank_, round);
  }
  void SendSnapshot(Bytes state, uint64_t applied) override {
    const auto file = tensors::DecodeSafetensors(state.view());
    ASSERT_TRUE(file.ok()) << file.status().message();
    std::vector<float>& weights = member_.trace.given_weights[applied];
    weights.resize(job_.table.total);
    EXPECT_TRUE(models::LoadArena(*file, job_.table, weights.data()).ok());
  }
  void OfferCheckpoints(std::vector<pb::Checkpoint>) override {}
  void ReportInstalled(uint64_t) override {}
  void Finish(Status status, pb::Figures, uint64_t) override {
    member_.trace.final_weights = Weights();
    member_.trace.average_weights = member_.replica->average();
    if (status.ok()) member_.events.Push(Ended{Ok()});
  }

 private:
  std::vector<float> Weights() const {
    const float* w = member_.replica->parameters();
    return {w, w + job_.table.total};
  }
  const uint32_t rank_;
  const setup::Setup& job_;
  const bool asks_for_states_;
  Member& member_;
  Servers& servers_;
};

void RunMember(const setup::Setup& job, uint32_t rank, uint64_t steps, Member* member) {
  AnalyticCompute compute(job, rank, *member->replica, &member->trace);
  auto trainer = Trainer::Make({job, rank, steps, compute, *member->replica, *member->coder,
                                *member->port, member->events, member->progress});
  ASSERT_TRUE(trainer.ok()) << trainer.status().message();
  member->events.Push(ReadyToTrain{0, 0});
  member->trace.status = (*trainer)->Run();
}

}  // namespace

template <typename Float>
void AnalyticGradient(uint32_t rank, uint64_t step, const Float* w, size_t n, Float* g) {
  for (size_t k = 0; k < n; ++k) {
    const auto curvature = static_cast<Float>(0.5 + Uniform(k));
    const auto optimum = static_cast<Float>(Uniform(k * 1000003 + rank * 10007 + step) - 0.5);
    g[k] = curvature * (w[k] - optimum);
  }
}
template void AnalyticGradient(uint32_t, uint64_t, const float*, size_t, float*);
template void AnalyticGradient(uint32_t, uint64_t, const double*, size_t, double*);

std::vector<double> GradientAt(uint32_t rank, uint64_t step, const std::vector<double>& w) {
  std::vector<double> g(w.size());
  AnalyticGradient(rank, step, w.data(), w.size(), g.data());
  return g;
}

std::vector<double> InitialWeights(const setup::Setup& job) {
  const auto replica = std::move(*Replica::Make(job));
  return {replica->parameters(), replica->parameters() + job.table.total};
}

std::vector<Trace> RunCluster(const setup::Setup& job, const ClusterOptions& options,
                              std::vector<uint32_t>* push_order) {
  std::vector<uint32_t> ignored_order;
  std::vector<std::unique_ptr<Member>> members;
  for (uint32_t rank = 0; rank < job.plan.workers; ++rank)
    members.push_back(std::make_unique<Member>());
  Servers servers(job, options, &members, push_order == nullptr ? &ignored_order : push_order);
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    Member& member = *members[rank];
    member.replica = std::move(*Replica::Make(job));
    member.port =
        std::make_unique<ClusterPort>(rank, job, options.asks_for_states, member, servers);
    member.coder = std::make_unique<Coder>(job, std::make_unique<HostCoder>(job, rank),
                                           *member.port, member.events, member.progress);
  }
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    threads.emplace_back([&, rank] { RunMember(job, rank, options.steps, members[rank].get()); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Trace> traces;
  for (auto& member : members) {
    EXPECT_TRUE(member->trace.status.ok()) << member->trace.status.message();
    member->coder.reset();
    traces.push_back(std::move(member->trace));
  }
  return traces;
}

double RelativeDistance(std::span<const float> a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 1e9;
  double squared_distance = 0, squared_norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    squared_distance += (a[i] - b[i]) * (a[i] - b[i]);
    squared_norm += b[i] * b[i];
  }
  return std::sqrt(squared_distance / squared_norm);
}

}  // namespace tern::client
