// The main program of a fuzz target that is built without a fuzzer. Usage:
//
//   NAME_fuzz CORPUS [MUTATIONS [SECONDS]]
//
// CORPUS is a folder or a single file. Runs the target on every file, then on at most MUTATIONS
// random changes of the files, for at most SECONDS of CPU time. Mutation i depends only on i and
// the corpus, so a slow machine runs the same mutations as a fast machine, but fewer of them. The
// file ./NAME_fuzz.last has the current input and remains after a crash.
//
// An input may take 2 s of CPU time and 512 MiB of memory; more is a crash. Under a sanitizer,
// which makes a program slower and reserves far more memory than it uses, an input may take 20 s,
// and memory is not limited.
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TERN_FUZZ_HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#define TERN_FUZZ_HAS_SANITIZER 1
#endif
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;
using Random = std::mt19937_64;
// The largest size of a mutated input.
constexpr size_t kMaxInputBytes = size_t{1} << 16;

// Returns a random number below n; 0 if n is 0.
size_t RandomBelow(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

// Returns the CPU time of this process. Unlike wall-clock time, CPU time does not depend on other
// programs.
double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Overwrites 1, 2, 4 or 8 bytes at a random position with an integer that often breaks lengths and
// counts, in either byte order.
void OverwriteWithInteger(Random& random, Input* input) {
  static constexpr uint64_t kValues[] = {0,           1,          0x7f,        0x80,
                                         0xff,        0x7fff,     0xffff,      0x10000,
                                         0x7fffffff,  0xffffffff, 0x100000000, 0x7fffffffffffffff,
                                         ~uint64_t{0}};
  const uint64_t value = kValues[RandomBelow(random, std::size(kValues))];
  const size_t width = size_t{1} << RandomBelow(random, 4);
  if (input->size() < width) return;
  const size_t position = RandomBelow(random, input->size() - width + 1);
  const bool big_endian = RandomBelow(random, 2) == 1;
  for (size_t i = 0; i < width; ++i) {
    (*input)[position + (big_endian ? width - 1 - i : i)] = static_cast<uint8_t>(value >> (8 * i));
  }
}

// Overwrites a part of `input` with a part of `donor`, or inserts it.
void Splice(Random& random, const Input& donor, Input* input) {
  const size_t begin = RandomBelow(random, donor.size());
  const size_t count = RandomBelow(random, donor.size() - begin + 1);
  const size_t position = RandomBelow(random, input->size() + 1);
  const size_t num_overwritten =
      RandomBelow(random, 2) == 0 ? 0 : std::min(count, input->size() - position);
  input->erase(input->begin() + position, input->begin() + position + num_overwritten);
  input->insert(input->begin() + position, donor.begin() + begin, donor.begin() + begin + count);
}

// Makes one random change of `input`.
void Mutate(Random& random, const std::vector<Input>& corpus, Input* input) {
  const size_t position = RandomBelow(random, input->size());
  switch (RandomBelow(random, 7)) {
    case 0:
      if (!input->empty()) (*input)[position] ^= static_cast<uint8_t>(1u << RandomBelow(random, 8));
      break;
    case 1:
      if (!input->empty()) (*input)[position] = static_cast<uint8_t>(random());
      break;
    case 2:
      input->insert(input->begin() + position, 1 + RandomBelow(random, 8),
                    static_cast<uint8_t>(random()));
      break;
    case 3:
      input->erase(input->begin() + position,
                   input->begin() + position +
                       std::min(input->size() - position, 1 + RandomBelow(random, 16)));
      break;
    case 4:
      OverwriteWithInteger(random, input);
      break;
    case 5:
      Splice(random, corpus[RandomBelow(random, corpus.size())], input);
      break;
    default:
      input->resize(RandomBelow(random, 8) == 0 ? position : input->size());
  }
  if (input->size() > kMaxInputBytes) input->resize(kMaxInputBytes);
}

Input ReadInput(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "%s cannot be read\n", path.c_str());
    std::exit(1);
  }
  return Input(std::istreambuf_iterator<char>(in), {});
}

