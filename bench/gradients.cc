#include "bench/gradients.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/atomic_file.h"

namespace tern::bench {

Gradients ReadGradientsOrExit(const char* path, size_t workers) {
  const auto bytes = ReadWholeFile(path, uint64_t{1} << 30);
  if (!bytes.ok() || bytes->empty() || bytes->size() % (workers * sizeof(float)) != 0) {
    std::fprintf(stderr, "%s: expected %zu gradients, each of as many floats\n", path, workers);
    std::exit(65);
  }
  const size_t n = bytes->size() / sizeof(float) / workers;
  Gradients gradients(workers, std::vector<float>(n));
  for (size_t rank = 0; rank < workers; ++rank)
    std::memcpy(gradients[rank].data(), bytes->data() + rank * n * sizeof(float),
                n * sizeof(float));
  return gradients;
}

}  // namespace tern::bench
