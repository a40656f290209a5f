#include "tools/forecast/events.h"

#include <algorithm>
#include <utility>

namespace tern::tools {

bool Simulation::RunUntil(const std::function<bool()>& done) {
  while (!done()) {
    if (events_.empty()) return false;
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    event.then();
  }
  return true;
}

Shared::Shared(Simulation& simulation, double capacity, double most_each, double burst)
    : simulation_(simulation),
      capacity_(capacity),
      most_each_(most_each),
      burst_(burst),
      tokens_(burst) {}

double Shared::Rate() const { return std::min(most_each_, capacity_ / std::max(weight_, 1.0)); }

void Shared::Advance() {
  const double passed = simulation_.now() - at_;
  at_ = simulation_.now();
  if (busy()) {
    if (Rate() != std::numeric_limits<double>::infinity()) done_each_ += passed * Rate();
  } else if (burst_ > 0) {
    tokens_ = std::min(burst_, tokens_ + passed * capacity_);
  }
}

void Shared::Begin(double amount, double weight, Then then) {
  Advance();
  const double at_once = busy() ? 0 : std::min(tokens_, amount);
  tokens_ -= at_once;
  amount -= at_once;
  // An end that is no later than now is an event all the same: whoever asks goes on first.
  jobs_.push({done_each_ + amount, order_++, weight, std::move(then)});
  weight_ += weight;
  Plan();
}

void Shared::Plan() {
  const uint64_t plan = ++plan_;
  if (jobs_.empty()) return;
  const double rate = Rate();
  const double left = std::max(0.0, jobs_.top().end - done_each_);
  const double wait =
      left == 0 || rate == std::numeric_limits<double>::infinity() ? 0 : left / rate;
  simulation_.After(wait, [this, plan] {
    if (plan == plan_) EndThose();
  });
}

void Shared::EndThose() {
  Advance();
  // Rounding may leave a trace of the job that this event was planned for.
  done_each_ = std::max(done_each_, jobs_.top().end);
  std::vector<Then> ended;
  while (!jobs_.empty() && jobs_.top().end <= done_each_) {
    weight_ = jobs_.size() == 1 ? 0 : weight_ - jobs_.top().weight;
    ended.push_back(jobs_.top().then);
    jobs_.pop();
  }
  Plan();
  for (const Then& then : ended) then();
}

void Queue::Add(double amount, Then then, double weight, Then begun) {
  waiting_.push_back({amount, weight, std::move(then), std::move(begun)});
  if (!at_work_) Next();
}

void Queue::AddNext(double amount, Then then) {
  next_.push_back({amount, 1, std::move(then), nullptr});
  if (!at_work_) Next();
}

void Queue::Next() {
  std::deque<Piece>& from = next_.empty() ? waiting_ : next_;
  if (from.empty()) return;
  at_work_ = true;
  Piece piece = std::move(from.front());
  from.pop_front();
  if (piece.begun) piece.begun();
  shared_->Begin(piece.amount, piece.weight, [this, then = std::move(piece.then)] {
    at_work_ = false;
    if (then) then();  // may say what is next
    if (!at_work_) Next();
  });
}

}  // namespace tern::tools
