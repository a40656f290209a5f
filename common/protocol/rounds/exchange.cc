#include "common/protocol/rounds/exchange.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "common/base/invariants.h"
#include "common/protocol/rounds/lane.h"

namespace tern::protocol {

namespace {

// Visitor of a contribution that waits for its answer: returns whether `outcome`, which has the
// same cell and the same number of the round or clock, is the answer.
struct IsAnsweredBy {
  const pb::Outcome& outcome;
  uint64_t pull_number = 0;  // if the contribution is a pull: its number

  bool operator()(const InRound&) const { return outcome.has_of_round(); }
  bool operator()(const Skip&) const { return outcome.has_of_round(); }
  bool operator()(const AtClock&) const { return outcome.has_at_clock(); }
  bool operator()(const Parting&) const { return outcome.has_parted(); }
  bool operator()(const Pull&) const {
    return outcome.has_pulled() && outcome.pulled().number() == pull_number;
  }
};

// Makes the message of a contribution to the cell. SetForm sets the form of the contribution, that
// is, which kind it is.
Message MakeContribution(const Cell& cell, const Exchange::Options& sender) {
  Message message;
  pb::Contribution* c = MutableContribution(cell.kind, &message.head);
  c->set_bucket(cell.bucket);
  c->set_chunk(cell.chunk);
  c->set_rank(sender.rank);
  c->set_incarnation(sender.incarnation);
  c->set_epoch(sender.epoch);
  return message;
}

// Tells the leader of the host that this push goes to its lane, or is none, so that the leader does
// not add it, nor wait for it.
Exchange::Outgoing MakeWordThatNoPushComes(const ExchangeKey& key, LaneRef lane,
                                           const Exchange::Options& sender, uint64_t applied) {
  Exchange::Outgoing outgoing{lane, MakeContribution(key.cell, sender), /*to_leader=*/true};
  pb::Contribution* c = MutableContribution(key.cell.kind, &outgoing.message.head);
  c->mutable_skip()->set_round(key.exchange);
  c->mutable_skip()->set_applied(applied);
  return outgoing;
}

// Visitor of a contribution (forms.h): sets the form of the message `contribution`, and the fields
// of that form. The payload is set elsewhere.
struct SetForm {
  uint64_t applied = 0;
  uint64_t pull_number = 0;                 // if it is a pull: its number
  std::optional<uint64_t> weights_version;  // the version of the weights that this worker has
  pb::Contribution* contribution = nullptr;

