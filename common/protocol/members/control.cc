#include "common/protocol/members/control.h"

#include <utility>

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::protocol {

namespace {

// The largest round, step count or epoch that a hello may have. It is so low that additions to
// these numbers cannot overflow.
constexpr uint64_t kMaxCount = uint64_t{1} << 62;

Status CompareDigests(const char* what, uint64_t theirs, uint64_t ours) {
  if (theirs == ours) return Ok();
  return Status(Code::kMismatch, std::string(what) + " differs: the peer's digest is " +
                                     Hex(theirs) + ", the server's " + Hex(ours) +
                                     "; start all from the same job file");
}

}  // namespace

Status CheckHello(const pb::Hello& hello, const pb::Hello& expected) {
  if (hello.job() != expected.job()) {
    return Status(Code::kMismatch, "the peer runs job '" + Printable(hello.job()) +
                                       "', the server job '" + expected.job() + "'");
  }
  TERN_RETURN_IF_ERROR(CompareDigests("the job", hello.job_digest(), expected.job_digest()));
  TERN_RETURN_IF_ERROR(CompareDigests("the model", hello.model_digest(), expected.model_digest()));
  TERN_RETURN_IF_ERROR(
      CompareDigests("the exchange plan", hello.plan_digest(), expected.plan_digest()));
  if (hello.incarnation() == 0)
    return Status(Code::kMismatch, "the peer's hello names no incarnation of its process");
  for (const uint64_t count : {hello.epoch(), hello.applied(), hello.floor(), hello.steps()}) {
    if (count > kMaxCount) {
      return Status(Code::kMismatch, Cat("the peer's hello has a count of ", count,
                                         ", expected at most ", kMaxCount));
    }
  }
  return Ok();
}

RoundLane::Options ControlLaneOptions(const ControlOptions& options) {
  RoundLane::Options lane_options;
  lane_options.workers = options.workers;
  lane_options.window = options.window;
  lane_options.quorum = options.elasticity.quorum;
  lane_options.shrink = options.elasticity.shrinks_on_loss();
  lane_options.incarnation = options.incarnation;
  lane_options.safeguards = options.safeguards;
  return lane_options;
}

Message MakeRefusal(Code code, std::string sentence, pb::Refuse::Then then) {
  return MakeRefuse(static_cast<int>(code), std::move(sentence), then);
}

Message MakeGoBack(uint64_t incarnation, std::string why) {
  Message message;
  pb::GoBack* go_back = message.head.mutable_go_back();
  go_back->set_incarnation(incarnation);
  go_back->set_sentence(std::move(why));
  return message;
}

Status RefusedKeys(const std::string& server, const std::string& own_role, Time waited) {
  return Status(Code::kNotAllowed,
                Cat(server, " does not hold the pinned key, or does not know this ", own_role,
                    "'s key: no handshake succeeded in ", SecondsText(waited),
                    "; compare the keys of both hosts, which must have been made together, and "
                    "whether the key was revoked"));
}

void EmitSend(Peer to, Message message, ControlActions* out) {
  ControlAction& action = out->emplace_back();
  action.type = ControlAction::Type::kSend;
  action.send = {to, std::move(message)};
}

void EmitEcho(Peer to, const pb::Heartbeat& beat, ControlActions* out) {
  Message message;
  message.head.mutable_echo()->set_sent_ns(beat.sent_ns());
  EmitSend(to, std::move(message), out);
}

void EmitSends(Sends sends, ControlActions* out) {
  for (Send& send : sends) EmitSend(send.to, std::move(send.message), out);
}

void EmitLog(std::string text, ControlActions* out) {
  ControlAction& action = out->emplace_back();
  action.type = ControlAction::Type::kLog;
  action.text = std::move(text);
}

void EmitMembers(const pb::Members& members, ControlActions* out) {
  ControlAction& action = out->emplace_back();
  action.type = ControlAction::Type::kMembers;
  action.members = members;
}

void EmitEnded(Status status, ControlActions* out) {
  ControlAction& action = out->emplace_back();
  action.type = ControlAction::Type::kEnded;
  action.status = std::move(status);
}

std::string SecondsText(Time time) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace tern::protocol
