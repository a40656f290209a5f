#include "tools/forecast/model.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "tools/forecast/nodes.h"

namespace tern::tools {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double BytesASecond(double mbit) { return mbit <= 0 ? kInfinity : mbit * 1e6 / 8 * kGoodput; }

class Play {
 public:
  Play(const StepCosts& costs, const Profile& profile, uint32_t workers, const Network& network)
      : costs_(costs), profile_(profile), network_(network), pace_(costs.pace) {
    for (uint32_t s = 0; s < costs.lanes.size(); ++s) {
      servers_.push_back(std::make_unique<Server>(simulation_, NewMachine(),
                                                  BytesASecond(network.server_mbit),
                                                  network.burst_bytes, costs.lanes[s]));
    }
    for (uint32_t w = 0; w < workers; ++w) {
      workers_.push_back(
          std::make_unique<Worker>(simulation_, NewMachine(), BytesASecond(network.worker_mbit)));
      Connect(workers_.back().get());
    }
  }

  Result<StepForecast> Run() {
    size_t messages = workers_.size();
    for (const BucketCost& bucket : costs_.buckets)
      messages += bucket.chunks.size() * workers_.size();
    const bool large = messages > 20000;
    const uint64_t first = (large ? 2 : 4) * Cycle(), steps = (large ? 2 : 8) * Cycle();
    for (const auto& worker : workers_) BeginStep(worker.get());
    Worker& one = *workers_[0];
    if (!simulation_.RunUntil([&] { return one.step > first + steps; }))
      return Status(Code::kInternal, "the simulated step came to a standstill");
    StepForecast forecast;
    forecast.step_s = (one.begun[first + steps] - one.begun[first]) / static_cast<double>(steps);
    forecast.compute_s = one.compute_s / static_cast<double>(one.computed);
    if (one.exchanges > 0) {
      forecast.exchange_s = one.exchange_s / static_cast<double>(one.exchanges);
      forecast.busy_s = one.busy_s / static_cast<double>(one.exchanges);
    }
    return forecast;
  }

 private:
  // Steps after which everything repeats.
  uint64_t Cycle() const { return pace_.one_bucket ? costs_.buckets.size() : pace_.period; }
  uint64_t RoundOf(uint64_t step) const { return step / pace_.period; }
  bool Exchanges(uint64_t step) const { return step % pace_.period == 0; }
  // Buckets [first, second) of a round.
  std::pair<size_t, size_t> BucketsOf(uint64_t round) const {
    const size_t all = costs_.buckets.size(), turn = (round - 1) % all;
    return pace_.one_bucket ? std::pair{turn, turn + 1} : std::pair{size_t{0}, all};
  }

  Shared& NewMachine() {
    if (network_.cores_shared == 0 || machines_.empty()) {
      const double cores = network_.cores_shared == 0 ? kInfinity : network_.cores_shared;
      machines_.push_back(std::make_unique<Shared>(simulation_, cores, 1));
    }
    return *machines_.back();
  }
  void Connect(Worker* worker) {
    for (const auto& server : servers_) {
      worker->control.push_back(std::make_unique<Connection>(worker->node, server->node));
      worker->data.emplace_back();
      for (size_t lane = 0; lane < server->lane.size(); ++lane)
        worker->data.back().push_back(std::make_unique<Connection>(worker->node, server->node));
      worker->unanswered.emplace_back(server->lane.size());
      worker->waiting.emplace_back(server->lane.size());
    }
  }

