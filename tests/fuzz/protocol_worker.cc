// Plays a worker's Session, with its Exchange, against servers that may lie.
#include <algorithm>
#include <memory>
#include <utility>

#include "common/protocol/members/session/session.h"
#include "tests/fuzz/protocol_words.h"

namespace tern::fuzz {
namespace {

class Worker {
 public:
  explicit Worker(Input* input) : input_(*input) {
    Session::Options options;
    options.rank = 1;
    options.incarnation = 11;
    options.data_lanes = {1};
    options.servers = {"alpha:1"};
    options.hello = HelloOfJob();
    options.max_state_bytes = 64;
    options.piece_bytes = 4;
    options.timings = FastTimings();
    options.is_elastic = input->Below(2) == 1;
    options.shrink = input->Below(2) == 1;
    options.in_plan = [](const Cell& cell, LaneRef lane) {
      return cell == kPushes && lane == LaneRef{0, 1};
    };
    is_elastic_ = options.is_elastic;
    session_ = std::make_unique<Session>(std::move(options));
    SessionActions out;
    session_->Start(now_, &out);
    Handle(std::move(out));
  }
  void Play() {
    for (int i = 0; i < kMaxEvents && !input_.done() && !has_ended_; ++i) PlayEvent();
  }

 private:
  void PlayEvent() {
    SessionActions out;
    const LaneRef lane{0, input_.Below(2)};
    switch (input_.Below(6)) {
      case 1:
        session_->OnMessage(lane, AnyMessage(&input_), now_, &out);
        return Handle(std::move(out));
      case 2: {
        Message message = Welcome(lane);
        Disturb(&input_, &message);
        session_->OnMessage(lane, message, now_, &out);
        return Handle(std::move(out));
      }
      case 3:
        session_->OnDisconnected(lane, now_, &out);
        return Handle(std::move(out));
      case 4:
        now_ += milliseconds(100) * input_.Byte();
        session_->OnTimer(now_, &out);
        return Handle(std::move(out));
      case 5: {
        Message message = Answer();
        Disturb(&input_, &message);
        session_->OnMessage({0, 1}, message, now_, &out);
        return Handle(std::move(out));
      }
      default:
        return PlayHonestStep();
    }
  }

  void PlayHonestStep() {
    now_ += milliseconds(50);
    for (const uint32_t lane : {0, 1}) {
      SessionActions out;
      session_->OnMessage({0, lane}, Welcome({0, lane}), now_, &out);
      Handle(std::move(out));
    }
    if (is_ready_ && round_ == session_->exchange().applied()) {
      SessionActions out;
      ++round_;
      session_->Contribute(kPushes, {0, 1}, InRound{round_, Bytes::Own("x")}, now_, &out);
      Handle(std::move(out));
    }
    SessionActions out;
    session_->OnMessage({0, 1}, Answer(), now_, &out);
    session_->OnTimer(now_, &out);
    Handle(std::move(out));
    if (!is_ready_ || session_->exchange().applied() < kSteps || has_finished_ || has_ended_)
      return;
    SessionActions last;
    has_finished_ = true;
    session_->Finish(Ok(), {}, {}, kSteps, now_, &last);
    Handle(std::move(last));
  }

  static Message Welcome(LaneRef lane) {
    Message message;
    message.head.mutable_welcome()->set_incarnation(7);
    message.head.mutable_welcome()->set_epoch(1);
    if (lane.lane == 0) message.head.mutable_welcome()->add_data_ports(4000);
    return message;
  }
  Message Answer() const {
    Message message;
    pb::Outcome::OfRound* outcome = message.head.mutable_sum()->mutable_of_round();
    outcome->set_round(round_);
    outcome->set_contributors(2);
    outcome->set_contributor_bits("\x03");
    message.payload = Bytes::Own("xx");
    return message;
  }

  void Handle(SessionActions actions) {
    if (actions.size() > 1000) Fail("too many actions");
    for (SessionAction& action : actions) {
      ExpectPrintable(action.text);
      ExpectSendable(action.message);
      if (has_ended_) return;
      HandleOne(action);
    }
    if (session_->exchange().held().size() > 200) Fail("a worker holds too many outcomes");
  }
  void HandleOne(const SessionAction& action) {
    SessionActions out;
    switch (action.type) {
      case SessionAction::Type::kReady:
        is_ready_ = true;
        round_ = action.applied;
        return;
      case SessionAction::Type::kDeliver:
        if (const uint64_t round = ExchangeOf(action.delivery.outcome);
            is_ready_ && round == session_->exchange().applied() + 1)
          session_->SetApplied(round);
        round_ = std::max(round_, session_->exchange().applied());
        return;
      case SessionAction::Type::kSnapshot:
        session_->OnSnapshot(Bytes::Own("0123456789"), session_->exchange().applied(), &out);
        return Handle(std::move(out));
      case SessionAction::Type::kInstall:
      case SessionAction::Type::kResume:
      case SessionAction::Type::kGoBack:
        is_ready_ = has_finished_ = false;
        session_->OnInstalled(action.applied, now_, &out);
        return Handle(std::move(out));
      case SessionAction::Type::kEnded:
        has_ended_ = true;
        ExpectPrintable(action.status.message());
        if (action.status.ok() && !has_finished_)
          Fail("a worker ended well before it had finished");
        if (ParseErrorCode(static_cast<uint32_t>(ExitCode(action.status))) !=
                action.status.code() &&
            !action.status.ok())
          Fail("a worker ended with a code that Tern does not have");
        return;
      default:
        return;
    }
  }

  Input& input_;
  std::unique_ptr<Session> session_;
  Time now_ = milliseconds(1000);
  uint64_t round_ = 0;
  bool is_elastic_ = false, is_ready_ = false, has_finished_ = false, has_ended_ = false;
};

}  // namespace

void PlayWorker(Input* input) { Worker(input).Play(); }

}  // namespace tern::fuzz
