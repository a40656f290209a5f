// Measures what the checksum of a message costs its sender or its receiver, who each compute it
// once: the speed of sealing a header (CRC-32C of the envelope and the payload) on one core, for
// payloads of the sizes of chunks. The payloads lie in the core's cache, as they do right after
// coding or receiving.
//   frames_bench --benchmark_filter='262144'
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/net/frame.h"
#include "proto/wire.pb.h"

namespace tern::net {
namespace {

void Seal(benchmark::State& state) {
  const auto payload_bytes = static_cast<size_t>(state.range(0));
  const std::vector<uint8_t> payload(payload_bytes, 0x5a);
  pb::Envelope envelope;
  pb::Contribution* const push = envelope.mutable_push();
  push->set_rank(1);
  push->set_incarnation(UINT64_MAX);
  push->mutable_in_round()->set_round(1000);
  Result<std::string> header = EncodeHeader(envelope, payload);
  for (auto _ : state) {
    SealHeader(&*header, payload);
    benchmark::DoNotOptimize(header->data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(payload_bytes));
}
BENCHMARK(Seal)->Arg(4 << 10)->Arg(64 << 10)->Arg(256 << 10)->Arg(1 << 20);

}  // namespace
}  // namespace tern::net

BENCHMARK_MAIN();
