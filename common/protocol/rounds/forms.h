// The forms of a contribution and of its outcome (proto/wire.proto): what each carries, and no
// more.
//
// An exchange is a round or, in a job without rounds, one push of a worker to all cells, numbered
// by its clock.
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
  uint64_t digest = 0;  // of the scalers that coded the payload; 0: none
};
struct Skip {  // takes no part in the round
  uint64_t round = 0;
};
// Without rounds:
struct AtClock {  // a push that counts at once
  uint64_t clock = 0;
  Bytes payload;
  bool wants_weights = true;
};
struct Parting {  // pushes nothing at this clock, nor at any later one
  uint64_t clock = 0;
};
// Where servers hold the weights; a worker has one at a time per cell.
struct Pull {
  bool average = false;  // asks for the moving average of the weights
};
using Contribution = std::variant<InRound, Skip, AtClock, Parting, Pull>;

inline bool IsPull(const Contribution& c) { return std::holds_alternative<Pull>(c); }
// Whether it has a payload.
bool IsPush(const Contribution& c);
const Bytes& PayloadOf(const Contribution& c);  // empty if it has none

// The number of the exchange: the round or the clock. 0: a pull, its answer, or a message without a
// form.
uint64_t ExchangeOf(const Contribution& c);
uint64_t ExchangeOf(const pb::Contribution& c);
uint64_t ExchangeOf(const pb::Outcome& outcome);

// For messages: "push of bucket 0, chunk 3, clock 17".
std::string ToString(const Cell& cell, const pb::Contribution& c);
// What no lane takes: a message without a form, or with a payload that its form does not have. It
// continues the sentence; empty if nothing is wrong.
std::string WrongForm(const pb::Contribution& c, const Bytes& payload);

// The job's last round, or the worker's last clock, if the outcome says it; else 0.
uint64_t StopAfter(const pb::Outcome& outcome);
// What it says of the weights that are its payload; null if these are none.
const pb::Outcome::Weights* WeightsOf(const pb::Outcome& outcome);
// Whether the payload is values in fp32, whatever the codec.
bool IsWhole(const pb::Outcome& outcome);

}  // namespace tern::protocol
