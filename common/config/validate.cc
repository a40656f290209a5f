#include "common/config/validate.h"

#include <set>
#include <utility>

#include "common/algorithm/ranks.h"
#include "common/base/cpus.h"
#include "common/base/ip_network.h"
#include "common/config/address.h"
#include "common/config/canonical.h"
#include "common/config/cross_key_checker.h"

namespace tern::config {
namespace {

class JobChecker : private CrossKeyChecker {
 public:
  JobChecker(const pb::Job& job, const ParseContext& context) : CrossKeyChecker(job, context) {}

  void Check() {
    CheckServers();
    CheckLoopback();
    CheckKeys();
    CheckAllow();
    CheckWorkers();
    CheckModel();
    CheckExchange();
    CheckQsgd();
    CheckFaults();
    CheckCheckpoints();
    CheckMetrics();
  }

 private:
  static std::string ServerKey(int s) { return Join("servers", static_cast<size_t>(s)); }

  void CheckServers() {
    std::set<std::pair<std::string, uint32_t>> used_ports;
    for (int s = 0; s < job_.servers_size(); ++s) {
      CheckAddress(s, &used_ports);
      CheckDataPorts(s, &used_ports);
      const std::string key = Join(ServerKey(s), "bind_host");
      if (job_.servers(s).has_bind_host() && AreValid({key}) &&
          !ParseHost(job_.servers(s).bind_host())) {
        Report(key, Excerpt(job_.servers(s).bind_host()),
               "a host without a port, e.g. 0.0.0.0, \"::\" or eth0");
      }
    }
  }

  void CheckAddress(int s, std::set<std::pair<std::string, uint32_t>>* used_ports) {
    const std::string key = Join(ServerKey(s), "address");
    if (!AreValid({key})) return;
    const std::string& text = job_.servers(s).address();
    const std::optional<Address> address = ParseAddress(text);
    if (!address) {
      Report(
          key, Excerpt(text),
          "HOST:PORT with a port of 1 to 65535, e.g. 10.0.0.1:7500, \"[::1]:7500\" or node3:7500");
    } else if (IsWildcard(address->host)) {
      Report(key, Excerpt(text),
             "a host to which workers can connect; bind_host says where the server binds");
    } else if (!used_ports->insert({address->host, address->port}).second) {
      Report(key, Excerpt(text) + ", which another server has",
             "a different address for each server");
    }
  }

  void CheckDataPorts(int s, std::set<std::pair<std::string, uint32_t>>* used_ports) {
    const pb::Server& server = job_.servers(s);
    const std::string key = Join(ServerKey(s), "data_ports");
    if (server.data_ports_size() == 0 || !AreValid({key, Join(ServerKey(s), "data_sockets")}))
      return;
    if (static_cast<uint32_t>(server.data_ports_size()) != server.data_sockets()) {
      Report(key, std::to_string(server.data_ports_size()) + " ports",
             "as many as data_sockets (" + std::to_string(server.data_sockets()) + "), or none");
    }
    const std::optional<Address> address = ParseAddress(server.address());
    if (!address) return;
    for (int i = 0; i < server.data_ports_size(); ++i) {
      const std::string port_key = Join(key, static_cast<size_t>(i));
      if (!AreValid({port_key}) || used_ports->insert({address->host, server.data_ports(i)}).second)
        continue;
      Report(port_key,
             std::to_string(server.data_ports(i)) + ", which is taken on " + address->host,
             "a different port for each socket of a host");
    }
  }

  void CheckLoopback() {
    if (!AreValid({"security"}) || job_.security() != pb::Job::loopback) return;
    for (int s = 0; s < job_.servers_size(); ++s) {
      const pb::Server& server = job_.servers(s);
      const std::optional<Address> address = ParseAddress(server.address());
      if (address)
        CheckLoopbackHost(Join(ServerKey(s), "address"), server.address(), address->host);
      const std::optional<std::string> bind_host = ParseHost(server.bind_host());
      if (bind_host)
        CheckLoopbackHost(Join(ServerKey(s), "bind_host"), server.bind_host(), *bind_host);
    }
    const std::optional<std::string> host = ParseHost(job_.metrics().host());
    if (host) {
      CheckLoopbackHost("metrics.host", job_.metrics().host(), *host);
    } else if (AreValid({"metrics.host"})) {
      Report("metrics.host", Excerpt(job_.metrics().host()),
             "a host without a port, e.g. 127.0.0.1");
    }
  }

  void CheckLoopbackHost(const std::string& key, const std::string& text, const std::string& host) {
    if (IsLoopback(host) || !AreValid({key})) return;
    Report(key, Excerpt(text),
           "a loopback address (127.0.0.0/8, ::1 or localhost), because the job has security: "
           "loopback; to use other machines set security: curve and make keys with `tern keys "
           "make` (`tern launch` makes them itself); or set security: none, but then anyone who "
           "can reach the ports may take part");
  }

