// The kinds ("forms") of a worker's contribution as C++ types, and functions for the messages
// Contribution and Outcome (the answer) of proto/wire.proto, which also have forms.
//
// The number of an exchange is the round. In a job without rounds it is the worker's clock: the
// worker's own count of its exchanges.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/bytes.h"
#include "common/protocol/rounds/message.h"
#include "proto/wire.pb.h"

namespace tern::protocol {

// What a worker contributes to a cell (one reduction over the workers). In a job with rounds:
struct InRound {
  uint64_t round = 0;
  Bytes payload;
  // Hash of the shared scale factors that coded the payload; 0: none were used.
  uint64_t digest = 0;
  bool checkpoint = false;  // whether all daemons write a checkpoint after the round
};
struct Skip {  // This worker does not contribute to the round.
  uint64_t round = 0;
};
// In a job without rounds:
struct AtClock {  // a push that the server applies on arrival
  uint64_t clock = 0;
  Bytes payload;
  bool wants_weights = true;
};
struct Parting {  // This worker pushes nothing at this clock or later.
  uint64_t clock = 0;
};
// Asks for the weights that servers hold. A worker has at most one unanswered pull per cell.
struct Pull {
  bool wants_average = false;  // whether it asks for the moving average of the weights instead
};
using Contribution = std::variant<InRound, Skip, AtClock, Parting, Pull>;

inline bool IsPull(const Contribution& c) { return std::holds_alternative<Pull>(c); }
// Whether the contribution has a payload.
bool IsPush(const Contribution& c);
const Bytes& PayloadOf(const Contribution& c);  // empty if the contribution has no payload

// The number of the exchange: the round or the clock. 0 for a pull, its answer, or a message
// without a form.
uint64_t ExchangeOf(const Contribution& c);
uint64_t ExchangeOf(const pb::Contribution& c);
uint64_t ExchangeOf(const pb::Outcome& outcome);

// A rank, and the incarnation with which it contributes.
struct Contributor {
  uint32_t rank = 0;
  uint64_t incarnation = 0;
};
// Whose contributions the message has: its sender's, or those that a host leader added up.
std::vector<Contributor> ContributorsOf(const pb::Contribution& c);
// Whether the message has a sum that a host leader made.
bool IsPartialSum(const pb::Contribution& c);

// Returns a text for log lines and errors, for example "push of bucket 0, chunk 3, clock 17".
std::string ToString(const Cell& cell, const pb::Contribution& c);
// Returns what is wrong with a message that no server can accept: it has no form, it is a pull that
// does not say what it asks for, or it has a payload although its form has none. The text is to be
// appended to the message's description (ToString). Returns an empty string if nothing is wrong.
std::string DescribeFormFault(const pb::Contribution& c, const Bytes& payload);

// Returns the job's last round, or the worker's last clock, if the outcome says which it is; else
// 0.
uint64_t LastExchangeOf(const pb::Outcome& outcome);
// Returns the round after which all daemons write a checkpoint, if the outcome names one; else 0.
uint64_t CheckpointRoundOf(const pb::Outcome& outcome);
// Returns the outcome's description of the weights in its payload; null if the outcome has none.
const pb::Outcome::Weights* WeightsOf(const pb::Outcome& outcome);
// Whether the outcome says that its payload is fp32 values, not coded by the job's pull codec.
bool HasFp32Payload(const pb::Outcome& outcome);

}  // namespace tern::protocol
