// A data lane's share of the parameters of a toy job with rounds, where servers hold them: a cell's
// word, the one before it, and their checkpoints, which outlive the process. Payloads:
//
//   push     word
//   answer   sum, word now, the beginning that it is of
//   pulled   word before, word now, the beginning
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/round_lane.h"
#include "tests/sim/toy.h"

namespace tern::sim {

struct CentralWord {
  uint64_t before = 0, now = 0, round = 0;
};
// By lane, run and round.
using CentralWords = std::map<protocol::Cell, CentralWord>;
using CentralDisk =
    std::map<protocol::LaneRef, std::map<uint64_t, std::map<uint64_t, CentralWords>>>;

class ToyCentralLane {
 public:
  // All outlive it.
  ToyCentralLane(protocol::LaneRef name, const Schedule& schedule, const Layout& layout,
                 const Report* report, CentralDisk* disk);

  std::vector<protocol::CellSpec> Cells();
  // What comes before the lane follows a membership. Whether it went back, to members.begin().
  bool Begin(const pb::Members& members);

 private:
  Bytes Close(const protocol::Cell& cell, const Bytes& sum);
  protocol::CellSpec::Pulled Pull(const protocol::Cell& cell) const;
  void SaveIfDue(const protocol::Cell& cell);
  void Load(uint64_t round);
  std::map<uint64_t, CentralWords>& saved() { return disk_[name_][run_]; }

  protocol::LaneRef name_;
  const Schedule& schedule_;
  const Layout& layout_;
  const Report* report_;
  CentralDisk& disk_;
  std::map<protocol::Cell, CentralWord> words_;
  std::map<uint64_t, CentralWords> copies_;  // of some cells, by round
  uint64_t run_ = 0, beginning_ = 0;
};

// What all lanes of a shard have.
protocol::Saved SavedOf(const CentralDisk& disk, const Layout& layout, const Schedule& schedule,
                        uint32_t shard);

}  // namespace tern::sim