  void CheckKeys() {
    const pb::Keys& keys = job_.keys();
    if (keys.ByteSizeLong() == 0 || !AreValid({"security", "keys"})) return;
    if (job_.security() != pb::Job::curve) {
      return Report("keys", "keys with security: " + pb::Job::Security_Name(job_.security()),
                    "keys only with security: curve");
    }
    if (keys.dir().empty() && (keys.own().empty() || keys.peers().empty())) {
      Report("keys.dir", "nothing",
             "the folder that `tern keys make` wrote; or set keys.own and keys.peers");
    }
    std::string own = keys.own();
    for (const std::string placeholder : {"{role}", "{rank}"}) {
      while (own.find(placeholder) != std::string::npos)
        own.erase(own.find(placeholder), placeholder.size());
    }
    if (own.find_first_of("{}") != std::string::npos) {
      Report("keys.own", Excerpt(keys.own()), "a path in which only {role} and {rank} have braces");
    }
  }

  void CheckAllow() {
    if (job_.allow_size() == 0 || !AreValid({"security", "allow"})) return;
    if (job_.security() != pb::Job::none) {
      return Report("allow", "networks with security: " + pb::Job::Security_Name(job_.security()),
                    "networks only with security: none");
    }
    for (int i = 0; i < job_.allow_size(); ++i) {
      if (IpNetwork::Parse(job_.allow(i))) continue;
      Report(Join("allow", static_cast<size_t>(i)), Excerpt(job_.allow(i)),
             "a network or an address, e.g. 10.0.0.0/24, fd00::/64 or 10.0.0.7");
    }
  }

  void CheckWorkers() {
    if (job_.workers().has_cpus()) CheckCpus("workers.cpus", job_.workers().cpus());
    if (job_.workers().has_gpu()) CheckGpu("workers.gpu", job_.workers().device());
    std::set<uint32_t> ranks;
    for (int i = 0; i < job_.workers().overrides_size(); ++i) {
      const std::string override_key = Join("workers.overrides", static_cast<size_t>(i));
      if (job_.workers().overrides(i).has_cpus())
        CheckCpus(Join(override_key, "cpus"), job_.workers().overrides(i).cpus());
      if (job_.workers().overrides(i).has_gpu()) {
        CheckGpu(Join(override_key, "gpu"), job_.workers().overrides(i).has_device()
                                                ? job_.workers().overrides(i).device()
                                                : job_.workers().device());
      }
      const std::string key = Join(override_key, "rank");
      if (!AreValid({key, "workers.count"})) continue;
      const uint32_t rank = job_.workers().overrides(i).rank();
      if (rank >= algorithm::NumRanks(job_)) {
        Report(key, std::to_string(rank),
               "ranks 0 to " + std::to_string(algorithm::NumRanks(job_) - 1));
      } else if (!ranks.insert(rank).second) {
        Report(key, std::to_string(rank) + " a second time", "each rank once");
      }
    }
  }

  // Checks only the syntax of the list; the worker checks which CPUs its machine has.
  void CheckCpus(const std::string& key, const std::string& cpus) {
    if (!AreValid({key}) || ParseCpus(cpus)) return;
    Report(key, Excerpt(cpus),
           "CPU numbers and ranges, 0 to " + std::to_string(kMaxCpu) + ", e.g. \"0-3,8\"");
  }

  // `device`: that of the workers to which the key belongs.
  void CheckGpu(const std::string& key, pb::Workers::Device device) {
    if (!AreValid({key}) || device == pb::Workers::cuda) return;
    Report(key, "the number of a GPU, with device: " + pb::Workers::Device_Name(device),
           "device: cuda beside it, or no such key");
  }

  void CheckModel() {
    const pb::Model& model = job_.model();
    if (context_.compute == pb::Train::client || context_.compute == pb::Train::module) return;
    if (!AreValid({"model.name", "model.net", "model.padding"})) return;
    if (model.has_name() == model.has_net()) {
      Report(model.has_net() ? "model.net" : "model",
             model.has_net() ? "both name and net" : "neither name nor net",
             "exactly one of model.name and model.net");
    }
    if (AreValid({"model.new_tensors", "model.weights"}) && model.new_tensors_size() > 0 &&
        model.weights().empty()) {
      Report("model.new_tensors", "names of tensors without model.weights",
             "names only with model.weights, because all tensors are new without it");
    }
    if (model.padding() != pb::Model::valid && model.name() != "lenet") {
      Report("model.padding", "same", "valid (only lenet supports another padding)");
    }
  }