  // A message from the thread that sends to the one that receives. The two I/O threads and both
  // links work on it at the same time.
  void Transmit(Node& from, Queue& sender, OneWay& way, Node& to, Queue& receiver, double bytes,
                Then then) {
    auto left = std::make_shared<int>(4);
    const double delay =
        network_.latency_s + std::max(0.0, profile_.message_s - 2 * profile_.message_cpu_s);
    Then arrived = [this, left, delay, &receiver, then = std::move(then)] {
      if (--*left > 0) return;
      simulation_.After(delay,
                        [this, &receiver, then] { receiver.Add(profile_.message_cpu_s, then); });
    };
    sender.AddNext(profile_.message_cpu_s, [this, &from, &way, &to, bytes, arrived] {
      const double work = bytes * profile_.byte_cpu_s;
      from.io.Add(work, arrived);
      way.out.Add(bytes, arrived, 1, [this, &to, &way, bytes, work, arrived] {
        way.in.Add(bytes, arrived);
        to.io.Add(work, arrived);
        Acknowledge(*way.back, bytes * network_.acknowledged);
      });
    });
  }
  // Nobody waits for it; it takes its room.
  void Acknowledge(OneWay& back, double bytes) {
    if (bytes == 0) return;
    back.out.AddNext(bytes, nullptr);
    back.in.AddNext(bytes, nullptr);
  }
  void Control(Worker* worker, uint32_t shard, bool up, double bytes, Then then) {
    Server& server = *servers_[shard];
    Connection& c = *worker->control[shard];
    const Shared& link = up ? server.node.in : server.node.out;
    const double wait = link.busy() ? network_.queue_s : 0;
    Then later = [this, wait, then = std::move(then)] { simulation_.After(wait, then); };
    Node &a = worker->node, &b = server.node;
    if (up) {
      Transmit(a, a.net, c.up, b, b.net, bytes, std::move(later));
    } else {
      Transmit(b, b.net, c.down, a, a.net, bytes, std::move(later));
    }
  }

  void BeginStep(Worker* worker) {
    const uint64_t step = ++worker->step;
    worker->begun.push_back(simulation_.now());
    if (pace_.push == Pace::Push::kBeforeCompute && Exchanges(step)) PushAll(worker, RoundOf(step));
    worker->compute_begun = simulation_.now();
    worker->blocked_s = 0;
    Forward(worker, costs_.buckets.size(), 0);
  }
  // From `done_s` of the compute on; the next bucket of the open round to be needed is left - 1.
  void Forward(Worker* worker, size_t left, double done_s) {
    if (worker->open == 0) return Compute(worker, 0, done_s);
    if (left == 0) {
      Forget(worker, std::exchange(worker->open, 0));
      return Compute(worker, 0, done_s);
    }
    worker->forward_s = std::max(done_s, costs_.buckets[left - 1].need_s);
    RunCompute(worker, done_s, worker->forward_s, [this, worker, left] {
      worker->needed = left - 1;
      worker->blocked_since = simulation_.now();
      GoOnInForward(worker);
    });
  }
  void GoOnInForward(Worker* worker) {
    if (!worker->needed.has_value()) return;
    const size_t needed = *worker->needed;
    if (!Take(worker, worker->open, needed)) {
      for (size_t b = 0; b < costs_.buckets.size(); ++b) Take(worker, worker->open, b);
      return;
    }
    worker->needed.reset();
    worker->compute.Add(0, [this, worker, needed] {
      worker->blocked_s += simulation_.now() - worker->blocked_since;
      Forward(worker, needed, worker->forward_s);
    });
  }
  void RunCompute(Worker* worker, double from, double until, Then then) {
    if (costs_.threads > 0)
      return worker->compute.Add(until - from, std::move(then), costs_.threads);
    // A wait ends at its time, whatever else the thread did meanwhile.
    const double at = worker->compute_begun + worker->blocked_s + until;
    simulation_.At(std::max(at, simulation_.now()), std::move(then));
  }
  // From `done_s` of the compute on; the next bucket to be ready is number `place` in plan order.
  void Compute(Worker* worker, size_t place, double done_s) {
    const bool leaves = pace_.push == Pace::Push::kInBackward;
    const bool last = !leaves || place == costs_.buckets.size();
    const double until = last ? costs_.compute_s : std::max(done_s, costs_.buckets[place].ready_s);
    RunCompute(worker, done_s, until, [this, worker, place, until, last] {
      if (last) return AfterCompute(worker);
      Ready(worker, RoundOf(worker->step), place);
      worker->compute.Add(costs_.buckets[place].copy_s,
                          [this, worker, place, until] { Compute(worker, place + 1, until); });
    });
  }
  void AfterCompute(Worker* worker) {
    worker->compute_s += simulation_.now() - worker->compute_begun - worker->blocked_s;
    ++worker->computed;
    worker->compute.Add(pace_.lag == 0 ? pace_.local_s : 0, [this, worker] {
      const uint64_t step = worker->step;
      if (!Exchanges(step)) return BeginStep(worker);
      if (pace_.push == Pace::Push::kAfterCompute) PushAll(worker, RoundOf(step));
      if (pace_.in_forward) {
        worker->open = RoundOf(step);
        return BeginStep(worker);
      }
      worker->waits = true;
      GoOn(worker);
    });
  }
  // With the answers that are there.
  void GoOn(Worker* worker) {
    if (!worker->waits) return;
    const uint64_t of_step = RoundOf(worker->step);
    const uint64_t round = of_step - std::min(of_step, pace_.lag);
    double rest = pace_.lag == 0 ? 0 : pace_.local_s;
    if (round > 0 && !TakeAnswers(worker, round, &rest)) return;
    worker->waits = false;
    Forget(worker, round);
    worker->compute.Add(rest, [this, worker] { BeginStep(worker); });
  }
  // Whether all of a round are there. What is to be applied then is added to `rest`.
  bool TakeAnswers(Worker* worker, uint64_t round, double* rest) {
    bool all = true;
    const auto [first, end] = BucketsOf(round);
    for (size_t b = first; b < end; ++b) {
      if (pace_.by_bucket) {
        all &= Take(worker, round, b);
      } else {
        all &= IsHere(worker, round, b);
        *rest += costs_.buckets[b].apply_s;
      }
    }
    return all;
  }
  bool IsHere(Worker* worker, uint64_t round, size_t b) {
    std::vector<size_t>& came = worker->answers[round];
    came.resize(costs_.buckets.size());
    return came[b] == costs_.buckets[b].chunks.size();
  }
  // Applies a bucket if it is here, once. Whether it is applied now.
  bool Take(Worker* worker, uint64_t round, size_t b) {
    worker->taken.resize(costs_.buckets.size());
    if (worker->taken[b]) return true;
    if (!IsHere(worker, round, b)) return false;
    worker->compute.Add(costs_.buckets[b].apply_s, nullptr);
    worker->taken[b] = true;
    return true;
  }
  void Forget(Worker* worker, uint64_t round) {
    worker->answers.erase(round);
    worker->taken.clear();
  }

