#include "server/door.h"

#include "common/base/logging.h"
#include "common/base/text.h"

namespace tern::server {
namespace {

using net::Principal;

std::string Sentence(const Principal& sender, const Principal& claimed) {
  return Cat("the key of ", ToString(sender), " was used to speak for ", ToString(claimed),
             "; give the daemon its own key, or the rank of its key");
}

}  // namespace

std::optional<Principal> SpeaksFor(const pb::Envelope& message) {
  if (message.has_hello()) {
    const bool is_shard = message.hello().role() == pb::Hello::shard;
    return Principal{is_shard ? Principal::Role::kShard : Principal::Role::kWorker,
                     message.hello().rank()};
  }
  const auto* const reflection = message.GetReflection();
  const auto* const body =
      reflection->GetOneofFieldDescriptor(message, message.GetDescriptor()->oneof_decl(0));
  if (body == nullptr || body->name() == "state_piece") return std::nullopt;
  const auto* const rank = body->message_type()->FindFieldByName("rank");
  if (rank == nullptr) return std::nullopt;
  const auto& sent = reflection->GetMessage(message, body);
  return Principal{Principal::Role::kWorker, sent.GetReflection()->GetUInt32(sent, rank)};
}

Door::Door(Registry& registry, uint32_t lane)
    : num_refused_(registry.GetCounter("tern_server_refused_total", "Contributions refused",
                                       {{"lane", std::to_string(lane)}, {"reason", "not_yours"}})) {
}

bool Door::LetsIn(const net::ReceivedMessage& received) {
  if (!received.principal.has_value()) return true;
  const std::optional<Principal> claimed = SpeaksFor(received.envelope);
  if (!claimed.has_value() || *claimed == *received.principal) return true;
  num_refused_.Add();
  if (log_limiter_.Allow(Now())) {
    LOG(WARNING) << "refused a message" << log_limiter_.TakeAndMore() << ": "
                 << Sentence(*received.principal, *claimed);
  }
  return false;
}

std::optional<protocol::Message> Door::AnswerTo(const net::ReceivedMessage& received) {
  const std::optional<Principal> claimed = SpeaksFor(received.envelope);
  if (!received.envelope.has_hello() || !received.principal.has_value()) return std::nullopt;
  return protocol::MakeRefusal(Code::kNotAllowed, Sentence(*received.principal, *claimed),
                               pb::Refuse::leave);
}

}  // namespace tern::server
