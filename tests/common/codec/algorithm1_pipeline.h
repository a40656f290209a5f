// TernGrad's Algorithm 1, carried out by Tern's production code in one process: statistics, codec,
// accumulators, optimizer and learning-rate schedule. Each worker has its own replica of the
// weights. A test passes the components in, so that it can replace one of them by a faulty one.
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

// What a pipeline is made of.
struct Components {
  Problem problem;
  std::unique_ptr<Codec> codec;
  std::string optimizer = "momentum";
  std::vector<uint32_t> exchanged_tensors;  // indices into problem.sizes
};

// Tern's own components, without a fault.
Components CorrectComponents(const Problem& problem);

// One worker's push of one tensor.
struct PushedTensor {
  float scaler = 0;           // the number by which a receiver multiplies the codes
  std::vector<int8_t> codes;  // -1, 0 or 1 per element, read from the payload's bytes
};

class Pipeline {
 public:
  explicit Pipeline(Components components);

  // Trains all workers for one step. Returns what they pushed, as [worker][tensor]; the codes of a
  // tensor that was not exchanged are empty.
  std::vector<std::vector<PushedTensor>> TrainOneStep(uint64_t step);

  // The weights of one worker's replica.
  const Tensors<float>& weights(int worker) const { return replicas_[worker].weights; }

 private:
  struct Replica {
    Tensors<float> weights;
    std::unique_ptr<update::Optimizer>
        optimizer;  // one optimizer for all tensors, laid out one after another
  };
  // The workers' gradients of one tensor, including weight decay, as [worker][element].
  Tensors<float> ComputeGradients(uint64_t step, uint32_t tensor) const;
  // Exchanges one tensor: returns each worker's push, and sets the mean that each worker decodes.
  std::vector<PushedTensor> ExchangeTensor(uint64_t step, uint32_t tensor, Tensors<float>* means);
  // Encodes one segment (part of a tensor) on all workers, adds the codes up on the server, and
  // decodes the sum on all workers.
  void ExchangeSegment(uint64_t step, const Segment& segment, const Tensors<float>& gradients,
                       const std::vector<EncodeParams>& encode_params,
                       std::vector<PushedTensor>* pushed, Tensors<float>* means);

  Components components_;
  update::Schedule schedule_;
  std::vector<Replica> replicas_;
};

}  // namespace tern::codec
