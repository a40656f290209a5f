// What the machines of this folder consume and produce. They know neither sockets nor clocks: their
// driver (a daemon, or the tests' simulator) passes in messages and the time, and executes the
// actions that they return.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "proto/wire.pb.h"

namespace tern::protocol {

using Time = std::chrono::nanoseconds;  // on one monotonic clock
using Peer = uint64_t;                  // a connection, as numbered by its socket; 0: none

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

// One reduction over the workers, done once per round.
struct Cell {
  Kind kind = Kind::kPush;
  uint32_t bucket = 0;
  uint32_t chunk = 0;
  auto operator<=>(const Cell&) const = default;
};
// For messages: "push of bucket 0, chunk 3, round 17", where `at` is "round 17".
std::string ToString(const Cell& cell, std::string_view at);
// The same for a number of what `of` names.
std::string ToString(const Cell& cell, uint64_t number, std::string_view of = "round");

// The fields of a contribution, of its outcome, and of an outcome handed back to a restarted
// server, by kind.
pb::Contribution* MutableContribution(Kind kind, pb::Envelope* head);
pb::Outcome* MutableOutcome(Kind kind, pb::Envelope* head);
pb::Outcome* MutableHeldOutcome(Kind kind, pb::Envelope* head);

// `head`'s field, and its kind in *kind, if it is one of those; else null.
const pb::Contribution* AsContribution(const pb::Envelope& head, Kind* kind);
const pb::Outcome* AsOutcome(const pb::Envelope& head, Kind* kind);
const pb::Outcome* AsHeldOutcome(const pb::Envelope& head, Kind* kind);

// Outcome.who: the ranks that contributed, a bit a rank, least first.
std::string WhoBytes(const std::vector<bool>& ranks);
bool IsIn(const std::string& who, uint32_t rank);

Message MakeRefuse(int code, std::string sentence, pb::Refuse::Then then);

// What a peer says of an error, by `code` and `sentence` of its message: never ok, the code one of
// Tern's (ParseErrorCode), the sentence printable and of a bounded length.
Status ErrorFromPeer(uint32_t code, const std::string& sentence);
// The same of an End, which may also say that all is well.
Status StatusOf(const pb::End& end);

}  // namespace tern::protocol
