#include "client/exchange/wire_trace.h"

#include "common/protocol/rounds/forms.h"

namespace tern::client {

void WireTrace::OnSend(const pb::Envelope& head) {
  const Time begin = TraceBegin();
  if (begin == Time{}) return;
  protocol::Kind kind;
  const pb::Contribution* const c = protocol::AsContribution(head, &kind);
  if (c == nullptr || kind == protocol::Kind::kFigures) return;
  const protocol::Cell cell{kind, c->bucket(), c->chunk()};
  sent_at_.try_emplace({cell, protocol::ExchangeOf(*c)}, begin);
}

void WireTrace::OnAnswer(const protocol::Exchange::Delivery& answer) {
  if (sent_at_.empty()) return;
  const uint64_t exchange = protocol::ExchangeOf(answer.outcome);
  const auto found = sent_at_.find({answer.cell, exchange});
  if (found == sent_at_.end()) return;
  const char* const name = answer.cell.kind == protocol::Kind::kScale ? "wire, scalers"
                           : exchange == 0                            ? "wire, pull"
                                                                      : "wire";
  RecordFlight(name, found->second,
               {.round = exchange,
                .bucket = static_cast<int32_t>(answer.cell.bucket),
                .chunk = static_cast<int32_t>(answer.cell.chunk)});
  sent_at_.erase(found);
}

}  // namespace tern::client
