#include "common/protocol/members/shard0/add_counters.h"

#include <algorithm>

namespace tern::protocol {

namespace {

// The most types of messages, and bins of staleness, that a sum has. Daemons report fewer.
constexpr int kMaxItems = 64;

void AddTraffic(const pb::Traffic& more, pb::Counters* sum) {
  auto* const rows = sum->mutable_traffic();
  auto row = std::find_if(rows->begin(), rows->end(),
                          [&](const pb::Traffic& of_sum) { return of_sum.type() == more.type(); });
  if (row == rows->end()) {
    if (rows->size() < kMaxItems) *rows->Add() = more;
    return;
  }
  row->set_messages_in(row->messages_in() + more.messages_in());
  row->set_bytes_in(row->bytes_in() + more.bytes_in());
  row->set_messages_out(row->messages_out() + more.messages_out());
  row->set_bytes_out(row->bytes_out() + more.bytes_out());
}

void AddTimes(const pb::Counters& more, pb::Counters* sum) {
  sum->set_compute_s(sum->compute_s() + more.compute_s());
  sum->set_encode_s(sum->encode_s() + more.encode_s());
  sum->set_decode_s(sum->decode_s() + more.decode_s());
  sum->set_wait_s(sum->wait_s() + more.wait_s());
  sum->set_train_s(sum->train_s() + more.train_s());
  sum->set_data_s(sum->data_s() + more.data_s());
  sum->set_checkpoint_s(sum->checkpoint_s() + more.checkpoint_s());
  sum->set_exchange_s(sum->exchange_s() + more.exchange_s());
  sum->set_exchange_busy_s(sum->exchange_busy_s() + more.exchange_busy_s());
  sum->set_control_round_trip_s(sum->control_round_trip_s() + more.control_round_trip_s());
  sum->set_control_round_trip_max_s(
      std::max(sum->control_round_trip_max_s(), more.control_round_trip_max_s()));
}

}  // namespace

void AddCounters(const pb::Counters& more, pb::Counters* sum) {
  for (const pb::Traffic& row : more.traffic()) AddTraffic(row, sum);
  for (int i = 0; i < std::min(more.staleness_size(), kMaxItems); ++i) {
    if (i == sum->staleness_size()) sum->add_staleness(0);
    sum->set_staleness(i, sum->staleness(i) + more.staleness(i));
  }
  AddTimes(more, sum);
  sum->set_rounds(sum->rounds() + more.rounds());
  sum->set_samples(sum->samples() + more.samples());
  sum->set_refusals(sum->refusals() + more.refusals());
  sum->set_steps(sum->steps() + more.steps());
  sum->set_late(sum->late() + more.late());
  sum->set_exchanges(sum->exchanges() + more.exchanges());
  sum->set_dropped(sum->dropped() + more.dropped());
  sum->set_control_round_trips(sum->control_round_trips() + more.control_round_trips());
  sum->set_clamped(sum->clamped() + more.clamped());
  sum->set_failed_checkpoints(sum->failed_checkpoints() + more.failed_checkpoints());
}

}  // namespace tern::protocol
