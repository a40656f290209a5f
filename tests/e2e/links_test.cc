// The link of the server's machine is down longer than dead_after_s. No process has ended, so the
// job continues when the link is up again, and ends with the same weights, byte for byte, as a job
// without the fault.
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

class LinkOfTheServer : public testing::TestWithParam<LinkCase> {};

TEST_P(LinkOfTheServer, MayBeDownForAWhile) {
  std::vector<std::string> arguments;
  for (const std::string& setting : GetParam().settings)
    arguments.insert(arguments.end(), {"--set", setting});
  TestJob undisturbed_job(OptionsOf(GetParam()));
  undisturbed_job.StartAll(arguments);
  undisturbed_job.ExpectAllEnd(0);

  TestJob job(OptionsOf(GetParam()));
  const uint16_t data_port = FreePorts(1).at(0);
  TcpLink link({job.port(0), data_port});
  arguments.insert(arguments.end(), {"--set", "servers.0.bind_host=127.0.0.2", "--set",
                                     Cat("servers.0.data_ports=[", data_port, "]")});
  job.StartAll(arguments);
  ASSERT_TRUE(job.WaitForRound(5));
  link.SetLinkUp(false);
  ASSERT_TRUE(job.server(0).WaitForErr("nobody else who holds the state of the job is heard"));
  for (const uint32_t rank : {0, 1})
    ASSERT_TRUE(job.worker(rank).WaitForErr("is lost: silent for"));
  link.SetLinkUp(true);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == undisturbed_job.Weights()) << "other weights than without the fault";
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  EXPECT_THAT(job.Log("server", 0), Not(HasSubstr("was lost")));
  EXPECT_THAT(job.Log("server", 0), Not(HasSubstr("go back")));
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
