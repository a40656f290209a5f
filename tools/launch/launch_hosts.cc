#include "tools/launch/launch_hosts.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/base/text.h"
#include "common/config/job.h"
#include "common/net/address.h"
#include "setup/run_result.h"
#include "setup/setup.h"
#include "tools/launch/host_list.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/placement.h"
#include "tools/launch/remote_members.h"
#include "tools/launch/slurm_hosts.h"
#include "tools/run/progress_pipe.h"

namespace tern::tools {
namespace {

using setup::Arguments;
using Readies = std::vector<pb::FromHost::Ready>;

constexpr uint32_t kMaxServers = 1'000'000;  // The job's own limit is lower.

Result<std::string> ReadTextFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (file && text) return text.str();
  return Status(Code::kUsage, Cat("cannot read ", Printable(path), ", which has to be a file"));
}

Result<std::vector<Host>> ReadHosts(const Arguments& arguments) {
  const auto flags = {"hosts", "hostfile", "slurm"};
  if (std::count_if(flags.begin(), flags.end(),
                    [&](const char* flag) { return arguments.HasFlag(flag); }) > 1)
    return Status(Code::kUsage, "saw two of -H, --hostfile and --slurm; give one of them");
  if (arguments.HasFlag("slurm")) return HostsOfAllocation();
  if (arguments.HasFlag("hosts")) return ParseHosts(arguments.LastValue("hosts"));
  const std::string path = arguments.LastValue("hostfile");
  const Result<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.status().Within("--hostfile");
  return ParseHostfile(*text, path);
}

// What the command line says, and which worker runs where.
struct Plan {
  LaunchOptions options;
  std::vector<Host> hosts;
  std::vector<size_t> host_of_rank, host_of_shard;
  bool has_own_servers = false;  // The job says where its shards are.
  uint32_t num_servers = 0;      // Otherwise: how many there are.
  Ssh ssh;
  std::string folder;  // On every host.
};

Result<Plan> MakePlan(const Arguments& arguments) {
  Plan plan;
  Result<LaunchOptions> options = ReadLaunchOptions(arguments);
  if (!options.ok()) return options.status();
  plan.options = *std::move(options);
  if (plan.options.job.uses_free_ports)
    return Status(Code::kUsage,
                  "--free_ports is for one machine; on hosts the ports are free ones");
  Result<std::vector<Host>> hosts = ReadHosts(arguments);
  if (!hosts.ok()) return hosts.status();
  plan.hosts = *std::move(hosts);
  std::optional<uint32_t>& num_workers = plan.options.job.num_workers;
  if (!num_workers.has_value()) num_workers = NumSlots(plan.hosts);
  Result<std::vector<size_t>> host_of_rank = PlaceWorkers(plan.hosts, *num_workers);
  if (!host_of_rank.ok()) return host_of_rank.status();
  plan.host_of_rank = *std::move(host_of_rank);
  plan.num_servers = static_cast<uint32_t>(plan.hosts.size());
  if (arguments.HasFlag("servers")) {
    const Result<uint32_t> num_servers = arguments.NumberValue("servers", kMaxServers);
    if (!num_servers.ok()) return num_servers.status();
    if (*num_servers == 0)
      return Status(Code::kUsage, "--servers: saw 0; allowed: the number of shards, from 1");
    plan.num_servers = *num_servers;
  }
  plan.ssh.is_srun = arguments.HasFlag("slurm");
  if (plan.ssh.is_srun && arguments.HasFlag("ssh"))
    return Status(Code::kUsage, "saw --slurm and --ssh; with --slurm, srun reaches the nodes");
  Result<std::vector<std::string>> command =
      ParseSshCommand(plan.ssh.is_srun ? "srun" : arguments.LastValue("ssh"));
  if (!command.ok()) return command.status();
  plan.ssh.command = *std::move(command);
  std::error_code error;
  plan.ssh.tern = arguments.HasFlag("tern")
                      ? arguments.LastValue("tern")
                      : std::filesystem::read_symlink("/proc/self/exe", error).string();
  plan.folder = arguments.HasFlag("workdir") ? arguments.LastValue("workdir")
                                             : std::filesystem::current_path(error).string();
  return plan;
}

std::vector<pb::ToHost::Begin> BeginsOf(const Plan& plan) {
  std::vector<pb::ToHost::Begin> begins(plan.hosts.size());
  for (size_t host = 0; host < begins.size(); ++host) {
    begins[host].set_name(plan.hosts[host].name);
    begins[host].set_folder(plan.folder);
    begins[host].set_number(static_cast<uint32_t>(host));
    begins[host].set_num_hosts(static_cast<uint32_t>(begins.size()));
    const auto& places = plan.host_of_shard;
    begins[host].set_num_ports(
        static_cast<uint32_t>(std::count(places.begin(), places.end(), host)));
  }
  return begins;
}

std::string AddressOf(const Host& host, const pb::FromHost::Ready& ready) {
  return ready.address().empty() ? WithoutUser(host.name) : ready.address();
}

// An address for each shard: what ssh reached its host at, and a port that the host has found.
Result<std::vector<net::Address>> ShardAddresses(const Plan& plan, const Readies& readies) {
  std::vector<net::Address> addresses;
  std::vector<int> ports_used(readies.size());
  for (const size_t host : plan.host_of_shard) {
    const pb::FromHost::Ready& ready = readies[host];
    const int next = ports_used[host]++;
    if (next >= ready.ports_size()) {
      return Status(Code::kMismatch, Cat(plan.hosts[host].name, ": saw ", ready.ports_size(),
                                         " free ports; is Tern there of the same version?"));
    }
    addresses.push_back(
        {AddressOf(plan.hosts[host], ready), static_cast<uint16_t>(ready.ports(next))});
  }
  return addresses;
}

// kUsage if some hosts were reached at loopback addresses, where the others cannot reach them.
// Returns whether all were.
Result<bool> AreAllLoopback(const Plan& plan, const Readies& readies) {
  std::vector<std::string> loopback, others;
  for (size_t host = 0; host < readies.size(); ++host) {
    const std::string address = AddressOf(plan.hosts[host], readies[host]);
    (net::IsLoopback(address) ? loopback : others).push_back(plan.hosts[host].name);
  }
  if (loopback.empty() || others.empty()) return others.empty();
  return Status(
      Code::kUsage,
      Cat("saw the host ", loopback.front(), ", which is reached at a loopback address, where ",
          others.front(), " cannot reach it; name it by an address of its network"));
}

// The job as its members get it: with addresses, and with keys where it leaves this machine.
Result<pb::Job> PlacedJob(pb::Job job, const Readies& readies, Plan* plan) {
  bool is_loopback = false;
  if (plan->has_own_servers) {
    std::vector<ReachedHost> reached;
    for (size_t host = 0; host < readies.size(); ++host) {
      reached.push_back({plan->hosts[host].name,
                         {readies[host].addresses().begin(), readies[host].addresses().end()}});
    }
    Result<std::vector<size_t>> host_of_shard = PlaceShardsByAddress(job, reached);
    if (!host_of_shard.ok()) return host_of_shard.status();
    plan->host_of_shard = *std::move(host_of_shard);
  } else {
    const Result<bool> are_loopback = AreAllLoopback(*plan, readies);
    if (!are_loopback.ok()) return are_loopback.status();
    is_loopback = *are_loopback;
    const Result<std::vector<net::Address>> addresses = ShardAddresses(*plan, readies);
    if (!addresses.ok()) return addresses.status();
    TERN_RETURN_IF_ERROR(SetServers(*addresses, &job));
  }
  if (job.security() == pb::Job::loopback && !is_loopback) job.set_security(pb::Job::curve);
  return job;
}

std::vector<Supervisor::Member> MakeMembers(const Plan& plan, const LocalJob& local,
                                            RemoteMembers* remote) {
  std::vector<Supervisor::Member> members;
  const auto spec_of = [&](const std::string& role, size_t host, const pb::ToHost::Start& start) {
    ProcessSpec spec = SpecOf(local.log_dir, role, start.member().rank());
    spec.host = plan.hosts[host].name;
    spec.is_users_program = !start.program().empty();
    return spec;
  };
  const auto add = [&](size_t host, pb::ToHost::Start start, Supervisor::Member member) {
    remote->AddMember(member.spec.name, host, std::move(start), member.return_time);
    members.push_back(std::move(member));
  };
  for (uint32_t shard = 0; shard < plan.host_of_shard.size(); ++shard) {
    pb::ToHost::Start start;
    start.mutable_member()->set_is_server(true);
    start.mutable_member()->set_rank(shard);
    const size_t host = plan.host_of_shard[shard];
    add(host, start, ServerMember(local, shard, spec_of("server", host, start)));
  }
  for (uint32_t rank = 0; rank < plan.host_of_rank.size(); ++rank) {
    const size_t host = plan.host_of_rank[rank];
    pb::ToHost::Start start;
    start.mutable_member()->set_rank(rank);
    start.set_program(plan.options.program);
    for (const std::string& argument : plan.options.arguments) start.add_arguments(argument);
    start.set_num_programs(static_cast<uint32_t>(
        std::count(plan.host_of_rank.begin(), plan.host_of_rank.end(), host)));
    add(host, start, WorkerMember(local, spec_of("worker", host, start)));
  }
  return members;
}

// "node0: server 0, worker 0, worker 1".
void PrintPlan(const Plan& plan, setup::Screen* screen) {
  for (size_t host = 0; host < plan.hosts.size(); ++host) {
    std::vector<std::string> names;
    const auto add_names = [&](const char* role, const std::vector<size_t>& hosts) {
      for (size_t number = 0; number < hosts.size(); ++number) {
        if (hosts[number] == host) names.push_back(Cat(role, number));
      }
    };
    add_names("server ", plan.host_of_shard);
    add_names("worker ", plan.host_of_rank);
    screen->PrintLine(Cat(plan.hosts[host].name, ": ", names.empty() ? "nothing" : Join(names)));
  }
}

// Where the weights of a job that has ended well are.
std::string WhatNext(const Plan& plan, const pb::Job& job) {
  if (setup::IsClientJob(job)) return "";
  const std::filesystem::path path = job.output_dir() + "/weights.safetensors";
  return Cat(
      "the weights are on ", plan.hosts[plan.host_of_rank[0]].name, ", in ",
      path.is_absolute() ? path.string() : (std::filesystem::path(plan.folder) / path).string());
}

}  // namespace

