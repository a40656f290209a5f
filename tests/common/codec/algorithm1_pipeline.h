// Algorithm 1 by Tern's own parts, in one process: statistics, codec, accumulators, optimizer,
// schedule, each worker with its own replica. A test passes the parts in, so that it can replace
// one by a mutant.
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
  std::vector<uint32_t> exchanged;  // the tensors that are exchanged
};

// Tern's own parts.
Parts SoundParts(const Problem& problem);

// One worker's push of one tensor.
struct Pushed {
  float scaler = 0;           // the scaler used for the codes
  std::vector<int8_t> codes;  // decoded from the bytes
};

class Pipeline {
 public:
  explicit Pipeline(Parts parts);

  // One step of all workers: [worker][tensor]; empty for a tensor that was not exchanged.
  std::vector<std::vector<Pushed>> Step(uint64_t step);

  // The weights of one worker's replica.
  const Tensors<float>& weights(int worker) const { return replicas_[worker].weights; }

 private:
  struct Replica {
    Tensors<float> weights;
    std::unique_ptr<update::Optimizer> optimizer;  // over one arena of all tensors
  };
  // A tensor's gradients with decay, [worker][element].
  Tensors<float> Gradients(uint64_t step, uint32_t tensor) const;
  std::vector<Pushed> Exchange(uint64_t step, uint32_t tensor, Tensors<float>* means);
  // Encodes one segment on all workers, adds it up on the server, and decodes it on all workers.
  void ExchangeSegment(uint64_t step, const Segment& segment, const Tensors<float>& gradients,
                       const std::vector<Prepared>& prepared, std::vector<Pushed>* pushed,
                       Tensors<float>* means);

  Parts parts_;
  update::Schedule schedule_;
  std::vector<Replica> replicas_;
};

}  // namespace tern::codec
