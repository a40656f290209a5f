// Evaluates a part of the test set with the net in its evaluation form.
#pragma once

#include <memory>
#include <vector>

#include "client/exchange/progress.h"
#include "client/train/confusion.h"
#include "client/train/replica.h"
#include "common/base/status.h"
#include "setup/setup.h"
#include "worker/data/batches.h"
#include "worker/data/samples.h"
#include "worker/engine/net.h"

namespace tern::worker {

class Evaluate {
 public:
  // All arguments outlive it.
  static Result<std::unique_ptr<Evaluate>> Make(const setup::Setup& setup,
                                                const data::Samples& test, client::Replica& replica,
                                                client::Progress& progress, engine::Device device,
                                                device::DeviceModel* model = nullptr);
  // The same for weights and statistics in the caller's arenas, which outlive it.
  static Result<std::unique_ptr<Evaluate>> Make(const setup::Setup& setup,
                                                const data::Samples& test, const float* parameters,
                                                float* statistics, client::Progress& progress,
                                                engine::Device device,
                                                device::DeviceModel* model = nullptr);
  // Sums loss and scores over part `part` of `parts` equal parts of the set; part < parts. If not
  // null, *confusion gets the counts. kBadData: too many damaged images (Samples::Fill).
  Result<engine::Score> Run(uint32_t part, uint32_t parts, client::Confusion* confusion = nullptr);

 private:
  Evaluate(const setup::Setup& setup, const data::Samples& test, client::Progress& progress,
           bool as_bytes);

  const data::Samples& test_;
  client::Progress& progress_;
  const uint32_t batch_, threads_, classes_;
  const bool as_bytes_;  // images are given to the net as bytes
  std::unique_ptr<engine::Net> net_;
};

}  // namespace tern::worker