  void CheckExchange() {
    const pb::Exchange& exchange = job_.exchange();
    if (AreValid({"exchange.clip", "exchange.scaler"}) && exchange.clip() == pb::Exchange::grace &&
        exchange.scaler() != pb::Exchange::per_worker) {
      Report("exchange.clip", "grace with scaler: " + pb::Exchange::Scaler_Name(exchange.scaler()),
             "grace with scaler: per_worker; or paper, official or none");
    }
    if (AreValid({"exchange.credit_kib", "exchange.chunk_kib"}) &&
        exchange.credit_kib() < exchange.chunk_kib()) {
      Report("exchange.credit_kib", std::to_string(exchange.credit_kib()),
             "at least exchange.chunk_kib (" + std::to_string(exchange.chunk_kib()) +
                 "): a chunk that is larger than the credit could never be sent");
    }
  }

  void CheckQsgd() {
    const pb::Qsgd& qsgd = job_.exchange().qsgd();
    const bool has_root_levels =
        qsgd.levels() != pb::Qsgd::by_bits && qsgd.levels() != pb::Qsgd::given;
    if (!has_root_levels || qsgd.norm() == pb::Qsgd::two ||
        !AreValid({"exchange.qsgd", "exchange.qsgd.norm", "exchange.qsgd.levels"}))
      return;
    const std::string levels = "levels: " + pb::Qsgd::Levels_Name(qsgd.levels());
    Report("exchange.qsgd.norm", "max with " + levels,
           "two, because " + levels +
               " is a number of levels of the 2-norm, too many by the ratio of the norms for max; "
               "or levels: by_bits or given");
  }

  void CheckFaults() {
    const pb::Faults& faults = job_.faults();
    if (AreValid({"faults.heartbeat_ms", "faults.suspect_after_s"}) &&
        faults.suspect_after_s() * 1000 <= faults.heartbeat_ms()) {
      Report("faults.suspect_after_s", NumberText(faults.suspect_after_s()),
             "more than faults.heartbeat_ms (" + NumberText(faults.heartbeat_ms()) + " ms)");
    }
    if (AreValid({"faults.suspect_after_s", "faults.dead_after_s"}) &&
        faults.dead_after_s() <= faults.suspect_after_s()) {
      Report("faults.dead_after_s", NumberText(faults.dead_after_s()),
             "more than faults.suspect_after_s (" + NumberText(faults.suspect_after_s()) + ")");
    }
  }

  void CheckCheckpoints() {
    for (int i = 0; i < job_.checkpoints().accept_size(); ++i) {
      const std::string& key = job_.checkpoints().accept(i);
      if (IsKey(key)) continue;
      Report(Join("checkpoints.accept", static_cast<size_t>(i)), Excerpt(key),
             "a key or section of a job, e.g. train.batch_total or train.optimizer");
    }
  }

  void CheckMetrics() {
    CheckHistograms();
    CheckOpenMetrics();
    CheckMetricsPorts();
  }

  // Without same_port, the worker of the highest rank serves at the highest port.
  void CheckMetricsPorts() {
    const pb::Metrics& metrics = job_.metrics();
    if (!AreValid({"metrics.port", "workers.count", "workers.max"}) || metrics.port() == 0) return;
    const uint32_t highest = 100 + algorithm::NumRanks(job_) - 1;
    if (metrics.same_port() || metrics.port() + highest <= 65535) return;
    Report("metrics.port", std::to_string(metrics.port()),
           "at most " + std::to_string(65535 - highest) +
               ", because worker r serves at port + 100 + r; or set metrics.same_port to true");
  }

  void CheckOpenMetrics() {
    const pb::Metrics& metrics = job_.metrics();
    const std::optional<std::string> host = ParseHost(metrics.host());
    if (!AreValid({"security", "metrics"}) || job_.security() != pb::Job::curve || !host ||
        IsLoopback(*host) || metrics.port() == 0 || metrics.open())
      return;
    Report("metrics.host", Excerpt(metrics.host()),
           "a loopback address, because the page is neither encrypted nor asks for a key; or set "
           "metrics.open: true");
  }

  void CheckHistograms() {
    const pb::Metrics& metrics = job_.metrics();
    const std::string key = "metrics.histograms_every_steps";
    if (!AreValid({key, "metrics.tensorboard"}) || metrics.histograms_every_steps() == 0 ||
        metrics.tensorboard())
      return;
    Report(key, std::to_string(metrics.histograms_every_steps()) + " with tensorboard: false",
           "0, because histograms are written to TensorBoard's event files; or set "
           "metrics.tensorboard: true");
  }
};

}  // namespace

void CheckJob(const pb::Job& job, const ParseContext& context) {
  JobChecker(job, context).Check();
  if (context.compute == pb::Train::client) {
    CheckClient(job, context);
  } else if (context.compute == pb::Train::module) {
    CheckModule(job, context);
    CheckTrain(job, context);
  } else {
    CheckData(job, context);
    CheckTrain(job, context);
  }
  CheckCodecs(job, context);
  CheckAlgorithm(job, context);
}

}  // namespace tern::config
