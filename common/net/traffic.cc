#include "common/net/traffic.h"

namespace tern::net {
namespace {

constexpr const char* kMessagesMetric = "tern_net_messages_total";
constexpr const char* kMessagesHelp = "Messages sent and received, by type.";
constexpr const char* kBytesMetric = "tern_net_bytes_total";
constexpr const char* kBytesHelp = "Bytes sent and received, frame headers included, by type.";
constexpr const char* kRefusedMetric = "tern_net_refused_total";
constexpr const char* kRefusedHelp = "Messages received and refused, by fault.";
constexpr std::array kDirections = {Direction::kOut, Direction::kIn};

const char* Name(Direction direction) { return direction == Direction::kIn ? "in" : "out"; }

size_t Index(Direction direction) { return direction == Direction::kIn ? 0 : 1; }

}  // namespace

Traffic::Traffic(Registry& registry) {
  const auto add_type = [&](int number, const std::string& type) {
    TypeCounters& counters = counters_by_type_[number];
    counters.type = type;
    for (const Direction d : kDirections) {
      const Labels labels = {{"direction", Name(d)}, {"type", type}};
      counters.messages[Index(d)] = &registry.GetCounter(kMessagesMetric, kMessagesHelp, labels);
      counters.bytes[Index(d)] = &registry.GetCounter(kBytesMetric, kBytesHelp, labels);
    }
  };
  const auto* body = pb::Envelope::descriptor()->oneof_decl(0);
  for (int i = 0; i < body->field_count(); ++i)
    add_type(body->field(i)->number(), body->field(i)->name());
  for (int i = 0; i < kNumFaults; ++i) {
    refused_by_fault_[i] = &registry.GetCounter(kRefusedMetric, kRefusedHelp,
                                                {{"fault", FaultName(static_cast<Fault>(i))}});
  }
  for (const char* metric : {kMessagesMetric, kBytesMetric}) registry.HideZeros(metric);
  refused_bytes_ =
      &registry.GetCounter(kBytesMetric, kBytesHelp, {{"direction", "in"}, {"type", "refused"}});
}

void Traffic::Count(Direction direction, int body_case, uint64_t wire_bytes) {
  const auto found_counters = counters_by_type_.find(body_case);
  if (found_counters == counters_by_type_.end()) return;
  found_counters->second.messages[Index(direction)]->Add();
  found_counters->second.bytes[Index(direction)]->Add(wire_bytes);
}

void Traffic::CountRefused(Fault fault, uint64_t wire_bytes) {
  refused_by_fault_[static_cast<size_t>(fault)]->Add();
  refused_bytes_->Add(wire_bytes);
}

std::vector<Traffic::TypeTraffic> Traffic::Snapshot() const {
  std::vector<TypeTraffic> entries;
  for (const auto& [number, counters] : counters_by_type_) {
    for (const Direction d : kDirections) {
      const TypeTraffic entry{counters.type, d, NumMessages(d, number), Bytes(d, number)};
      if (entry.num_messages > 0) entries.push_back(entry);
    }
  }
  const TypeTraffic refused{"refused", Direction::kIn, NumRefusedMessages(),
                            refused_bytes_->value()};
  if (refused.num_messages > 0) entries.push_back(refused);
  return entries;
}

uint64_t Traffic::Bytes(Direction direction) const {
  uint64_t num_bytes = direction == Direction::kIn ? refused_bytes_->value() : 0;
  for (const auto& [number, counters] : counters_by_type_)
    num_bytes += counters.bytes[Index(direction)]->value();
  return num_bytes;
}

uint64_t Traffic::Bytes(Direction direction, int body_case) const {
  const auto found_counters = counters_by_type_.find(body_case);
  return found_counters == counters_by_type_.end()
             ? 0
             : found_counters->second.bytes[Index(direction)]->value();
}

uint64_t Traffic::NumMessages(Direction direction, int body_case) const {
  const auto found_counters = counters_by_type_.find(body_case);
  return found_counters == counters_by_type_.end()
             ? 0
             : found_counters->second.messages[Index(direction)]->value();
}

uint64_t Traffic::NumRefusedMessages() const {
  uint64_t num_refused = 0;
  for (const Counter* counter : refused_by_fault_) num_refused += counter->value();
  return num_refused;
}

}  // namespace tern::net
