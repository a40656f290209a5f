// Computes loss and accuracy on the test set, or on a part of it, with a net that is planned for
// evaluation: batch norm uses its running statistics, and dropout is off. The scores of an image
// are the mean of those of the views that the job's evaluation.views names.
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
#include "worker/viewed_net.h"

namespace tern::worker {

class Evaluator {
 public:
  // Evaluates replica.evaluated_weights(): the weights or, if the job averages weights, their
  // moving average. `model`: holds the weights on a GPU; null if they are on the host. All
  // arguments must outlive the Evaluator.
  static Result<std::unique_ptr<Evaluator>> Make(const setup::Setup& setup,
                                                 const data::Samples& test,
                                                 client::Replica& replica,
                                                 client::Progress& progress, engine::Device device,
                                                 device::DeviceModel* model = nullptr);
  // The same for weights in arrays of the caller, which must outlive the Evaluator. If
  // arenas.frozen is null, arenas.parameters has all parameters, frozen ones, too.
  static Result<std::unique_ptr<Evaluator>> Make(const setup::Setup& setup,
                                                 const data::Samples& test,
                                                 const engine::Net::Arenas& arenas,
                                                 client::Progress& progress, engine::Device device);
  // The names of the test set's classes; empty if it has none.
  const std::vector<std::string>& class_names() const {
    return test_samples_.dataset().class_names;
  }
  // Evaluates part number `part` (from 0) of the `num_parts` nearly equal parts of the test set.
  // Returns the sum of the losses and the numbers of correct samples. If `confusion` is not null,
  // overwrites it with a [classes, classes] matrix of counts: row = label, column = predicted
  // class. Damaged images are left out: without samples if all of the part are damaged. kBadData if
  // they are more than the job allows.
  Result<engine::Score> Run(uint32_t part, uint32_t num_parts,
                            client::Confusion* confusion = nullptr);

 private:
  Evaluator(const setup::Setup& setup, const data::Samples& test, client::Progress& progress);

  const data::Samples& test_samples_;
  client::Progress& progress_;
  const uint32_t batch_, threads_, classes_;
  std::unique_ptr<ViewedNet> net_;
};

}  // namespace tern::worker
