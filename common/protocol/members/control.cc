#include "common/protocol/members/control.h"

#include <utility>

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::protocol {

namespace {

// A sender with more different keys than kMaxDifferentKeys does not have the job's file. It is not
// told which keys differ, because it could find out their values one by one.
constexpr size_t kMaxDifferentKeys = 8, kMaxNamedKeys = 3;

constexpr const char* kSameFile = "; start all from the same job file";
// The jobs are equal where this is said.
constexpr const char* kSameProgram =
    ", but the job does not; if the workers are programs of yours, all must have the same tensors: "
    "names, order, shapes, and which are trained";

// Returns the names of the keys that differ, if they are few; else an empty list.
std::vector<std::string> DifferentKeys(const pb::Hello& hello, const pb::Hello& expected,
                                       const std::vector<std::string>& keys) {
  const auto &theirs = hello.key_digests(), &ours = expected.key_digests();
  std::vector<std::string> different_keys;
  if (theirs.size() != ours.size() || ours.size() != static_cast<int>(keys.size())) return {};
  for (int i = 0; i < ours.size(); ++i) {
    if (theirs[i] != ours[i]) different_keys.push_back(keys[static_cast<size_t>(i)]);
  }
  if (different_keys.size() > kMaxDifferentKeys) return {};
  if (different_keys.size() > kMaxNamedKeys) {
    const size_t num_more = different_keys.size() - kMaxNamedKeys;
    different_keys.resize(kMaxNamedKeys);
    different_keys.push_back(Cat(num_more, " more"));
  }
  return different_keys;
}

// The digests of the weights from which the daemons start; 0: random ones.
Status CheckWeights(const pb::Hello& hello, const pb::Hello& expected, std::string* for_log) {
  if (hello.weights_digest() == expected.weights_digest()) return Ok();
  std::string sentence = "the weights in model.weights differ from the server's";
  if (hello.weights_digest() == 0) sentence = "the peer has no model.weights, the server has";
  if (expected.weights_digest() == 0) sentence = "the peer has model.weights, the server has none";
  if (for_log != nullptr) {
    *for_log = Cat(sentence, ": the peer's digest is ", Hex(hello.weights_digest()),
                   ", this server's ", Hex(expected.weights_digest()));
  }
  return Status(Code::kMismatch, sentence + "; give all of them the same file");
}

Status CheckDigests(const pb::Hello& hello, const pb::Hello& expected,
                    const std::vector<std::string>& keys, std::string* for_log) {
  std::string what, values;
  const auto compare = [&](const char* name, uint64_t theirs, uint64_t ours) {
    if (!what.empty() || theirs == ours) return;
    what = name;
    values = Cat("the peer's digest is ", Hex(theirs), ", this server's ", Hex(ours));
  };
  if (hello.job() != expected.job()) {
    what = "the job";
    values = Cat("the peer runs job '", Printable(hello.job()), "', this server job '",
                 expected.job(), "'");
  }
  compare("the job", hello.job_digest(), expected.job_digest());
  compare("the model", hello.model_digest(), expected.model_digest());
  compare("the exchange plan", hello.plan_digest(), expected.plan_digest());
  if (what.empty()) return CheckWeights(hello, expected, for_log);
  const std::vector<std::string> different_keys = DifferentKeys(hello, expected, keys);
  const std::string sentence =
      Cat(what, " differs from the server's",
          different_keys.empty() ? "" : " in " + Join(different_keys, ", "));
  if (for_log != nullptr) *for_log = Cat(sentence, ": ", values);
  if (what == "the model") return Status(Code::kMismatch, sentence + kSameProgram);
  return Status(Code::kMismatch, sentence + kSameFile);
}

// Two runs of one job that have the same addresses would give each other their workers.
Status CheckLaunch(const pb::Hello& hello, const pb::Hello& expected) {
  const bool fits =
      hello.launch() == 0 || expected.launch() == 0 || hello.launch() == expected.launch();
  if (fits) return Ok();
  const bool is_shard = hello.role() == pb::Hello::shard;
  return Status(Code::kNotAllowed,
                Cat(is_shard ? "server shard " : "worker ", hello.rank(),
                    " belongs to another run than the server at this address; give that run's "
                    "servers other addresses (--free_ports), or wait for the end of this one"));
}

}  // namespace

Status CheckHello(const pb::Hello& hello, const pb::Hello& expected,
                  const std::vector<std::string>& keys, std::string* for_log) {
  TERN_RETURN_IF_ERROR(CheckLaunch(hello, expected));
  TERN_RETURN_IF_ERROR(CheckDigests(hello, expected, keys, for_log));
  if (hello.incarnation() == 0)
    return Status(Code::kMismatch, "the peer's hello names no incarnation of its process");
  for (const uint64_t count :
       {hello.epoch(), hello.applied(), hello.floor(), hello.steps(), hello.newest_held()}) {
    if (count > kMaxCount) {
      return Status(Code::kMismatch, Cat("the peer's hello has a count of ", count,
                                         ", expected at most ", kMaxCount));
    }
  }
  return Ok();
}

Status CheckWorkersHello(const pb::Hello& hello, const pb::Hello& expected,
                         const std::vector<std::string>& keys) {
  if (hello.role() == pb::Hello::worker) return CheckHello(hello, expected, keys);
  return Status(Code::kNotAllowed, Cat("server shard ", hello.rank(),
                                       " says hello where only workers do; connect it to shard 0"));
}

std::string DataDifference(const pb::Hello& hello, const pb::Hello& other) {
  const bool fits = hello.data_digest() == 0 || other.data_digest() == 0 ||
                    hello.data_digest() == other.data_digest();
  if (fits) return "";
  const bool texts_differ = hello.data_text() != other.data_text();
  return Cat(
      "worker ", hello.rank(), " has ", hello.data_text(), ", worker ", other.rank(), " has ",
      texts_differ ? other.data_text() : "as many, but with other class names, labels or sizes",
      "; give all workers the same data");
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

Message MakeGoBack(uint64_t incarnation, std::string why) {
  Message message;
  pb::GoBack* go_back = message.head.mutable_go_back();
  go_back->set_incarnation(incarnation);
  go_back->set_sentence(std::move(why));
  return message;
}

Status ObstacleError(const std::string& server, const Status& obstacle, Time waited) {
  const bool is_refusal = obstacle.code() == Code::kNotAllowed;
  return Status(obstacle.code(),
                Cat(server, " ", obstacle.message(),
                    is_refusal ? " (no handshake succeeded in " : " (it was waited for, for ",
                    SecondsText(waited), ")"));
}

std::string ObstacleForLog(const std::string& server, const Status& obstacle) {
  return Cat(server, " ", obstacle.message(), "; trying again");
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

void EmitNormalLog(std::string text, ControlActions* out) {
  EmitLog(std::move(text), out);
  out->back().is_normal = true;
}

void EmitMembers(const pb::Members& members, ControlActions* out) {
  ControlAction& action = out->emplace_back();
  action.type = ControlAction::Type::kMembers;
  action.members = members;
}

void EmitEnded(Status status, uint64_t last_step, ControlActions* out) {
  ControlAction& action = out->emplace_back();
  action.type = ControlAction::Type::kEnded;
  action.status = std::move(status);
  action.last_step = last_step;
}

std::string SecondsText(Time time) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace tern::protocol
