#include "client/train/pull.h"

namespace tern::client {

Status Pull(const Context& c, float* w, bool average) {
  c.sums.DropPulled();
  for (const protocol::Bucket& bucket : c.setup.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      c.port.Contribute({protocol::Kind::kPush, chunk.bucket, chunk.index},
                        protocol::Pull{average});
    }
  }
  TERN_RETURN_IF_ERROR(c.wait([&c] { return c.sums.Has(Sums::kPulled); }));
  return c.sums.Install(Sums::kPulled, w);
}

}  // namespace tern::client