std::vector<Input> ReadCorpus(const std::string& path) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> corpus;
  for (const auto& file : files) corpus.push_back(ReadInput(file));
  return corpus;
}

// Writes the current input to a file, and removes the file if the program ends normally. The file
// stays open, because closing it after every input would wait for the disk.
class LastInput {
 public:
  explicit LastInput(std::string path)
      : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb")) {
    if (file_ == nullptr) {
      std::fprintf(stderr, "%s cannot be written\n", path_.c_str());
      std::exit(1);
    }
  }
  ~LastInput() {
    std::fclose(file_);
    std::filesystem::remove(path_);
  }
  LastInput(const LastInput&) = delete;
  LastInput& operator=(const LastInput&) = delete;

  void Write(const Input& input) {
    std::rewind(file_);
    if (!input.empty()) std::fwrite(input.data(), 1, input.size(), file_);
    std::fflush(file_);
    if (ftruncate(fileno(file_), static_cast<off_t>(input.size())) != 0) std::perror(path_.c_str());
  }

 private:
  const std::string path_;
  std::FILE* const file_;
};

#ifdef TERN_FUZZ_HAS_SANITIZER
constexpr int kMaxSecondsPerInput = 20;
void LimitMemory() {}
#else
constexpr int kMaxSecondsPerInput = 2;
// Lets this process allocate 512 MiB more than it has now.
void LimitMemory() {
  constexpr uint64_t kMaxBytes = uint64_t{512} << 20;
  unsigned long num_pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%lu", &num_pages) != 1) std::abort();
  std::fclose(file);
  const rlim_t limit = num_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + kMaxBytes;
  const rlimit limits{limit, limit};
  if (setrlimit(RLIMIT_AS, &limits) != 0) std::abort();
}
#endif

// Aborts this process after kMaxSecondsPerInput seconds of CPU time.
void StartTimer() {
  const itimerval limit{{0, 0}, {kMaxSecondsPerInput, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

void OnTimer(int) {
  constexpr char kText[] = "this input takes too much CPU time\n";
  (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
  std::abort();
}

void RunInput(const Input& input, LastInput* last_input) {
  last_input->Write(input);
  StartTimer();
  // Copies the input to a heap block of exactly its size, so that the address sanitizer detects
  // reads beyond the end.
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[input.size()]);
  std::copy(input.begin(), input.end(), copy.get());
  LLVMFuzzerTestOneInput(copy.get(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS [MUTATIONS [SECONDS]]\n", argv[0]);
    return 64;
  }
  const bool is_single_file = !std::filesystem::is_directory(argv[1]);
  const uint64_t max_mutations =
      argc > 2 ? std::strtoull(argv[2], nullptr, 10) : (is_single_file ? 0 : 5000);
  const double max_seconds = argc > 3 ? std::strtod(argv[3], nullptr) : 2;
  const std::vector<Input> corpus = ReadCorpus(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s holds no files\n", argv[1]);
    return 1;
  }
  LimitMemory();
  signal(SIGPROF, &OnTimer);
  LastInput last_input(std::filesystem::path(argv[0]).filename().string() + ".last");
  for (const Input& input : corpus) RunInput(input, &last_input);

  const double end_seconds = CpuSeconds() + max_seconds;
  uint64_t num_mutations = 0;
  for (; num_mutations < max_mutations && CpuSeconds() < end_seconds; ++num_mutations) {
    Random random(num_mutations);
    Input input = corpus[RandomBelow(random, corpus.size())];
    for (size_t n = 1 + RandomBelow(random, 6); n > 0; --n) Mutate(random, corpus, &input);
    RunInput(input, &last_input);
  }
  std::printf("%zu files and %llu of %llu mutations ran\n", corpus.size(),
              static_cast<unsigned long long>(num_mutations),
              static_cast<unsigned long long>(max_mutations));
  return 0;
}
