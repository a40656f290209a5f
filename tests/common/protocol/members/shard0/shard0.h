// The Coordinator (shard 0's protocol machine) of a job with two workers. Tests pass in messages
// and the time, and look at the Coordinator's actions. Worker r has incarnation 10 + r (a number
// that identifies its process) and connection 100 + r; shard 1, if there is one, has connection
// 200.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/protocol/members/shard0/coordinator.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {

// The name of a policy for the loss of a worker, for the names of parameterized tests.
inline std::string NameOf(OnLoss on_loss) {
  constexpr const char* kNames[] = {"Fail", "Wait", "Shrink"};
  return kNames[static_cast<int>(on_loss)];
}

class Shard0 {
 public:
  explicit Shard0(ControlOptions options,
                  std::vector<CellSpec> cells = {LetterCell({Kind::kScale, 0, 0})}) {
    coordinator_ = std::make_unique<Coordinator>(std::move(options), std::move(cells));
    ControlActions out;
    coordinator_->Start(now_, &out);
  }
  explicit Shard0(OnLoss on_loss, uint32_t shards = 1) : Shard0(TestOptions(shards, 2, on_loss)) {}

  ControlActions Deliver(Peer from, const Message& message) {
    ControlActions out;
    coordinator_->OnMessage(from, message, now_, &out);
    return out;
  }
  ControlActions Stop(Code code) {
    ControlActions out;
    coordinator_->OnStop(code, now_, &out);
    return out;
  }
  ControlActions Fail(const Status& status) {
    ControlActions out;
    coordinator_->OnFailure(status, now_, &out);
    return out;
  }
  // A message to `peer` could not be sent, because the connection is closed.
  void FindUnreachable(Peer peer) { coordinator_->OnUnreachable(peer, now_); }
  // The key of `peer` is not allowed any more.
  ControlActions Revoke(Peer peer) {
    ControlActions out;
    coordinator_->OnRevoked(peer, now_, &out);
    return out;
  }
  // Lets time pass in steps of 100 ms. In each step the ranks in `alive` send heartbeats with their
  // current incarnation.
  ControlActions PassTime(Time time, const std::vector<uint32_t>& alive) {
    ControlActions all_actions;
    for (const Time end = now_ + time; now_ < end;) {
      now_ += milliseconds(100);
      for (const uint32_t rank : alive) {
        const Coordinator::Worker& worker = workers()[rank];
        Append(Deliver(worker.peer, HeartbeatMessage(rank, worker.incarnation, worker.applied)),
               &all_actions);
      }
      ControlActions out;
      coordinator_->OnTimer(now_, &out);
      Append(std::move(out), &all_actions);
    }
    return all_actions;
  }
  // Both workers say hello, which starts the job if it has one shard.
  ControlActions GatherWorkers() {
    ControlActions all_actions = Deliver(100, HelloMessage(TestHello(0, 10)));
    Append(Deliver(101, HelloMessage(TestHello(1, 11))), &all_actions);
    return all_actions;
  }
  const Coordinator& coordinator() const { return *coordinator_; }
  const std::vector<Coordinator::Worker>& workers() const { return coordinator_->workers(); }
  // The status with which the job ended; kOk with the text "it goes on" if the job did not end.
  static Status EndStatusOf(const ControlActions& actions) {
    for (const ControlAction& action : actions) {
      if (action.type == ControlAction::Type::kEnded) return action.status;
    }
    return Status(Code::kOk, "it goes on");
  }
  // The Abort message that was sent to `peer`; an empty one if none was.
  static pb::Abort AbortTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, pb::Envelope::kAbort, SendsOf(actions)).head.abort();
  }
  static pb::Refuse RefuseTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, pb::Envelope::kRefuse, SendsOf(actions)).head.refuse();
  }
  static std::string LogOf(const ControlActions& actions) {
    std::string log;
    for (const ControlAction& action : actions) log += action.text + "\n";
    return log;
  }
  static void Append(ControlActions from, ControlActions* to) {
    for (ControlAction& action : from) to->push_back(std::move(action));
  }

 private:
  std::unique_ptr<Coordinator> coordinator_;
  Time now_ = milliseconds(1000);
};

}  // namespace tern::protocol::test
