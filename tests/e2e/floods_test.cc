// Attacks on a running job by strangers who send without end: the memory of the server and its log
// grow by a bounded amount, and the job ends with the weights of an undisturbed one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "common/net/zmq_version.h"
#include "tests/common/net/zmtp_client.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

constexpr Time kAttackTime = std::chrono::milliseconds(1000);
constexpr size_t kMaxGrowthBytes = 16 << 20;
constexpr double kMaxLogBytesPerSecond = 2000;

size_t ResidentBytes(pid_t pid) {
  size_t pages = 0, resident_pages = 0;
  std::ifstream(Cat("/proc/", static_cast<int>(pid), "/statm")) >> pages >> resident_pages;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// What a server wrote: to its log file, and to stderr.
size_t LogBytes(TestJob& job) {
  return std::max(job.Log("server", 0).size(), job.server(0).err().size());
}

// Calls `attack` again and again for kAttackTime, and checks by how much the server and its log
// have grown.
template <typename Attack>
void ExpectLittleGrowth(TestJob& job, const std::string& name, Attack attack) {
  const size_t resident_before = ResidentBytes(job.server(0).pid());
  const size_t log_before = LogBytes(job);
  const Time begin = Now();
  while (Now() - begin < kAttackTime) attack();
  EXPECT_LT(ResidentBytes(job.server(0).pid()), resident_before + kMaxGrowthBytes) << name;
  // A burst of lines may come before the limit holds.
  const double allowed_seconds = Seconds(Now() - begin) + 1;
  EXPECT_LT(static_cast<double>(LogBytes(job) - log_before),
            kMaxLogBytesPerSecond * allowed_seconds)
      << name;
}

// Sends something again and again on one connection, and makes a new one when it is closed. Two
// flooders of a port stay below the number of connections that it accepts from an address.
class Flooder {
 public:
  Flooder(uint16_t port, std::string name) : port_(port), name_(std::move(name)) {}

  void SendFrame(const std::string& data, bool has_more) {
    if (client_ != nullptr && client_->SendFrame(data, has_more)) return;
    if (num_clients_ == kMaxClients) return;
    client_ = std::make_unique<net::ZmtpClient>(port_, name_ + std::to_string(++num_clients_));
    EXPECT_TRUE(client_->is_greeted());
  }
  int num_clients() const { return num_clients_; }

 private:
  static constexpr int kMaxClients = 90;
  const uint16_t port_;
  const std::string name_;
  int num_clients_ = 0;
  std::unique_ptr<net::ZmtpClient> client_;
};

TEST(Floods, CostTheServerLittleAndTheJobNothing) {
  JobOptions options;
  options.steps = 1500;  // more than the floods last
  options.batch_total = 32;
  options.yaml = "faults: {on_worker_loss: wait}\n";
  TestJob undisturbed_job(options), job(options);
  const uint16_t data_port = FreePorts(1).at(0), metrics_port = FreeMetricsPort();
  job.StartAll({"--set", Cat("servers.0.data_ports=[", data_port, "]"), "--set",
                Cat("metrics.port=", metrics_port)});
  ASSERT_TRUE(job.WaitForRound(2));
  ASSERT_GT(MetricOf(GetMetrics(metrics_port), "tern_server_workers_present"), 0);
  for (const uint16_t port : {job.port(0), data_port}) {
    Flooder broken(port, "broken");
    ExpectLittleGrowth(job, "frames that are not Tern's", [&] {
      for (int i = 0; i < 100; ++i) broken.SendFrame("GET / HTTP/1.1", false);
    });
    EXPECT_GE(broken.num_clients(), 1);
    if (!net::ZmqHasTernsPatches()) continue;
    Flooder endless(port, "endless");
    const std::string frame(30000, 'x');
    ExpectLittleGrowth(job, "messages without end", [&] { endless.SendFrame(frame, true); });
    EXPECT_GT(endless.num_clients(), 1) << "the connection was not closed";
  }
  job.ExpectAllEnd(0);
  undisturbed_job.StartAll();
  undisturbed_job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == undisturbed_job.Weights());
}

}  // namespace
}  // namespace tern::e2e
