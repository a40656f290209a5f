#include "tests/e2e/job_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <utility>

#include "common/base/clock.h"
#include "common/base/text.h"

namespace tern::e2e {
namespace {

constexpr uint32_t kImageSide = 28, kNumClasses = 10;

std::string BigEndianBytes(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  ASSERT_TRUE(file.flush()) << path;
}

std::string LastBytes(const std::string& text, size_t max_bytes) {
  return text.size() <= max_bytes ? text : "..." + text.substr(text.size() - max_bytes);
}

int MillisecondsUntil(Time deadline) {
  const auto milliseconds_left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Now()).count();
  return static_cast<int>(std::max<int64_t>(0, milliseconds_left + 1));
}

sockaddr_in LoopbackAddress(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Time DeadlineIn(double seconds) { return Now() + Time(static_cast<int64_t>(seconds * 1e9)); }

bool CanBind(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = LoopbackAddress(port);
  const bool is_bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return is_bound;
}

// The last line that ends with a newline; an unfinished line after it is ignored.
std::string LastCompleteLine(const std::string& text) {
  const size_t end = text.rfind('\n');
  if (end == std::string::npos || end == 0) return "";
  const size_t begin = text.rfind('\n', end - 1);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1));
}

}  // namespace

void WriteIdxPair(const std::string& folder, const std::string& stem, uint32_t count,
                  uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string images = BigEndianBytes(0x803) + BigEndianBytes(count) + BigEndianBytes(kImageSide) +
                       BigEndianBytes(kImageSide);
  std::string labels = BigEndianBytes(0x801) + BigEndianBytes(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t label = i % kNumClasses;
    std::string image(size_t{kImageSide} * kImageSide, '\0');
    for (char& pixel : image) pixel = static_cast<char>(random() % 64);
    const uint32_t top_row = 3 + 12 * (label / 5), left_column = 1 + 5 * (label % 5);
    for (uint32_t y = top_row; y < top_row + 8; ++y) {
      for (uint32_t x = left_column; x < left_column + 5; ++x)
        image[y * kImageSide + x] = static_cast<char>(192 + random() % 64);
    }
    images += image;
    labels += static_cast<char>(label);
  }
  WriteFile(folder + "/" + stem + "-images-idx3-ubyte", images);
  WriteFile(folder + "/" + stem + "-labels-idx1-ubyte", labels);
}

std::vector<uint16_t> FreePorts(size_t count) {
  // Chooses random ports below the range of outgoing connections, so that other programs are
  // unlikely to bind the same ports before the servers of the test do.
  std::vector<uint16_t> ports;
  std::random_device random;
  for (int tries = 0; ports.size() < count && tries < 10000; ++tries) {
    const auto port = static_cast<uint16_t>(20000 + random() % 12000);
    if (std::find(ports.begin(), ports.end(), port) == ports.end() && CanBind(port))
      ports.push_back(port);
  }
  EXPECT_EQ(ports.size(), count) << "no free ports";
  return ports;
}

uint16_t FreeMetricsPort() {
  while (true) {
    const uint16_t port = FreePorts(1).at(0);
    bool all_are_free = true;
    for (const int offset : {1, 100, 101, 102})
      all_are_free = all_are_free && CanBind(static_cast<uint16_t>(port + offset));
    if (all_are_free) return port;
  }
}

