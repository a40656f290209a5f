// The link of the server's machine is down longer than dead_after_s, or damages bytes. No process
// has ended, so the job continues when the link is up again, and ends with the same weights, byte
// for byte, as a job without the fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"
#include "tests/e2e/tcp_link.h"

namespace tern::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

struct LinkCase {
  std::string name, on_loss;
  std::vector<std::string> settings = {};
  std::string yaml = {};
};

JobOptions OptionsOf(const LinkCase& link_case) {
  JobOptions options;
  options.steps = 400;
  options.batch_total = 48;
  options.yaml =
      Cat("faults: {on_worker_loss: ", link_case.on_loss,
          ", heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: 1}\n", link_case.yaml);
  return options;
}

class LinkOfTheServer : public testing::TestWithParam<LinkCase> {
 protected:
  LinkOfTheServer() {
    for (const std::string& setting : GetParam().settings)
      arguments_.insert(arguments_.end(), {"--set", setting});
    TestJob undisturbed_job(OptionsOf(GetParam()));
    undisturbed_job.StartAll(arguments_);
    undisturbed_job.ExpectAllEnd(0);
    undisturbed_weights_ = undisturbed_job.Weights();
  }
  // Starts all daemons, whose messages go over `link_`, and waits until they train.
  void StartJob() {
    arguments_.insert(arguments_.end(), {"--set", "servers.0.bind_host=127.0.0.2", "--set",
                                         Cat("servers.0.data_ports=[", data_port_, "]")});
    job_.StartAll(arguments_);
    ASSERT_TRUE(job_.WaitForRound(5));
  }
  void ExpectUndisturbedEnd() {
    job_.ExpectAllEnd(0);
    EXPECT_TRUE(job_.Weights() == undisturbed_weights_) << "other weights than without the fault";
    EXPECT_EQ(job_.Output("server.0.json")["replicas_agree"], true);
    EXPECT_THAT(job_.Log("server", 0), Not(HasSubstr("was lost")));
    EXPECT_THAT(job_.Log("server", 0), Not(HasSubstr("go back")));
  }

  std::vector<std::string> arguments_;
  std::string undisturbed_weights_;
  TestJob job_{OptionsOf(GetParam())};
  const uint16_t data_port_ = FreePorts(1).at(0);
  TcpLink link_{{job_.port(0), data_port_}};
};

TEST_P(LinkOfTheServer, MayBeDownForAWhile) {
  StartJob();
  link_.SetLinkUp(false);
  ASSERT_TRUE(job_.server(0).WaitForErr("nobody else who holds the state of the job is heard"));
  for (const uint32_t rank : {0, 1})
    ASSERT_TRUE(job_.worker(rank).WaitForErr("is lost: silent for"));
  link_.SetLinkUp(true);
  ExpectUndisturbedEnd();
}

// A damaged message costs its connection, and nothing else: it does not reach a sum, and no daemon
// leaves.
TEST_P(LinkOfTheServer, MayDamageBytes) {
  StartJob();
  link_.FlipABitEvery(6'000'000);
  ExpectUndisturbedEnd();
  EXPECT_GT(link_.num_flipped(), 10u);
  EXPECT_THAT(job_.Log("server", 0), HasSubstr("was damaged on its way"));
}

std::string NameOfCase(const testing::TestParamInfo<LinkCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Each, LinkOfTheServer,
    testing::Values(LinkCase{"Shrink", "shrink"},
                    LinkCase{"WithCheckpoints", "wait", {}, "checkpoints: {every_steps: 20}\n"}),
    NameOfCase);
INSTANTIATE_TEST_SUITE_P(Thorough, LinkOfTheServer,
                         testing::Values(LinkCase{"Wait", "wait"},
                                         LinkCase{
                                             "OfServers", "wait", {"train.parameters=central"}}),
                         NameOfCase);

}  // namespace
}  // namespace tern::e2e
