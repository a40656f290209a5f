// Training steps of one network on this machine's cores: forward, backward, momentum. Prints the
// seconds of each step as a JSON list.
//
//   net_steps MODEL BATCH THREADS STEPS fp32|bf16
#include <omp.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "kernels/optimizer.h"
#include "models/models.h"
#include "models/shapes.h"
#include "tests/engine/problem.h"
#include "worker/engine/net.h"

namespace tern::engine {
namespace {

int Run(const std::string& name, uint32_t batch, int threads, int steps, bool bf16) {
  omp_set_num_threads(threads);
  pb::Model model;
  model.set_name(name);
  const models::PublishedImage image = models::PublishedFor(name);
  const auto def =
      models::BuildNet(model, Image(image.channels, image.side, image.side), image.classes);
  if (!def.ok()) {
    std::fprintf(stderr, "net_steps: %s\n", def.status().message().c_str());
    return 1;
  }
  Problem problem(*def, batch);
  auto net = problem.Make(/*training=*/true, bf16 ? Precision::kBf16 : Precision::kFp32);
  std::vector<float> velocity(problem.table.total);
  std::printf("[");
  for (int step = -1; step < steps; ++step) {
    const Time begin = Now();
    net->Forward({problem.images, problem.labels, batch, static_cast<uint64_t>(step + 1)}, nullptr);
    net->Backward(nullptr);
    kernels::MomentumUpdate(problem.parameters.data(), velocity.data(), problem.gradients.data(),
                            problem.table.total, 1e-3f, 0.9f, 0);
    if (step >= 0) std::printf("%s%.6g", step == 0 ? "" : ", ", Seconds(Now() - begin));
  }
  std::printf("]\n");
  return 0;
}

}  // namespace
}  // namespace tern::engine

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "net_steps MODEL BATCH THREADS STEPS fp32|bf16\n");
    return 64;
  }
  return tern::engine::Run(argv[1], static_cast<uint32_t>(std::atoi(argv[2])), std::atoi(argv[3]),
                           std::atoi(argv[4]), std::string(argv[5]) == "bf16");
}
