// A worker of a toy job without rounds:
//
//   begin (pull) --> push --> ... --> push, told to stop --> parted --> all done (figures)
//                     ^ |  now and then                                      |
//                     +-+  a pull                   Bye <-- last figures <-- pull
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
  void Step() override;

 private:
  enum class Stage { kIdle, kBegin, kPush, kPull, kPart, kAllDone, kSettle, kLast };

  // Contributes to every cell, and awaits as many answers. A push gets each cell's own payload.
  void Ask(Stage stage, protocol::Contribution contribution);
  void AskFigures(Stage stage, uint32_t which);
  void OnAllAnswered();
  void OnPushed();
  void End();
  uint64_t WordOf(const protocol::Cell& cell, uint64_t clock) const;
  void CheckPush(const protocol::Exchange::Delivery& answer);
  void CheckBound(const protocol::Exchange::Delivery& answer);
  void CheckStop(const protocol::Exchange::Delivery& answer);
  void TakeWeights(const protocol::Exchange::Delivery& answer);
  void Violation(const protocol::Exchange::Delivery& answer, const std::string& what);

  Stage stage_ = Stage::kIdle;
  uint32_t awaited_ = 0;
  uint64_t clock_ = 0, counted_ = 0;
  bool told_to_stop_ = false;
  bool average_ = false;
  State held_{};  // weights, by cell
};

}  // namespace tern::sim