  void operator()(const InRound& form) const {
    pb::Contribution::InRound* in_round = contribution->mutable_in_round();
    in_round->set_round(form.round);
    in_round->set_applied(applied);
    if (form.digest != 0) in_round->set_digest(form.digest);
    if (form.checkpoint) in_round->set_checkpoint(true);
  }
  void operator()(const Skip& form) const {
    contribution->mutable_skip()->set_round(form.round);
    contribution->mutable_skip()->set_applied(applied);
  }
  void operator()(const AtClock& form) const {
    pb::Contribution::AtClock* at_clock = contribution->mutable_at_clock();
    at_clock->set_clock(form.clock);
    if (weights_version.has_value()) at_clock->set_holds(*weights_version);
    if (form.wants_weights) at_clock->set_wants_weights(true);
  }
  void operator()(const Parting& form) const {
    contribution->mutable_parting()->set_clock(form.clock);
  }
  void operator()(const Pull& form) const {
    contribution->mutable_pull()->set_number(pull_number);
    if (form.wants_average) {
      contribution->mutable_pull()->mutable_average();
    } else {
      pb::Contribution::OfWeights* weights = contribution->mutable_pull()->mutable_weights();
      if (weights_version.has_value()) weights->set_holds(*weights_version);
    }
  }
};

}  // namespace

void Exchange::Contribute(const Cell& cell, LaneRef lane, Contribution contribution, Time now,
                          std::vector<Outgoing>* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  const Key key{ExchangeOf(contribution), cell};
  const bool is_pull = IsPull(contribution);
  if (options_.is_elastic && !is_pull && (key.exchange <= applied_ || held_.Has(key))) {
    if (IsPush(contribution)) CountAndReportLate(key, lane, out);
    return;
  }
  if (is_pull) queue_.Drop(key);  // a new pull replaces an unanswered one
  SendQueue::Entry entry;
  entry.lane = lane;
  entry.contribution = std::move(contribution);
  if (is_pull) entry.pull_number = ++newest_pull_number_;
  queue_.Enqueue(key, std::move(entry));
  SendWhatCreditAllows(lane, now, out);
}

void Exchange::CountAndReportLate(const Key& key, LaneRef lane, std::vector<Outgoing>* out) {
  late_rounds_.CountRound(key);
  if (!IsUp(lane)) return;
  Outgoing outgoing{lane, MakeContribution(key.cell, options_)};
  pb::Contribution* c = MutableContribution(key.cell.kind, &outgoing.message.head);
  c->mutable_late()->set_round(key.exchange);
  c->mutable_late()->set_applied(applied_);
  out->push_back(std::move(outgoing));
}

void Exchange::LateRounds::CountRound(const Key& key) {
  if (key.cell.kind != Kind::kPush || key.exchange <= newest_round) return;
  newest_round = key.exchange;
  ++num_rounds;
}

bool Exchange::IsUp(LaneRef lane) const {
  const auto found = lanes_.find(lane);
  return found != lanes_.end() && found->second.is_up;
}

void Exchange::Send(const std::vector<const SendQueue::Item*>& items, std::vector<Outgoing>* out) {
  for (const SendQueue::Item* item : items) {
    const auto& [key, entry] = *item;
    if (entry.left_host) ++num_left_host_;
    const bool is_skipped =
        key.cell.kind == Kind::kPush && std::holds_alternative<Skip>(entry.contribution);
    if (has_leader_ && (entry.left_host || is_skipped))
      out->push_back(MakeWordThatNoPushComes(key, entry.lane, options_, applied_));
    Outgoing outgoing{entry.lane, MakeContribution(key.cell, options_),
                      /*to_leader=*/entry.way == SendQueue::Way::kHost};
    SetForm set_form{applied_, entry.pull_number, std::nullopt,
                     MutableContribution(key.cell.kind, &outgoing.message.head)};
    const auto version = versions_.find(key.cell);
    if (version != versions_.end()) set_form.weights_version = version->second.version;
    std::visit(set_form, entry.contribution);
    outgoing.message.payload = PayloadOf(entry.contribution);
    out->push_back(std::move(outgoing));
  }
}

void Exchange::Send(const std::vector<const HeldOutcomes::Item*>& items,
                    std::vector<Outgoing>* out) {
  for (const HeldOutcomes::Item* item : items) {
    const auto& [key, held] = *item;
    Outgoing outgoing{held.lane, {}};
    *MutableHeldOutcome(key.cell.kind, &outgoing.message.head) = held.outcome;
    outgoing.message.payload = held.payload;
    out->push_back(std::move(outgoing));
  }
}

void Exchange::OnLeader(Leader leader, Time now, std::vector<Outgoing>* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  has_leader_ = leader != Leader::kNone;
  queue_.set_has_leader(has_leader_);
  if (leader == Leader::kPresent) return;
  for (const LaneRef lane : queue_.MarkLostOnHost()) SendWhatCreditAllows(lane, now, out);
}

void Exchange::SendWhatCreditAllows(LaneRef lane, Time now, std::vector<Outgoing>* out) {
  if (IsUp(lane)) Send(queue_.TakeSendable(lane, now), out);
}

std::vector<Exchange::Delivery> Exchange::OnOutcome(LaneRef lane, Kind kind,
                                                    const pb::Outcome& outcome,
                                                    const Bytes& payload, Time now,
                                                    std::vector<Outgoing>* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  std::vector<Delivery> deliveries;
  lanes_[lane].last_outcome_at = now;
  OnFloor(outcome.of_round().floor());
  const Key key{ExchangeOf(outcome), Cell{kind, outcome.bucket(), outcome.chunk()}};
  if (const SendQueue::Entry* entry = queue_.Find(key); entry != nullptr) {
    const bool is_answer =
        std::visit(IsAnsweredBy{outcome, entry->pull_number}, entry->contribution);
    if (entry->lane != lane || !is_answer) return deliveries;
    const bool has_contributed = std::holds_alternative<InRound>(entry->contribution);
    if (has_contributed && options_.is_elastic &&
        !HasContributed(outcome.of_round().contributor_bits(), options_.rank))
      late_rounds_.CountRound(key);
    queue_.Drop(key);
  } else if (!outcome.has_of_round() || !WantsUnsolicited(key, lane)) {
    return deliveries;
  }
  const pb::Outcome::Weights* weights = WeightsOf(outcome);
  if (weights != nullptr && weights->has_version())
    versions_[key.cell] = {lane, weights->version()};
  // In jobs without rounds only clocks are kept, because a server does not restore weights from its
  // workers.
  if (outcome.has_of_round()) held_.KeepOutcome(key, lane, outcome, payload);
  if (outcome.has_at_clock() || outcome.has_parted())
    held_.KeepClock(key, lane, outcome.has_parted());
  deliveries.push_back({key.cell, outcome, payload});
  SendWhatCreditAllows(lane, now, out);
  return deliveries;
}

bool Exchange::WantsUnsolicited(const Key& key, LaneRef lane) const {
  return options_.is_elastic && key.cell.kind != Kind::kFigures && key.exchange > applied_ &&
         key.exchange <= applied_ + kMaxRoundsAhead && !held_.Has(key) &&
         (!options_.in_plan || options_.in_plan(key.cell, lane));
}

void Exchange::OnLaneUp(LaneRef lane, uint64_t server_incarnation, Time now,
                        std::vector<Outgoing>* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  LaneState& lane_state = lanes_[lane];
  // True also at the first Welcome of the lane. Outcomes may have come before that Welcome.
  const bool is_new_server = lane_state.server_incarnation != server_incarnation;
  lane_state.is_up = true;
  lane_state.server_incarnation = server_incarnation;
  if (is_new_server)
    std::erase_if(versions_, [&](const auto& item) { return item.second.lane == lane; });
  // The server assumes that a new incarnation of this worker still pushes. If the worker had sent
  // Parting (it pushes no more), its kept clocks tell the server that again.
  const bool is_new_incarnation =
      std::exchange(lane_state.greeted_incarnation, options_.incarnation) != options_.incarnation;
  if (is_new_server || is_new_incarnation)
    Send(held_.OfferOutcomes(lane, /*only_clocks=*/!is_new_server, now), out);
  OnRoomAgain(lane, now, out);
}

void Exchange::OnRoomAgain(LaneRef lane, Time now, std::vector<Outgoing>* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  queue_.MarkUnsent(lane);
  SendWhatCreditAllows(lane, now, out);
}

void Exchange::OnHeldConfirmed(LaneRef lane, Kind kind, const pb::Outcome& outcome) {
  const CheckInvariantsAtScopeEnd checked(*this);
  held_.OnConfirmed(Key{ExchangeOf(outcome), Cell{kind, outcome.bucket(), outcome.chunk()}}, lane);
}

void Exchange::OnLaneDown(LaneRef lane) { lanes_[lane].is_up = false; }

void Exchange::OnTimer(Time now, std::vector<Outgoing>* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  const size_t size_before = out->size();
  Send(queue_.TakeOverdue(now,
                          [&](LaneRef lane_ref, Time sent_at) {
                            const LaneState& lane = lanes_[lane_ref];
                            const Time last_news = std::max(sent_at, lane.last_outcome_at);
                            return lane_ref.lane == 0 && lane.is_up &&
                                   now - last_news >= options_.resend_after;
                          }),
       out);
  Send(held_.OfferOverdueAgain(now,
                               [&](LaneRef lane, Time offered_at) {
                                 return IsUp(lane) && now - offered_at >= options_.resend_after;
                               }),
       out);
  num_resent_ += out->size() - size_before;
}

std::vector<LaneRef> Exchange::TakeSilentLanes(Time now) {
  std::vector<LaneRef> silent;
  for (auto& [lane_ref, lane] : lanes_) {
    if (lane_ref.lane == 0 || !lane.is_up) continue;
    const std::optional<Time> sent_at = queue_.OldestSentAt(lane_ref);
    if (!sent_at.has_value()) continue;
    if (now - std::max({*sent_at, lane.last_outcome_at, lane.asked_at}) < options_.resend_after)
      continue;
    lane.asked_at = now;
    silent.push_back(lane_ref);
  }
  return silent;
}

void Exchange::OnProbeAnswered(LaneRef lane, Time asked_at, const std::set<ExchangeKey>& counted,
                               Time now, std::vector<Outgoing>* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  num_resent_ += queue_.MarkLost(lane, asked_at, counted);
  const uint64_t num_left_before = num_left_host_;
  SendWhatCreditAllows(lane, now, out);
  num_lost_by_leader_ += num_left_host_ - num_left_before;
}

void Exchange::SetApplied(uint64_t applied) {
  const CheckInvariantsAtScopeEnd checked(*this);
  TERN_REQUIRES(options_.is_elastic || !queue_.HasContributionsUpTo(applied), "exchange: applied ",
                applied, ", and not all answers of these rounds were delivered");
  applied_ = applied;
  if (options_.is_elastic) queue_.DropUpTo(applied_);
}

void Exchange::Restart(uint64_t applied) {
  const CheckInvariantsAtScopeEnd checked(*this);
  applied_ = applied;
  queue_.Clear();
  held_.OnStateInstalled(applied);
  versions_.clear();
}

Status Exchange::Check() const {
  TERN_HOLDS(late_rounds_.num_rounds <= late_rounds_.newest_round,
             "exchange: ", late_rounds_.num_rounds, " rounds were late, and the newest is ",
             late_rounds_.newest_round);
  const auto is_up = [this](LaneRef lane) { return IsUp(lane); };
  TERN_RETURN_IF_ERROR(queue_.Check(is_up, options_.is_elastic ? applied_ : 0));
  return held_.Check();
}

}  // namespace tern::protocol
