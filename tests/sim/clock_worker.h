// A simulated worker of a job without rounds. It goes through these stages ("figures" are the
// worker metrics that all workers exchange; "Parting" tells the servers that the worker pushes no
// more):
//
//   pull of the weights --> push --> ... --> push, told to stop --> Parting --> first figures
//                           ^  |                                                  |
//                           +--+ sometimes a pull          Bye <-- last figures <-- last pull
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tests/sim/toy_worker.h"

namespace tern::sim {

class ClockWorker : public ToyWorker {
 public:
  using ToyWorker::ToyWorker;

 protected:
  void OnReady(uint64_t stop_after) override;
  void OnAnswer(const protocol::Exchange::Delivery& answer) override;
  void MakeStep() override;

 private:
  enum class Stage {
    kIdle,
    kBegin,
    kPush,
    kPull,
    kParting,
    kFirstFigures,
    kLastPull,
    kLastFigures
  };

  // Enters the stage: sends the contribution to every cell (a chunk of the weights on its server)
  // and awaits an answer from each. The payload of a push is made for each cell separately.
  void ContributeToAll(Stage stage, protocol::Contribution contribution);
  // Enters the stage: contributes to exchange number `which` (1 or 2) of figures.
  void ExchangeFigures(Stage stage, uint32_t which);
  void OnAllAnswered();
  void OnPushed();
  void EndTraining();
  // The payload of this worker's push to a cell at a clock.
  uint64_t WordOf(const protocol::Cell& cell, uint64_t clock) const;
  void CheckPush(const protocol::Exchange::Delivery& answer);
  void CheckBound(const protocol::Exchange::Delivery& answer);
  void CheckStop(const protocol::Exchange::Delivery& answer);
  void StoreWeights(const protocol::Exchange::Delivery& answer);
  void ReportViolation(const protocol::Exchange::Delivery& answer, const std::string& what);

  Stage stage_ = Stage::kIdle;
  uint32_t num_awaited_ = 0;     // number of answers that have not arrived yet
  uint64_t clock_ = 0;           // the number of this worker's newest answered push
  uint64_t newest_counted_ = 0;  // the newest push that a pull has reported as counted
  bool is_told_to_stop_ = false;
  bool has_asked_for_average_ = false;  // the newest message was a pull of the averaged weights
  State weights_{};                     // this worker's copy of the weights, one word per chunk
};

}  // namespace tern::sim
