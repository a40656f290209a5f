#include "common/protocol/rounds/forms.h"

namespace tern::protocol {

bool IsPush(const Contribution& c) {
  return std::holds_alternative<InRound>(c) || std::holds_alternative<AtClock>(c);
}

const Bytes& PayloadOf(const Contribution& c) {
  static const Bytes no_payload;
  if (const auto* in_round = std::get_if<InRound>(&c)) return in_round->payload;
  if (const auto* at_clock = std::get_if<AtClock>(&c)) return at_clock->payload;
  return no_payload;
}

uint64_t ExchangeOf(const Contribution& c) {
  struct NumberOf {
    uint64_t operator()(const InRound& form) const { return form.round; }
    uint64_t operator()(const Skip& form) const { return form.round; }
    uint64_t operator()(const AtClock& form) const { return form.clock; }
    uint64_t operator()(const Parting& form) const { return form.clock; }
    uint64_t operator()(const Pull&) const { return 0; }
  };
  return std::visit(NumberOf(), c);
}

uint64_t ExchangeOf(const pb::Contribution& c) {
  switch (c.form_case()) {
    case pb::Contribution::kInRound:
      return c.in_round().round();
    case pb::Contribution::kSkip:
      return c.skip().round();
    case pb::Contribution::kLate:
      return c.late().round();
    case pb::Contribution::kAtClock:
      return c.at_clock().clock();
    case pb::Contribution::kParting:
      return c.parting().clock();
    case pb::Contribution::kPull:
    case pb::Contribution::FORM_NOT_SET:
      break;
  }
  return 0;
}

uint64_t ExchangeOf(const pb::Outcome& outcome) {
  switch (outcome.form_case()) {
    case pb::Outcome::kOfRound:
      return outcome.of_round().round();
    case pb::Outcome::kAtClock:
      return outcome.at_clock().clock();
    case pb::Outcome::kParted:
      return outcome.parted().clock();
    case pb::Outcome::kPulled:
    case pb::Outcome::FORM_NOT_SET:
      break;
  }
  return 0;
}

bool IsPartialSum(const pb::Contribution& c) { return c.in_round().of_size() != 0; }

std::vector<Contributor> ContributorsOf(const pb::Contribution& c) {
  if (!IsPartialSum(c)) return {{c.rank(), c.incarnation()}};
  std::vector<Contributor> contributors;
  for (const pb::Contribution::Contributor& each : c.in_round().of())
    contributors.push_back({each.rank(), each.incarnation()});
  return contributors;
}

std::string ToString(const Cell& cell, const pb::Contribution& c) {
  switch (c.form_case()) {
    case pb::Contribution::kPull:
      return ToString(cell, c.pull().number(), "pull");
    case pb::Contribution::kAtClock:
    case pb::Contribution::kParting:
      return ToString(cell, ExchangeOf(c), "clock");
    case pb::Contribution::FORM_NOT_SET:
      return ToString(cell, "no form");
    default:
      return ToString(cell, ExchangeOf(c));
  }
}

std::string DescribeFormFault(const pb::Contribution& c, const Bytes& payload) {
  if (c.form_case() == pb::Contribution::FORM_NOT_SET)
    return ": it says neither a round, nor a clock, nor a pull";
  if (c.has_pull() && c.pull().of_case() == pb::Contribution::Pull::OF_NOT_SET)
    return ": it says neither the weights nor their average";
  if (payload.empty() || c.has_in_round() || c.has_at_clock()) return "";
  return " pushes nothing, as it says, but has a payload";
}

uint64_t LastExchangeOf(const pb::Outcome& outcome) {
  switch (outcome.form_case()) {
    case pb::Outcome::kOfRound:
      return outcome.of_round().stop_after();
    case pb::Outcome::kAtClock:
      return outcome.at_clock().stop() ? outcome.at_clock().clock() : 0;
    case pb::Outcome::kParted:
      return outcome.parted().stop() ? outcome.parted().clock() : 0;
    case pb::Outcome::kPulled:
      return outcome.pulled().stop() ? outcome.pulled().clock() : 0;
    case pb::Outcome::FORM_NOT_SET:
      break;
  }
  return 0;
}

uint64_t CheckpointRoundOf(const pb::Outcome& outcome) {
  return outcome.of_round().checkpoint_after();
}

const pb::Outcome::Weights* WeightsOf(const pb::Outcome& outcome) {
  if (outcome.at_clock().has_weights()) return &outcome.at_clock().weights();
  if (outcome.pulled().has_weights()) return &outcome.pulled().weights();
  return nullptr;
}

bool HasFp32Payload(const pb::Outcome& outcome) {
  const pb::Outcome::Weights* weights = WeightsOf(outcome);
  return outcome.pulled().has_average() || (weights != nullptr && weights->whole());
}

}  // namespace tern::protocol
