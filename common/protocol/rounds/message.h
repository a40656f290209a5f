// The input and output of the protocol's state machines. They know neither sockets nor clocks:
// their owner (a daemon, or the tests' simulator) passes in messages and the time, and sends the
// messages that they return.
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
// The number that a server's socket gives a connection; 0: none
using Peer = uint64_t;

struct Message {
  pb::Envelope head;
  Bytes payload;
};

struct Send {
  Peer to = 0;
  Message message;
};
using Sends = std::vector<Send>;

// What is reduced: scalers of a bucket, codes of a chunk, or workers' metrics.
enum class Kind : uint8_t { kScale, kPush, kFigures };

// Names one reduction over the workers. In a job with rounds it is done once per round.
struct Cell {
  Kind kind = Kind::kPush;
  uint32_t bucket = 0;
  uint32_t chunk = 0;
  auto operator<=>(const Cell&) const = default;
};
// For log lines and errors: "push of bucket 0, chunk 3, round 17", where `at` is "round 17".
std::string ToString(const Cell& cell, std::string_view at);
// The same where `at` is `of` and the number.
std::string ToString(const Cell& cell, uint64_t number, std::string_view of = "round");

// Returns the field of `head` for this kind: for a contribution, for its outcome, and for an
// outcome that a worker hands back to a restarted server.
pb::Contribution* MutableContribution(Kind kind, pb::Envelope* head);
pb::Outcome* MutableOutcome(Kind kind, pb::Envelope* head);
pb::Outcome* MutableHeldOutcome(Kind kind, pb::Envelope* head);

// If `head` has such a field, returns it and sets *kind; else returns null.
const pb::Contribution* AsContribution(const pb::Envelope& head, Kind* kind);
const pb::Outcome* AsOutcome(const pb::Envelope& head, Kind* kind);
const pb::Outcome* AsHeldOutcome(const pb::Envelope& head, Kind* kind);

// OfRound.contributor_bits: the ranks that contributed; bit r % 8 of byte r / 8 is for rank r.
std::string ContributorBits(const std::vector<bool>& ranks);
bool Contributed(const std::string& contributor_bits, uint32_t rank);

Message MakeRefuse(int code, std::string sentence, pb::Refuse::Then then);

// The error that a peer's message reports with its fields `code` and `sentence`. Never ok; the code
// is one of Tern's (ParseErrorCode), the sentence is printable and of bounded length.
Status ErrorFromPeer(uint32_t code, const std::string& sentence);
// The status that an End reports; it may be ok.
Status StatusOf(const pb::End& end);

}  // namespace tern::protocol
