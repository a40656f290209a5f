#include "common/net/traffic.h"

namespace tern::net {
namespace {

constexpr const char* kMessages = "tern_net_messages_total";
constexpr const char* kMessagesHelp = "Messages sent and received, by type.";
constexpr const char* kBytes = "tern_net_bytes_total";
constexpr const char* kBytesHelp = "Bytes sent and received, frame headers included, by type.";
constexpr const char* kRefused = "tern_net_refused_total";
constexpr const char* kRefusedHelp = "Messages received and refused, by what was wrong with them.";
constexpr std::array kDirections = {Direction::kOut, Direction::kIn};

const char* Name(Direction direction) { return direction == Direction::kIn ? "in" : "out"; }

size_t Index(Direction direction) { return direction == Direction::kIn ? 0 : 1; }

}  // namespace

Traffic::Traffic(Registry& registry) {
  const auto add = [&](int number, const std::string& type) {
    Cell& cell = cells_[number];
    cell.type = type;
    for (const Direction d : kDirections) {
      const Labels labels = {{"direction", Name(d)}, {"type", type}};
      cell.messages[Index(d)] = &registry.GetCounter(kMessages, kMessagesHelp, labels);
      cell.bytes[Index(d)] = &registry.GetCounter(kBytes, kBytesHelp, labels);
    }
  };
  const auto* body = pb::Envelope::descriptor()->oneof_decl(0);
  for (int i = 0; i < body->field_count(); ++i)
    add(body->field(i)->number(), body->field(i)->name());
  for (int i = 0; i < kFaults; ++i) {
    refused_[i] =
        &registry.GetCounter(kRefused, kRefusedHelp, {{"fault", FaultName(static_cast<Fault>(i))}});
  }
  refused_bytes_ =
      &registry.GetCounter(kBytes, kBytesHelp, {{"direction", "in"}, {"type", "refused"}});
}

void Traffic::Count(Direction direction, int body_case, uint64_t wire_bytes) {
  const auto cell = cells_.find(body_case);
  if (cell == cells_.end()) return;
  cell->second.messages[Index(direction)]->Add();
  cell->second.bytes[Index(direction)]->Add(wire_bytes);
}

void Traffic::CountRefused(Fault fault, uint64_t wire_bytes) {
  refused_[static_cast<size_t>(fault)]->Add();
  refused_bytes_->Add(wire_bytes);
}

std::vector<Traffic::Row> Traffic::Snapshot() const {
  std::vector<Row> rows;
  for (const auto& [number, cell] : cells_) {
    for (const Direction d : kDirections) {
      const Row row{cell.type, d, Messages(d, number), Bytes(d, number)};
      if (row.messages > 0) rows.push_back(row);
    }
  }
  const Row refused{"refused", Direction::kIn, Refused(), refused_bytes_->value()};
  if (refused.messages > 0) rows.push_back(refused);
  return rows;
}

uint64_t Traffic::Bytes(Direction direction) const {
  uint64_t bytes = direction == Direction::kIn ? refused_bytes_->value() : 0;
  for (const auto& [number, cell] : cells_) bytes += cell.bytes[Index(direction)]->value();
  return bytes;
}

uint64_t Traffic::Bytes(Direction direction, int body_case) const {
  const auto cell = cells_.find(body_case);
  return cell == cells_.end() ? 0 : cell->second.bytes[Index(direction)]->value();
}

uint64_t Traffic::Messages(Direction direction, int body_case) const {
  const auto cell = cells_.find(body_case);
  return cell == cells_.end() ? 0 : cell->second.messages[Index(direction)]->value();
}

uint64_t Traffic::Refused() const {
  uint64_t refused = 0;
  for (const Counter* counter : refused_) refused += counter->value();
  return refused;
}

}  // namespace tern::net