Status LaunchOnHosts(const Arguments& arguments) {
  const Time run_begin = Now();
  Result<Plan> plan = MakePlan(arguments);
  if (!plan.ok()) return plan.status();
  if (!plan->options.job.job_file.empty())
    TERN_RETURN_IF_ERROR(CheckJobFile(plan->options.job.job_file));
  const Result<pb::Job> read_job = ReadJob(plan->options.job);
  if (!read_job.ok()) return read_job.status();
  plan->has_own_servers = !arguments.HasFlag("servers") && HasOwnServers(*read_job);
  if (!plan->has_own_servers)
    plan->host_of_shard = PlaceShards(plan->hosts.size(), plan->num_servers);
  LocalJob local;
  local.max_restarts = plan->options.max_restarts;
  local.log_dir = arguments.HasFlag("log_dir") ? arguments.LastValue("log_dir")
                                               : read_job->output_dir() + "/logs";
  plan->ssh.log_dir = local.log_dir;
  TerminalLine stdout_line(STDOUT_FILENO);  // It waits for its reader when all else has ended.
  TERN_RETURN_IF_ERROR(PrepareFolders(*read_job, local.log_dir));
  Result<MemberKeys> keys = MemberKeys::ReadFor(
      *read_job, plan->has_own_servers ? read_job->servers_size() : plan->host_of_shard.size());
  if (!keys.ok()) return keys.status();
  const Result<FolderLock> lock = LockFolder(*read_job);
  if (!lock.ok()) return lock.status();
  const setup::RunResult run_result(read_job->output_dir());
  signal(SIGPIPE, SIG_IGN);  // The job continues if the reader of this output ends.
  StopSignals stop_signals(StopSignals::SecondSignal::kReport);
  setup::Screen screen(stdout_line);
  const ProgressPipe progress_pipe;
  TERN_RETURN_IF_ERROR(progress_pipe.status());
  RemoteMembers remote(plan->ssh, BeginsOf(*plan), progress_pipe.writer(), &stdout_line);
  const auto readies = remote.Connect(&stop_signals);
  if (!readies.ok()) return readies.status();
  const Result<pb::Job> job = PlacedJob(*read_job, *readies, &*plan);
  if (!job.ok()) return job.status();
  TERN_RETURN_IF_ERROR(WriteJob(*job, &local));
  keys->MakeMissing(*job);
  pb::ToHost::SetJob set_job;
  set_job.set_yaml(config::ToYaml(*job));
  set_job.set_log_dir(local.log_dir);
  set_job.set_launch(setup::RandomIncarnation());
  remote.SetJob(set_job, std::move(*keys));
  local.what_next = WhatNext(*plan, *job);
  PrintPlan(*plan, &screen);
  Supervisor::Options options;
  options.members = MakeMembers(*plan, local, &remote);
  options.progress_fd = progress_pipe.reader();
  options.starter = &remote;
  return SuperviseToTheEnd(local, std::move(options), run_result, run_begin, &stop_signals,
                           &screen);
}

}  // namespace tern::tools