  void PushAll(Worker* worker, uint64_t round) {
    const auto [first, end] = BucketsOf(round);
    for (size_t b = first; b < end; ++b) Ready(worker, round, b);
  }
  void Ready(Worker* worker, uint64_t round, size_t b) {
    simulation_.After(profile_.hop_s, [this, worker, round, b] {
      worker->coder.Add(costs_.buckets[b].prepare_s, [this, worker, round, b] {
        const BucketCost& bucket = costs_.buckets[b];
        if (bucket.scale_bytes == 0) return Encode(worker, round, b);
        simulation_.After(profile_.hop_s, [this, worker, round, b, &bucket] {
          Control(worker, bucket.home, true, bucket.scale_bytes,
                  [this, round, b] { OnScale(round, b); });
        });
      });
    });
  }
  void OnScale(uint64_t round, size_t b) {
    if (++scales_[{round, b}] != pace_.enough) return;
    for (const auto& worker : workers_) {
      Control(worker.get(), costs_.buckets[b].home, false, costs_.buckets[b].scaled_bytes,
              [this, to = worker.get(), round, b] {
                simulation_.After(profile_.hop_s, [this, to, round, b] { Encode(to, round, b); });
              });
    }
  }
  void Encode(Worker* worker, uint64_t round, size_t b) {
    for (size_t c = 0; c < costs_.buckets[b].chunks.size(); ++c) {
      // Before the statistics of other buckets.
      worker->coder.AddNext(costs_.buckets[b].chunks[c].encode_s, [this, worker, round, b, c] {
        simulation_.After(profile_.hop_s,
                          [this, worker, round, b, c] { Push(worker, round, b, c); });
      });
    }
  }

