// Measures how many training images per second a number of threads prepares. To prepare an image
// means to decode, pad, crop, mirror and standardize it. Prints one line of JSON for each number of
// threads.
//
//   data_bench FORMAT DIR BATCH STEPS THREADS...
// For each number of THREADS, times STEPS batches of BATCH images of the data set in the folder
// DIR. The first batch is not timed. For example: data_bench packed cifar_packed 128 400 1 2
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/base/clock.h"
#include "worker/data/batches.h"
#include "worker/data/prefetcher.h"

namespace tern::data {
namespace {

int PrintError(const std::string& message) {
  std::fprintf(stderr, "data_bench: %s\n", message.c_str());
  return 1;
}

int MeasureImageRates(const std::string& format, const std::string& dir, uint32_t batch_size,
                      uint64_t steps, const std::vector<uint32_t>& thread_counts) {
  pb::Data data_def;
  pb::Data::Format data_format = pb::Data::packed;
  if (!pb::Data::Format_Parse(format, &data_format)) return PrintError("unknown format " + format);
  data_def.set_format(data_format);
  data_def.set_dir(dir);
  data_def.set_standardize(true);
  data_def.mutable_augmentation()->set_pad(4);
  data_def.mutable_augmentation()->set_random_crop(true);
  data_def.mutable_augmentation()->set_mirror(true);
  const auto samples = Samples::Read(data_def, 1, Split::kTrain, {});
  if (!samples.ok()) return PrintError(samples.status().message());
  for (const uint32_t num_threads : thread_counts) {
    auto batches = Batches::Make(**samples, {.batch_total = batch_size});
    if (!batches.ok()) return PrintError(batches.status().message());
    Prefetcher prefetcher(
        **samples,
        [batches = std::move(*batches)](uint64_t step) mutable { return batches.SamplesAt(step); },
        {.threads = num_threads});
    if (!prefetcher.Next().ok()) return PrintError("the prefetcher delivers no batch");
    const Time begin_time = Now();
    for (uint64_t step = 0; step < steps; ++step) {
      const auto next_batch = prefetcher.Next();
      if (!next_batch.ok()) return PrintError(next_batch.status().message());
    }
    const double seconds = Seconds(Now() - begin_time);
    std::printf("{\"format\": \"%s\", \"threads\": %u, \"images_per_s\": %.0f}\n", format.c_str(),
                num_threads, static_cast<double>(batch_size * steps) / seconds);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tern::data

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "data_bench FORMAT DIR BATCH STEPS THREADS...\n");
    return 64;
  }
  std::vector<uint32_t> thread_counts;
  for (int i = 5; i < argc; ++i) thread_counts.push_back(static_cast<uint32_t>(std::atoi(argv[i])));
  return tern::data::MeasureImageRates(argv[1], argv[2], static_cast<uint32_t>(std::atoi(argv[3])),
                                       static_cast<uint64_t>(std::atoi(argv[4])), thread_counts);
}
