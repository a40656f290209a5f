#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/attacks/attacks.h"
#include "common/net/frame.h"
#include "tests/common/net/zmtp_bytes.h"

namespace tern::attacks {
namespace {

using net::ZmtpFrame;

constexpr uint32_t kRanks = 2;           // the ranks in whose names messages are forged: 0 and 1
constexpr uint64_t kIncarnation = 4711;  // of nobody

// Sends `bytes` again and again, on one connection to each port. Replaces a connection that is
// closed.
void SendOverAndOver(const Aim& aim, const std::string& bytes) {
  std::vector<std::unique_ptr<Client>> clients(aim.ports.size());
  for (uint64_t made = 0; !aim.IsOver();) {
    for (size_t i = 0; i < clients.size(); ++i) {
      if (clients[i] == nullptr || !clients[i]->is_open()) {
        clients[i] = std::make_unique<Client>(aim, aim.ports[i]);
        clients[i]->ShakeHands("stranger" + std::to_string(++made));
      }
      clients[i]->Send(bytes);
    }
  }
}

std::string MessageBytes(const pb::Envelope& envelope, const std::string& payload = "") {
  const std::span<const uint8_t> payload_bytes(reinterpret_cast<const uint8_t*>(payload.data()),
                                               payload.size());
  const Result<std::string> header = net::EncodeHeader(envelope, payload_bytes);
  if (!header.ok()) return "";
  if (payload.empty()) return ZmtpFrame(*header, false);
  return ZmtpFrame(*header, true) + ZmtpFrame(payload, false);
}

// As many copies as fill 64 KB.
std::string Many(const std::string& bytes) {
  std::string many = bytes;
  while (many.size() + bytes.size() < 64'000) many += bytes;
  return many;
}

// The aim's hello with the name of the job and of the host replaced.
std::string HelloBytes(const Aim& aim, const std::string& job, const std::string& host) {
  pb::Envelope envelope;
  *envelope.mutable_hello() = aim.hello;
  envelope.mutable_hello()->set_job(job);
  envelope.mutable_hello()->set_host(host);
  return MessageBytes(envelope);
}

}  // namespace

void SayByeForNobody(const Aim& aim) {
  std::string byes;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    pb::Envelope envelope;
    envelope.mutable_bye()->set_rank(rank);
    envelope.mutable_bye()->set_incarnation(0);
    envelope.mutable_bye()->set_code(0);
    byes += MessageBytes(envelope);
  }
  SendOverAndOver(aim, Many(byes));
}

void SayLongHellos(const Aim& aim) {
  SendOverAndOver(aim, HelloBytes(aim, std::string(60'000, 'j'), "stranger"));
}

void SayShortHellos(const Aim& aim) {
  SendOverAndOver(aim, Many(HelloBytes(aim, "another job", std::string(50, 'h'))));
}

void SayControlCharacters(const Aim& aim) {
  const std::string characters("\n\x1b[2J\x1b]0;title\x07\r\0\x9b\x7f step 30/30 done\n", 38);
  SendOverAndOver(aim, Many(HelloBytes(aim, characters, characters)));
}

void SendOtherFrames(const Aim& aim) {
  SendOverAndOver(aim, Many(ZmtpFrame("GET / HTTP/1.1", false)));
}

void SendEndlessMessage(const Aim& aim) {
  SendOverAndOver(aim, ZmtpFrame(std::string(60'000, 'x'), true));
}

void ForgeHellos(const Aim& aim) {
  std::string hellos;
  const auto add = [&](uint32_t rank, auto change) {
    pb::Envelope envelope;
    pb::Hello* hello = envelope.mutable_hello();
    *hello = aim.hello;
    hello->set_rank(rank);
    hello->set_incarnation(kIncarnation);
    change(hello);
    hellos += MessageBytes(envelope);
  };
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    add(rank, [](pb::Hello* hello) {
      hello->set_fresh(true);
      hello->set_steps(5);
    });
    add(rank, [](pb::Hello* hello) { hello->set_epoch(UINT64_MAX); });
    add(rank, [](pb::Hello* hello) {
      hello->set_applied(1'000'000'000);
      hello->set_keeps_own(true);
    });
    add(rank, [](pb::Hello* hello) { hello->set_role(pb::Hello::shard); });
    add(rank, [](pb::Hello* hello) { hello->set_lane(1); });
  }
  SendOverAndOver(aim, Many(hellos));
}

void ForgeMembers(const Aim& aim) {
  pb::Envelope envelope;
  envelope.mutable_pulse()->set_stop(143);
  std::string messages = MessageBytes(envelope);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    envelope.mutable_heartbeat()->set_rank(rank);
    envelope.mutable_heartbeat()->set_incarnation(kIncarnation);
    envelope.mutable_heartbeat()->set_applied(1'000'000'000);
    messages += MessageBytes(envelope);
    envelope.mutable_bye()->set_rank(rank);
    envelope.mutable_bye()->set_incarnation(kIncarnation);
    messages += MessageBytes(envelope);
  }
  SendOverAndOver(aim, Many(messages));
}

void ForgeContributions(const Aim& aim) {
  const float scaler = 1e38F;
  std::string scalers(16 * sizeof scaler, '\0');
  for (size_t i = 0; i < scalers.size(); i += sizeof scaler)
    std::memcpy(&scalers[i], &scaler, sizeof scaler);
  std::string messages;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    for (const uint64_t round : {uint64_t{1}, uint64_t{1000}, UINT64_MAX}) {
      for (auto kind : {&pb::Envelope::mutable_scale, &pb::Envelope::mutable_push}) {
        pb::Envelope envelope;
        pb::Contribution* contribution = (envelope.*kind)();
        contribution->set_rank(rank);
        contribution->set_incarnation(kIncarnation);
        contribution->mutable_in_round()->set_round(round);
        contribution->mutable_in_round()->set_applied(round - 1);
        contribution->mutable_in_round()->set_digest(1);
        messages += MessageBytes(envelope, scalers);
      }
    }
  }
  SendOverAndOver(aim, Many(messages));
}

}  // namespace tern::attacks
