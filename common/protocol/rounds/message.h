// The input and output of the protocol's state machines. The state machines know neither sockets
// nor clocks: their owner (a daemon, or the tests' simulator) passes in messages and the time, and
// sends the messages that they return.
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
// The number that a server's socket gives a connection; 0: no connection.
using Peer = uint64_t;

struct Message {
  pb::Envelope head;  // what the message is, and all its fields except the payload
  Bytes payload;
};

struct Send {
  Peer to = 0;
  Message message;
};
using Sends = std::vector<Send>;

// What is reduced over the workers: the scalers (codecs' scale factors) of a bucket of tensors, the
// coded gradients of a chunk (a range of a bucket), or the workers' metrics.
enum class Kind : uint8_t { kScale, kPush, kFigures };

// Names one reduction over the workers. In a job with rounds the reduction is done once per round.
struct Cell {
  Kind kind = Kind::kPush;
  uint32_t bucket = 0;
  uint32_t chunk = 0;
  auto operator<=>(const Cell&) const = default;
};
// Returns a text for log lines and errors, for example "push of bucket 0, chunk 3, round 17"; `at`
// is the last part, "round 17". In the second function `of` ("round") and `number` make that part.
std::string ToString(const Cell& cell, std::string_view at);
std::string ToString(const Cell& cell, uint64_t number, std::string_view of = "round");

// Each returns a field of `head` for this kind: the field of a contribution, of its outcome
// (answer), and of an outcome that a worker hands back to a restarted server.
pb::Contribution* MutableContribution(Kind kind, pb::Envelope* head);
pb::Outcome* MutableOutcome(Kind kind, pb::Envelope* head);
pb::Outcome* MutableHeldOutcome(Kind kind, pb::Envelope* head);

// If `head` has a contribution (an outcome, a handed-back outcome), returns it and sets *kind; else
// returns null.
const pb::Contribution* AsContribution(const pb::Envelope& head, Kind* kind);
const pb::Outcome* AsOutcome(const pb::Envelope& head, Kind* kind);
const pb::Outcome* AsHeldOutcome(const pb::Envelope& head, Kind* kind);

// Make and read the wire field OfRound.contributor_bits, which names the ranks that contributed:
// bit r % 8 of byte r / 8 is for rank r.
std::string ContributorBits(const std::vector<bool>& ranks);
bool HasContributed(const std::string& contributor_bits, uint32_t rank);

// Code::kOk: nothing is wrong, and the peer only does what `then` says.
Message MakeRefusal(Code code, std::string sentence, pb::Refuse::Then then);
Send RefusalTo(Peer to, Code code, std::string sentence, pb::Refuse::Then then);

// Returns the error that a peer's message reports with its fields `code` and `sentence`. The result
// is never ok. Its code is an error code of Tern (ParseErrorCode); its message is printable and of
// bounded length.
Status ErrorFromPeer(uint32_t code, const std::string& sentence);
// Returns the status that the message End reports; it may be ok.
Status StatusOf(const pb::End& end);

}  // namespace tern::protocol
