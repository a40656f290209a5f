#include "common/protocol/rounds/host_leader.h"

#include <algorithm>

#include "common/base/invariants.h"
#include "common/protocol/rounds/forms.h"
#include "common/protocol/rounds/lane.h"

namespace tern::protocol {

namespace {

constexpr const char* kSumStates[] = {"gathering", "sent", "answered"};

const char* NameOf(HostLeader::State state) { return kSumStates[static_cast<size_t>(state)]; }

bool HasArrow(HostLeader::State from, HostLeader::State to) {
  using State = HostLeader::State;
  switch (from) {
    case State::kGathering:
      return to == State::kSent;
    case State::kSent:
      return to != State::kSent;
    case State::kAnswered:
      return to == State::kGathering;
  }
  return false;
}

// The message of a sum of these pushes, without sender and payload.
Message MakeSumOf(const std::map<uint32_t, Message>& pushes) {
  Message sum;
  pb::Contribution* c = sum.head.mutable_push();
  *c = pushes.begin()->second.head.push();
  for (const auto& [rank, push] : pushes) {
    const pb::Contribution& one = push.head.push();
    c->set_epoch(std::max(c->epoch(), one.epoch()));
    pb::Contribution::InRound* in_round = c->mutable_in_round();
    in_round->set_applied(std::min(in_round->applied(), one.in_round().applied()));
    if (one.in_round().checkpoint()) in_round->set_checkpoint(true);
    pb::Contribution::Contributor* contributor = in_round->add_of();
    contributor->set_rank(rank);
    contributor->set_incarnation(one.incarnation());
  }
  return sum;
}

}  // namespace

void HostLeader::Become(Sum* sum, State next) {
  const bool is_allowed = HasArrow(sum->state, next);
  TERN_REQUIRES(is_allowed, "a host's sum that is ", NameOf(sum->state), " cannot become ",
                NameOf(next));
  if (is_allowed) sum->state = next;
}

std::optional<HostLeader::Key> HostLeader::KeyOf(const Message& push) const {
  const pb::Contribution& c = push.head.push();
  const bool is_push = c.has_in_round() && c.in_round().of_size() == 0;
  if (c.rank() >= options_.workers || (!is_push && !c.has_skip())) return std::nullopt;
  const Key key{ExchangeOf(c), {Kind::kPush, c.bucket(), c.chunk()}};
  const bool is_in_time = key.first > applied_ && key.first <= applied_ + kMaxRoundsAhead;
  if (!is_in_time || !options_.has_cell(key.second)) return std::nullopt;
  return key;
}

void HostLeader::OnPush(const Message& push, Time now, Actions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  TERN_REQUIRES(push.head.has_push(), "host leader: is given another message than a push");
  const pb::Contribution& c = push.head.push();
  const std::optional<Key> key = KeyOf(push);
  // A push of a round that the leader has applied comes too late for any sum.
  if (!key.has_value()) return c.has_in_round() ? Release({c.rank()}, out) : void();
  AdoptIncarnation(c.rank(), c.incarnation());
  if (!workers_.contains(options_.rank))
    return c.has_in_round() ? Release({c.rank()}, out) : void();
  Sum& sum = sums_[*key];
  if (c.has_skip()) {
    sum.gone.insert(c.rank());
    Forget(c.rank(), &sum);
  } else if (sum.gone.contains(c.rank())) {
    return Release({c.rank()}, out);
  } else {
    if (sum.state != State::kGathering) {
      Become(&sum, State::kGathering);
      sum.since = now;
    }
    sum.waiting[c.rank()] = push;
    Worker& worker = workers_[c.rank()];
    if (!worker.expected_from.has_value()) worker.expected_from = key->first + 1;
    due_ = std::min(due_.value_or(Time::max()), sum.since + options_.patience);
  }
  if (sum.state == State::kGathering && !AwaitsOthers(*key, sum)) SendWaiting(*key, &sum, out);
}

void HostLeader::AdoptIncarnation(uint32_t rank, uint64_t incarnation) {
  Worker& worker = workers_[rank];
  if (worker.incarnation == incarnation) return;
  worker = {incarnation, std::nullopt};
  for (auto& [key, sum] : sums_) {
    sum.gone.erase(rank);
    Forget(rank, &sum);
  }
}

void HostLeader::Forget(uint32_t rank, Sum* sum) {
  sum->waiting.erase(rank);
  sum->unanswered.erase(rank);
  if (sum->state == State::kGathering && sum->waiting.empty()) Become(sum, State::kSent);
}

bool HostLeader::AwaitsOthers(const Key& key, const Sum& sum) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& item) {
    const auto& [rank, worker] = item;
    return worker.expected_from.has_value() && *worker.expected_from <= key.first &&
           !sum.waiting.contains(rank) && !sum.gone.contains(rank);
  });
}

void HostLeader::SendWaiting(const Key& key, Sum* sum, Actions* out) {
  std::map<uint64_t, std::map<uint32_t, Message>> by_digest;
  for (auto& [rank, push] : sum->waiting) {
    sum->gone.insert(rank);
    if (rank != options_.rank) sum->unanswered.insert(rank);
    by_digest[push.head.push().in_round().digest()][rank] = std::move(push);
  }
  sum->waiting.clear();
  Become(sum, State::kSent);
  for (auto& [digest, pushes] : by_digest) SendTogether(key, std::move(pushes), out);
}

