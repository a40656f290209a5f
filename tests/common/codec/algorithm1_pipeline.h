// Algorithm 1 by Tern's own parts, in one process: statistics, codec, accumulators, optimizer,
// schedule, each worker with its own replica. The parts are handed in, so that a test can put a
// broken one in their place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/codec/codec.h"
#include "common/update/optimizer.h"
#include "common/update/schedule.h"
#include "tests/common/codec/algorithm1_problem.h"

namespace tern::codec {

struct Parts {
  Problem problem;
  std::unique_ptr<Codec> codec;
  std::string optimizer = "momentum";
  std::vector<uint32_t> exchanged;  // the tensors that travel
};

// Tern as it is.
Parts SoundParts(const Problem& problem);

// What one worker pushed of one tensor.
struct Pushed {
  float scaler = 0;           // the one it coded with
  std::vector<int8_t> codes;  // read from the bytes
};

class Pipeline {
 public:
  explicit Pipeline(Parts parts);

  // One step of all workers: [worker][tensor]; nothing for a tensor that did not travel.
  std::vector<std::vector<Pushed>> Step(uint64_t step);

  // Of one worker's replica.
  const Tensors<float>& weights(int worker) const { return replicas_[worker].weights; }

 private:
  struct Replica {
    Tensors<float> weights;
    std::unique_ptr<update::Optimizer> optimizer;  // over one arena, tensor after tensor
  };
  // A tensor's gradients with decay, [worker][element].
  Tensors<float> Gradients(uint64_t step, uint32_t tensor) const;
  std::vector<Pushed> Exchange(uint64_t step, uint32_t tensor, Tensors<float>* means);
  // Codes one segment on all workers, adds it up on the server, and decodes it on all workers.
  void ExchangeSegment(uint64_t step, const Segment& segment, const Tensors<float>& gradients,
                       const std::vector<Prepared>& prepared, std::vector<Pushed>* pushed,
                       Tensors<float>* means);

  Parts parts_;
  update::Schedule schedule_;
  std::vector<Replica> replicas_;
};

}  // namespace tern::codec
