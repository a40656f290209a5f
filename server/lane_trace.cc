#include "server/lane_trace.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/protocol/rounds/forms.h"

namespace tern::server {

namespace {

// A CellSum that forwards all calls to another CellSum, and records Close().
class TracedSum : public protocol::CellSum {
 public:
  TracedSum(std::unique_ptr<protocol::CellSum> sum, const TraceArgs& args)
      : sum_(std::move(sum)), args_(args) {}

  Status Add(uint32_t rank, const Bytes& payload) override { return sum_->Add(rank, payload); }
  Status AddPartial(const std::vector<uint32_t>& ranks, const Bytes& payload) override {
    return sum_->AddPartial(ranks, payload);
  }
  Bytes Close() override {
    const TraceSpan span("close of round", args_);
    return sum_->Close();
  }

 private:
  std::unique_ptr<protocol::CellSum> sum_;
  const TraceArgs args_;
};

}  // namespace

LaneTrace::LaneTrace(uint32_t workers)
    : max_exchanges_(TraceSteps() == 0 ? 0 : TraceSteps() + kTraceWarmUpSteps),
      exchanges_by_rank_(workers) {}

void LaneTrace::OnReceived(Time begin, const pb::Envelope& head) {
  if (max_exchanges_ == 0) return;
  const bool records = Records(head);
  PauseTraceOfThread(!records);
  if (records) RecordSpan("receive", begin, args_);
}

bool LaneTrace::Records(const pb::Envelope& head) {
  protocol::Kind kind;
  const pb::Contribution* const c = protocol::AsContribution(head, &kind);
  if (c == nullptr || kind == protocol::Kind::kFigures || c->rank() >= exchanges_by_rank_.size())
    return false;
  const uint64_t exchange = protocol::ExchangeOf(*c);  // 0 for a pull
  Exchanges& exchanges = exchanges_by_rank_[c->rank()];
  if (exchanges.first == 0) exchanges.first = exchange;
  exchanges.newest = std::max(exchanges.newest, exchange);
  args_ = {.round = exchange,
           .bucket = static_cast<int32_t>(c->bucket()),
           .chunk = static_cast<int32_t>(c->chunk()),
           .rank = static_cast<int32_t>(c->rank())};
  return exchanges.newest - exchanges.first < max_exchanges_;
}

void TraceCloses(std::vector<protocol::CellSpec>* cells) {
  if (TraceSteps() == 0) return;
  for (protocol::CellSpec& spec : *cells) {
    spec.open = [cell = spec.cell, open = std::move(spec.open)](uint64_t round) {
      return std::make_unique<TracedSum>(open(round),
                                         TraceArgs{.round = round,
                                                   .bucket = static_cast<int32_t>(cell.bucket),
                                                   .chunk = static_cast<int32_t>(cell.chunk)});
    };
  }
}

}  // namespace tern::server