void HostLeader::SendTogether(const Key& key, std::map<uint32_t, Message> pushes, Actions* out) {
  Bytes payload;
  while (const std::optional<uint32_t> invalid = AddUp(key, pushes, &payload)) {
    // The server refuses the push, and names its sender.
    Release({*invalid}, out);
    pushes.erase(*invalid);
  }
  if (pushes.empty()) return;
  Action action{Action::Type::kSend, options_.rank, {}};
  if (pushes.size() == 1 && pushes.begin()->first == options_.rank) {
    action.message = std::move(pushes.begin()->second);
  } else {
    action.message = MakeSumOf(pushes);
    action.message.head.mutable_push()->set_rank(options_.rank);
    action.message.head.mutable_push()->set_incarnation(workers_[options_.rank].incarnation);
    action.message.payload = std::move(payload);
  }
  ++(pushes.size() == 1 ? counters_.alone : counters_.sums);
  if (pushes.size() > 1) counters_.summed += pushes.size();
  out->push_back(std::move(action));
}

std::optional<uint32_t> HostLeader::AddUp(const Key& key, const std::map<uint32_t, Message>& pushes,
                                          Bytes* payload) const {
  if (pushes.size() == 1) *payload = pushes.begin()->second.payload;
  if (pushes.size() <= 1) return std::nullopt;
  const std::unique_ptr<CellSum> sum = options_.open(key.second, key.first);
  for (const auto& [rank, push] : pushes) {
    if (!sum->Add(rank, push.payload).ok()) return rank;
  }
  *payload = sum->ClosePartial();
  return std::nullopt;
}

void HostLeader::Release(const std::set<uint32_t>& ranks, Actions* out) {
  for (const uint32_t rank : ranks) {
    out->push_back({Action::Type::kRelease, rank, {}});
    ++counters_.released;
  }
}

void HostLeader::OnAnswer(const Message& answer, Actions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  const pb::Outcome& outcome = answer.head.sum();
  const auto found =
      sums_.find({ExchangeOf(outcome), {Kind::kPush, outcome.bucket(), outcome.chunk()}});
  if (found == sums_.end()) return;
  Sum& sum = found->second;
  for (const uint32_t rank : sum.unanswered) out->push_back({Action::Type::kForward, rank, answer});
  sum.unanswered.clear();
  if (sum.state == State::kSent) Become(&sum, State::kAnswered);
}

void HostLeader::OnLaneLost(const std::function<bool(const Cell&)>& is_of_lane, Actions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  std::set<uint32_t> released;
  for (auto& [key, sum] : sums_) {
    if (!is_of_lane(key.second)) continue;
    for (const auto& [rank, push] : sum.waiting) {
      sum.gone.insert(rank);
      if (rank != options_.rank) released.insert(rank);
    }
    released.insert(sum.unanswered.begin(), sum.unanswered.end());
    sum.waiting.clear();
    sum.unanswered.clear();
    if (sum.state == State::kGathering) Become(&sum, State::kSent);
  }
  Release(released, out);
}

void HostLeader::SetApplied(uint64_t applied) {
  const CheckInvariantsAtScopeEnd checked(*this);
  applied_ = applied;
  sums_.erase(sums_.begin(), sums_.lower_bound({applied + 1, Cell{Kind::kScale, 0, 0}}));
}

void HostLeader::Restart(uint64_t applied) {
  const CheckInvariantsAtScopeEnd checked(*this);
  applied_ = applied;
  sums_.clear();
  workers_.clear();
}

void HostLeader::OnTimer(Time now, Actions* out) {
  if (!due_.has_value() || now < *due_) return;
  const CheckInvariantsAtScopeEnd checked(*this);
  due_.reset();
  for (auto& [key, sum] : sums_) {
    if (sum.state != State::kGathering) continue;
    const Time due = sum.since + options_.patience;
    if (now < due) {
      due_ = std::min(due_.value_or(due), due);
      continue;
    }
    for (auto& [rank, worker] : workers_) {
      if (!sum.waiting.contains(rank) && !sum.gone.contains(rank)) worker.expected_from.reset();
    }
    SendWaiting(key, &sum, out);
  }
}

Status HostLeader::Check() const {
  for (const auto& [key, sum] : sums_) {
    TERN_HOLDS(key.first > applied_, ToString(key.second, key.first),
               ": the host's leader keeps its sum, and has applied ", applied_);
    TERN_HOLDS((sum.state == State::kGathering) == !sum.waiting.empty(),
               ToString(key.second, key.first), ": the host's sum is ", NameOf(sum.state), ", and ",
               sum.waiting.size(), " pushes wait");
    for (const auto& [rank, push] : sum.waiting) {
      TERN_HOLDS(!sum.gone.contains(rank), ToString(key.second, key.first), ": the push of rank ",
                 rank, " waits, and has left");
    }
  }
  return Ok();
}

}  // namespace tern::protocol