  void Push(Worker* worker, uint64_t round, size_t b, size_t c) {
    if (worker->first_push.empty()) worker->busy_since = simulation_.now();
    worker->first_push.try_emplace(round, simulation_.now());
    const ChunkCost& chunk = costs_.buckets[b].chunks[c];
    Then send = [this, worker, &chunk, round, b, c] {
      Server& server = *servers_[chunk.shard];
      Transmit(worker->node, worker->node.net, worker->data[chunk.shard][chunk.lane]->up,
               server.node, server.lane[chunk.lane], chunk.push_bytes,
               [this, worker, round, b, c] { OnPush(worker, round, b, c); });
    };
    worker->waiting[chunk.shard][chunk.lane].emplace(Priority{round, b, c},
                                                     Waiting{chunk.push_bytes, std::move(send)});
    SendWhatCreditAllows(worker, chunk);
  }
  void SendWhatCreditAllows(Worker* worker, const ChunkCost& chunk) {
    double& unanswered = worker->unanswered[chunk.shard][chunk.lane];
    auto& waiting = worker->waiting[chunk.shard][chunk.lane];
    while (!waiting.empty() &&
           (unanswered == 0 || unanswered + waiting.begin()->second.bytes <= costs_.credit_bytes)) {
      const Waiting next = std::move(waiting.extract(waiting.begin()).mapped());
      unanswered += next.bytes;
      next.send();
    }
  }
  void OnPush(Worker* worker, uint64_t round, size_t b, size_t c) {
    const ChunkCost& chunk = costs_.buckets[b].chunks[c];
    Queue& lane = servers_[chunk.shard]->lane[chunk.lane];
    lane.AddNext(chunk.add_s, [this, worker, round, b, c, &chunk, &lane] {
      if (!pace_.rounds) {
        lane.AddNext(chunk.close_s, [this, worker, round, b, c] { Answer(worker, round, b, c); });
      } else if (++pushes_[{round, b, c}] == pace_.enough) {
        lane.AddNext(chunk.close_s, [this, round, b, c] {
          for (const auto& to : workers_) Answer(to.get(), round, b, c);
        });
      }
    });
  }
  void Answer(Worker* worker, uint64_t round, size_t b, size_t c) {
    const ChunkCost& chunk = costs_.buckets[b].chunks[c];
    Server& server = *servers_[chunk.shard];
    Transmit(server.node, server.lane[chunk.lane], worker->data[chunk.shard][chunk.lane]->down,
             worker->node, worker->node.net, chunk.sum_bytes,
             [this, worker, round, b, &chunk] { OnAnswer(worker, round, b, chunk); });
  }
  void OnAnswer(Worker* worker, uint64_t round, size_t b, const ChunkCost& chunk) {
    double& unanswered = worker->unanswered[chunk.shard][chunk.lane];
    unanswered -= chunk.push_bytes;
    if (unanswered < 1) unanswered = 0;
    SendWhatCreditAllows(worker, chunk);
    CountAnswer(worker, round);
    simulation_.After(profile_.hop_s, [this, worker, round, b] {
      std::vector<size_t>& came = worker->answers[round];
      came.resize(costs_.buckets.size());
      ++came[b];
      GoOn(worker);
      GoOnInForward(worker);
    });
  }
  // How long exchanges take, as client/exchange/exchange_counters.h counts.
  void CountAnswer(Worker* worker, uint64_t round) {
    size_t chunks = 0;
    const auto [first, end] = BucketsOf(round);
    for (size_t b = first; b < end; ++b) chunks += costs_.buckets[b].chunks.size();
    if (++answered_[{round, worker}] < chunks) return;
    answered_.erase({round, worker});
    const auto pushed = worker->first_push.find(round);
    if (pushed == worker->first_push.end()) return;  // the others had enough without it
    worker->exchange_s += simulation_.now() - pushed->second;
    ++worker->exchanges;
    worker->first_push.erase(pushed);
    if (worker->first_push.empty()) worker->busy_s += simulation_.now() - worker->busy_since;
  }

  const StepCosts& costs_;
  const Profile& profile_;
  const Network& network_;
  const Pace& pace_;
  Simulation simulation_;
  std::vector<std::unique_ptr<Shared>> machines_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<std::pair<uint64_t, size_t>, uint32_t> scales_;           // by round, bucket
  std::map<std::tuple<uint64_t, size_t, size_t>, uint32_t> pushes_;  // by round, bucket, chunk
  std::map<std::pair<uint64_t, const Worker*>, size_t> answered_;
};

}  // namespace

Result<StepForecast> PlayStep(const StepCosts& costs, const Profile& profile, uint32_t workers,
                              const Network& network) {
  return Play(costs, profile, workers, network).Run();
}

}  // namespace tern::tools
