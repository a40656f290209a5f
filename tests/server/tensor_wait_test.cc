// Tests of how a server waits for the first client of a job whose tensors it does not know.
#include "server/tensor_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/text.h"
#include "common/base/threads.h"
#include "common/tensors/safetensors.h"
#include "setup/kept_memory.h"
#include "tests/common/net/net_testing.h"

namespace tern::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

uint16_t FreePort() {
  net::Context context;
  return net::BindLoopback(context)->port();
}

// The server keeps a float of each element of these programs' gradients.
constexpr const char* kPrograms = "train: {compute: client}\nexchange: {codec: onebit}\n";

// A job of two programs.
std::unique_ptr<setup::Setup> MakeProgramsJob(uint16_t port, const std::string& text = kPrograms) {
  const std::string path = Cat(testing::TempDir(), "tern_tensor_wait_", getpid(), ".yaml");
  std::ofstream(path) << "servers: [{address: \"127.0.0.1:" << port << "\"}]\n"
                      << "workers: {count: 2}\n"
                      << text;
  auto setup = setup::MakeSetupWithoutTensors(path, {});
  std::filesystem::remove(path);
  EXPECT_TRUE(setup.ok()) << setup.status().message();
  return setup.ok() ? std::move(*setup) : nullptr;
}

pb::TensorTable TableOf(uint32_t rows, uint32_t columns) {
  pb::TensorTable table;
  pb::Tensor* tensor = table.add_tensors();
  tensor->set_name("w");
  tensor->add_shape(rows);
  tensor->add_shape(columns);
  return table;
}

class TensorWaitTest : public testing::Test {
 protected:
  explicit TensorWaitTest(const std::string& text = kPrograms)
      : port_(FreePort()), job_(MakeProgramsJob(port_, text)), thread_("server", [this] {
          StopSignals signals(StopSignals::TakesNone{});
          tensors_.emplace(AwaitTensors(*job_, 0, kRoom, signals));
        }) {
    peer_ = net::Value(net::DealerSocket::Connect(context_, "127.0.0.1", port_, {}));
    EXPECT_TRUE(net::AwaitLink(*peer_, net::DealerSocket::Link::kUp));
  }
  void SayHello(const pb::TensorTable& table) {
    pb::Envelope envelope;
    *envelope.mutable_hello() = job_->hello;
    envelope.mutable_hello()->set_role(pb::Hello::worker);
    envelope.mutable_hello()->set_rank(1);
    envelope.mutable_hello()->set_incarnation(7);
    EXPECT_TRUE(peer_->Send(envelope, Bytes::Own(table.SerializeAsString())).ok());
  }
  pb::Refuse AwaitRefusal() {
    const auto received = net::AwaitMessage(*peer_);
    return received.has_value() ? received->envelope.refuse() : pb::Refuse();
  }

  static constexpr uint64_t kRoom = 1 << 20;  // bytes
  const uint16_t port_;
  const std::unique_ptr<setup::Setup> job_;
  net::Context context_;
  std::unique_ptr<net::DealerSocket> peer_;
  std::optional<Result<pb::TensorTable>> tensors_;
  Thread thread_;
};

TEST_F(TensorWaitTest, RefusesTensorsThatItHasNoMemoryFor) {
  SayHello(TableOf(65536, 32767));
  const pb::Refuse refuse = AwaitRefusal();
  EXPECT_EQ(refuse.code(), 65u);
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_THAT(refuse.sentence(),
              AllOf(HasSubstr("2,147,418,112 elements"), HasSubstr("server 0 has to keep 8.6 GB"),
                    HasSubstr("it has 1.0 MB of memory")));
  SayHello(TableOf(10, 20));
  thread_.Join();
  ASSERT_TRUE(tensors_->ok()) << tensors_->status().message();
  EXPECT_EQ((*tensors_)->tensors(0).shape(1), 20u);
}

std::string WriteWeights(const std::string& path) {
  const std::vector<float> values(200, 1);
  EXPECT_TRUE(tensors::WriteSafetensors(path, {{"w", {10, 20}, values}}, {}).ok());
  return path;
}

class TensorWaitWithWeights : public TensorWaitTest {
 protected:
  TensorWaitWithWeights()
      : TensorWaitTest(Cat("train: {compute: module, algorithm: asgd, batch_total: 2, steps: 1}\n",
                           "model: {weights: ", WriteWeights(Path()), "}\n")) {}
  ~TensorWaitWithWeights() override { std::filesystem::remove(Path()); }
  static std::string Path() {
    return Cat(testing::TempDir(), "tern_tensor_wait_", getpid(), ".safetensors");
  }
};

TEST_F(TensorWaitWithWeights, RefusesTensorsThatTheWeightsDoNotFit) {
  SayHello(TableOf(20, 10));
  const pb::Refuse refuse = AwaitRefusal();
  EXPECT_EQ(refuse.code(), 65u);
  EXPECT_THAT(refuse.sentence(), AllOf(HasSubstr("model.weights"), HasSubstr("w")));
  SayHello(TableOf(10, 20));
  thread_.Join();
  ASSERT_TRUE(tensors_->ok()) << tensors_->status().message();
}

TEST(KeptBytes, AreThoseOfWeightsAndMemories) {
  const auto job = MakeProgramsJob(7500);
  ASSERT_TRUE(setup::SetTensors(TableOf(10, 20), job.get()).ok());
  EXPECT_EQ(setup::KeptBytes(*job, 0), 4u * 200);
  EXPECT_EQ(setup::CheckKeptBytes(*job, 0, std::nullopt).message(), "");
  EXPECT_EQ(setup::CheckKeptBytes(*job, 0, 800).message(), "");
  EXPECT_EQ(setup::CheckKeptBytes(*job, 0, 799).code(), Code::kBadData);
}

}  // namespace
}  // namespace tern::server