std::string GetMetrics(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = LoopbackAddress(port);
  const std::string request =
      "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
  std::string answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
    char buffer[4096];
    for (ssize_t received_bytes; (received_bytes = recv(fd, buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<size_t>(received_bytes));
  }
  close(fd);
  return answer;
}

double MetricOf(const std::string& page, const std::string& row) {
  const size_t row_begin = page.find("\n" + row + " ");
  return row_begin == std::string::npos ? -1 : std::stod(page.substr(row_begin + row.size() + 2));
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool WaitUntil(const std::function<bool()>& condition, double seconds) {
  const Time deadline = DeadlineIn(seconds);
  while (!condition()) {
    if (Now() >= deadline) return false;
    poll(nullptr, 0, 10);
  }
  return true;
}

TestProgram::TestProgram(const tools::ProcessSpec& spec) : spec_(spec) {
  auto process = tools::Process::Start(spec);
  if (process.ok()) {
    process_ = std::move(*process);
  } else {
    ADD_FAILURE() << process.status().message();
  }
}

pid_t TestProgram::pid() const { return started() ? process_->pid() : 0; }

bool TestProgram::running() { return started() && !process_->TryWait().has_value(); }

void TestProgram::Signal(int signal) {
  if (started()) process_->Signal(signal);
}

int TestProgram::Wait(double seconds) {
  if (!started()) return -1;
  pollfd exit_poll{process_->event_fd(), POLLIN, 0};
  const Time deadline = DeadlineIn(seconds);
  while (running()) {
    if (Now() >= deadline) {
      ADD_FAILURE() << spec_.name << " still runs after " << seconds << " s; stderr:\n"
                    << LastBytes(err(), 2000);
      process_->Signal(SIGKILL);
      while (running()) poll(&exit_poll, 1, 1000);
      return -1;
    }
    poll(&exit_poll, 1, MillisecondsUntil(deadline));
  }
  const tools::Exit exit = *process_->TryWait();
  return exit.signal != 0 ? 128 + exit.signal : exit.code;
}

bool TestProgram::WaitFor(const std::string& path, const std::string& text, double seconds) {
  const Time deadline = DeadlineIn(seconds);
  while (true) {
    const bool is_last_try =
        !running() || Now() >= deadline;  // checked before reading, so that no output is missed
    if (ReadFile(path).find(text) != std::string::npos) return true;
    if (is_last_try) {
      ADD_FAILURE() << spec_.name << (running() ? " did not write '" : " ended without writing '")
                    << text << "' to " << path;
      return false;
    }
    pollfd exit_poll{process_->event_fd(), POLLIN, 0};
    poll(&exit_poll, 1, 10);
  }
}

TestJob::TestJob(const JobOptions& options)
    : options_(options),
      folder_(testing::TempDir() + "tern_job_XXXXXX"),
      ports_(FreePorts(options.servers)) {
  if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << "no temporary folder at " << folder_;
  std::filesystem::create_directories(data_dir());
  std::filesystem::create_directories(folder_ + "/programs");
  WriteIdxPair(data_dir(), "train", options_.train_images, options_.seed);
  WriteIdxPair(data_dir(), "t10k", options_.test_images, options_.seed + 1);
  WriteJob();
}

TestJob::~TestJob() {
  programs_.clear();
  if (progress_fd_ >= 0) close(progress_fd_);
  std::error_code ignored_error;
  if (testing::Test::HasFailure()) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_, ignored_error)) {
      const std::string name = entry.path().filename();
      if (!entry.is_regular_file() || name.find("ubyte") != std::string::npos ||
          name.ends_with(".safetensors"))
        continue;
      std::cerr << "---- " << entry.path().string() << "\n"
                << LastBytes(ReadFile(entry.path()), 3000) << "\n";
    }
  }
  std::filesystem::remove_all(folder_, ignored_error);
}

void TestJob::WriteJob() const {
  std::string text =
      Cat("name: test\nseed: ", options_.seed, "\noutput_dir: ", output_dir(), "\nservers:\n");
  for (const uint16_t port : ports_)
    text += Cat("  - address: \"", options_.host, ":", port, "\"\n");
  text += Cat("workers:\n  count: ", options_.workers, "\n");
  if (options_.min_workers != 0) text += Cat("  min: ", options_.min_workers, "\n");
  if (options_.max_workers != 0) text += Cat("  max: ", options_.max_workers, "\n");
  text += Cat("model: ", options_.model, "\ndata:\n  dir: ", data_dir(),
              "\ntrain:\n  batch_total: ", options_.batch_total, "\n  steps: ", options_.steps,
              "\n", options_.yaml);
  WriteFile(job_file(), text);
}

TestProgram& TestJob::Start(const std::string& name, const std::string& path,
                            const std::vector<std::string>& arguments) {
  tools::ProcessSpec spec;
  spec.name = name;
  spec.program = path;
  spec.arguments = arguments;
  // OpenMP's waiting threads must not spin, because other processes of the job need the cores. A
  // name server that does not answer must not delay the test.
  spec.environment = {"OMP_WAIT_POLICY=passive", "RES_OPTIONS=timeout:1 attempts:1"};
  spec.stdout_path = Cat(folder_, "/programs/", programs_.size(), ".", name, ".out");
  spec.stderr_path = Cat(folder_, "/programs/", programs_.size(), ".", name, ".err");
  if (name == "server.0" && progress_fd_ >= 0) spec.inherited_fds = {progress_fd_};
  programs_.push_back(std::make_unique<TestProgram>(spec));
  return *programs_.back();
}

