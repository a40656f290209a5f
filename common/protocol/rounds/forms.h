// The forms of a worker's contribution as types, and questions about the forms of messages. The
// messages Contribution and Outcome of proto/wire.proto have the same forms.
//
// The number of an exchange is the round or, in a job without rounds, the worker's clock.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "common/base/bytes.h"
#include "common/protocol/rounds/message.h"
#include "proto/wire.pb.h"

namespace tern::protocol {

// What a worker contributes to a cell. In rounds:
struct InRound {
  uint64_t round = 0;
  Bytes payload;
  uint64_t digest = 0;  // of the scalers with which the payload was coded; 0: none
};
struct Skip {  // this worker does not contribute to the round
  uint64_t round = 0;
};
// Without rounds:
struct AtClock {  // a push that is applied on arrival
  uint64_t clock = 0;
  Bytes payload;
  bool wants_weights = true;
};
struct Parting {  // this worker pushes nothing at this clock or later
  uint64_t clock = 0;
};
// Asks for the weights that servers hold. A worker has one unanswered pull at a time per cell.
struct Pull {
  bool average = false;  // asks for the moving average of the weights instead
};
using Contribution = std::variant<InRound, Skip, AtClock, Parting, Pull>;

inline bool IsPull(const Contribution& c) { return std::holds_alternative<Pull>(c); }
// Whether the contribution has a payload.
bool IsPush(const Contribution& c);
const Bytes& PayloadOf(const Contribution& c);  // empty if it has none

// The number of the exchange: the round or the clock. 0 for a pull, its answer, or a message
// without a form.
uint64_t ExchangeOf(const Contribution& c);
uint64_t ExchangeOf(const pb::Contribution& c);
uint64_t ExchangeOf(const pb::Outcome& outcome);

// For log lines and errors: "push of bucket 0, chunk 3, clock 17".
std::string ToString(const Cell& cell, const pb::Contribution& c);
// Returns what is wrong if no lane can accept the message: it has no form, or a payload although
// its form has none. The text continues a sentence that begins with the message's name; empty if
// nothing is wrong.
std::string WrongForm(const pb::Contribution& c, const Bytes& payload);

// The job's last round, or the worker's last clock, if the outcome tells it; else 0.
uint64_t StopAfter(const pb::Outcome& outcome);
// The description of the weights in the outcome's payload; null if the payload is not weights.
const pb::Outcome::Weights* WeightsOf(const pb::Outcome& outcome);
// Whether the payload is values in fp32, not coded by the pull codec.
bool IsWhole(const pb::Outcome& outcome);

}  // namespace tern::protocol
