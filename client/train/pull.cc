#include "client/train/pull.h"

namespace tern::client {

Status Pull(const Context& context, float* w, bool wants_average) {
  context.sums.DropPullAnswers();
  for (const protocol::Bucket& bucket : context.setup.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      context.port.Contribute({protocol::Kind::kPush, chunk.bucket, chunk.index},
                              protocol::Pull{wants_average});
    }
  }
  TERN_RETURN_IF_ERROR(
      context.wait_until([&context] { return context.sums.HasAnswers(Sums::kPullRound); }));
  return context.sums.InstallWeights(Sums::kPullRound, w);
}

}  // namespace tern::client
