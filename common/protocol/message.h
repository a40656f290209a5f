// What the machines of this folder take in and give out. They know neither sockets nor clocks:
// whoever drives them (a daemon, or the simulator of the tests) hands in messages and the time, and
// carries out what comes back.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "proto/wire.pb.h"

namespace tern::protocol {

using Time = std::chrono::nanoseconds;  // on one monotonic clock
using Peer = uint64_t;                  // one connection, as its socket names it; 0: none

struct Message {
  pb::Envelope head;
  Bytes payload;
};

struct Send {
  Peer to = 0;
  Message message;
};
using Sends = std::vector<Send>;

enum class Kind : uint8_t { kScale, kPush, kFigures };

// One thing that is added up over the workers, once a round.
struct Cell {
  Kind kind = Kind::kPush;
  uint32_t bucket = 0;
  uint32_t chunk = 0;
  auto operator<=>(const Cell&) const = default;
};
std::string ToString(const Cell& cell, uint64_t round);  // "push of bucket 0, chunk 3, round 17"

// What a contribution may say besides.
struct Request {
  bool skip = false;  // takes no part in this round
  // Algorithms without rounds:
  bool pull_only = false;  // only weights are asked for; round 0; one at a time of a cell
  bool push_only = false;  // none are
  bool average = false;    // pull_only: of the moving average
};

// The envelopes of a contribution, its outcome and the outcome handed back to a restarted server,
// by kind.
pb::Contribution* MutableContribution(Kind kind, pb::Envelope* head);
pb::Outcome* MutableOutcome(Kind kind, pb::Envelope* head);
pb::Outcome* MutableHeldOutcome(Kind kind, pb::Envelope* head);

// What `head` is, if it is one of those; `kind` says which.
const pb::Contribution* AsContribution(const pb::Envelope& head, Kind* kind);
const pb::Outcome* AsOutcome(const pb::Envelope& head, Kind* kind);
const pb::Outcome* AsHeldOutcome(const pb::Envelope& head, Kind* kind);

Message MakeRefuse(int code, std::string sentence, pb::Refuse::Then then);

// What a peer says of an error, by `code` and `sentence` of its message: never ok, the code one of
// Tern's (ParseErrorCode), the sentence printable and of a bounded length.
Status ErrorFromPeer(uint32_t code, const std::string& sentence);
// The same of an End, which may also say that all is well.
Status StatusOf(const pb::End& end);

}  // namespace tern::protocol