TestProgram& TestJob::StartDaemon(const std::string& role, uint32_t rank,
                                  const std::vector<std::string>& arguments, int fd,
                                  const std::string& program) {
  std::vector<std::string> all_arguments = {"--job",   job_file(),  "--rank",
                                            Cat(rank), "--log_dir", log_dir()};
  if (fd >= 0) all_arguments.insert(all_arguments.end(), {"--progress_fd", Cat(fd)});
  all_arguments.insert(all_arguments.end(), arguments.begin(), arguments.end());
  return Start(Cat(role, ".", rank), program.empty() ? BinaryPath("tern_" + role) : program,
               all_arguments);
}

TestProgram& TestJob::StartServer(uint32_t shard, const std::vector<std::string>& arguments) {
  if (shard == 0 && progress_fd_ < 0) {
    progress_fd_ =
        open((folder_ + "/progress").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  servers_[shard] = &StartDaemon("server", shard, arguments, shard == 0 ? progress_fd_ : -1);
  return *servers_[shard];
}

TestProgram& TestJob::StartWorker(uint32_t rank, const std::vector<std::string>& arguments,
                                  const std::string& program) {
  workers_[rank] = &StartDaemon("worker", rank, arguments, -1, program);
  return *workers_[rank];
}

void TestJob::StartAll(const std::vector<std::string>& arguments) {
  for (uint32_t shard = 0; shard < options_.servers; ++shard) StartServer(shard, arguments);
  for (uint32_t rank = 0; rank < options_.workers; ++rank) StartWorker(rank, arguments);
}

void TestJob::ExpectAllEnd(int code, double seconds) {
  for (const auto& [rank, program] : workers_)
    EXPECT_EQ(program->Wait(seconds), code) << "worker " << rank << ": " << program->err();
  for (const auto& [shard, program] : servers_)
    EXPECT_EQ(program->Wait(seconds), code) << "server " << shard << ": " << program->err();
}

TestProgram& TestJob::StartTern(const std::vector<std::string>& arguments) {
  return Start("tern", BinaryPath("tern"), arguments);
}

nlohmann::json TestJob::Progress() const {
  auto progress =
      nlohmann::json::parse(LastCompleteLine(ReadFile(folder_ + "/progress")), nullptr, false);
  return progress.is_object() ? progress : nlohmann::json();
}

bool TestJob::WaitForRound(uint64_t round, double seconds) {
  const auto is_reached = [&] {
    const nlohmann::json progress = Progress();
    return progress.is_object() && progress.value("rounds", uint64_t{0}) >= round;
  };
  const bool was_reached = WaitUntil(is_reached, seconds);
  EXPECT_TRUE(was_reached) << "round " << round << " was not reached within " << seconds
                           << " s; progress: " << Progress();
  return was_reached;
}

bool TestJob::WaitForTraining(double seconds) {
  const bool all_are_training = WaitUntil(
      [&] {
        for (uint32_t rank = 0; rank < options_.workers; ++rank) {
          if (Log("worker", rank).find("training from step") == std::string::npos) return false;
        }
        return true;
      },
      seconds);
  EXPECT_TRUE(all_are_training) << "not all workers began to train within " << seconds << " s";
  return all_are_training;
}

pid_t TestJob::PidOf(const TestProgram& tern, const std::string& name) {
  const std::string text = tern.out(), marker = name + " is process ";
  const size_t marker_position = text.rfind(marker);
  return marker_position == std::string::npos
             ? 0
             : atoi(text.c_str() + marker_position + marker.size());
}

nlohmann::json TestJob::Output(const std::string& name) const {
  const std::string text = OutputBytes(name);
  auto json = nlohmann::json::parse(text, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << name << " is not JSON: '" << text << "'";
  return json.is_discarded() ? nlohmann::json() : json;
}

std::string TestJob::Weights() const {
  std::string bytes = OutputBytes("weights.safetensors");
  EXPECT_FALSE(bytes.empty()) << "no final weights";
  return bytes;
}

bool TestJob::WaitForLog(const std::string& role, uint32_t rank, const std::string& text,
                         double seconds) const {
  const bool was_logged =
      WaitUntil([&] { return Log(role, rank).find(text) != std::string::npos; }, seconds);
  EXPECT_TRUE(was_logged) << role << " " << rank << " did not log '" << text << "'";
  return was_logged;
}

std::string TestJob::Log(const std::string& role, uint32_t rank) const {
  std::string text;
  std::error_code ignored_error;
  for (const auto& entry : std::filesystem::directory_iterator(log_dir(), ignored_error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(Cat("tern_", role, ".", role, ".", rank, ".")) && name.ends_with(".log"))
      text += ReadFile(entry.path());
  }
  return text;
}

std::string TestJob::BinDir() { return TERN_BIN_DIR; }

}  // namespace tern::e2e
