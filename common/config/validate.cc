#include "common/config/validate.h"

#include <set>
#include <utility>

#include "common/base/cpus.h"
#include "common/config/address.h"
#include "common/config/between_keys.h"

namespace tern::config {
namespace {

class JobChecker : private BetweenKeys {
 public:
  JobChecker(const pb::Job& job, const Reading& reading) : BetweenKeys(job, reading) {}

  void Check() {
    CheckServers();
    CheckLoopback();
    CheckWorkers();
    CheckModel();
    CheckExchange();
    CheckFaults();
    CheckMetrics();
  }

 private:
  static std::string ServerKey(int s) { return Join("servers", static_cast<size_t>(s)); }

  void CheckServers() {
    std::set<std::pair<std::string, uint32_t>> taken;
    for (int s = 0; s < job_.servers_size(); ++s) {
      CheckAddress(s, &taken);
      CheckDataPorts(s, &taken);
      const std::string key = Join(ServerKey(s), "bind_host");
      if (job_.servers(s).has_bind_host() && Sound({key}) &&
          !ParseHost(job_.servers(s).bind_host())) {
        Report(key, Shown(job_.servers(s).bind_host()),
               "a host without a port, e.g. 0.0.0.0, \"::\" or eth0");
      }
    }
  }

  void CheckAddress(int s, std::set<std::pair<std::string, uint32_t>>* taken) {
    const std::string key = Join(ServerKey(s), "address");
    if (!Sound({key})) return;
    const std::string& text = job_.servers(s).address();
    const std::optional<Address> address = ParseAddress(text);
    if (!address) {
      Report(
          key, Shown(text),
          "HOST:PORT with a port of 1 to 65535, e.g. 10.0.0.1:7500, \"[::1]:7500\" or node3:7500");
    } else if (IsWildcard(address->host)) {
      Report(key, Shown(text),
             "a host that workers can connect to; where to bind instead is bind_host");
    } else if (!taken->insert({address->host, address->port}).second) {
      Report(key, Shown(text) + ", which another server has",
             "an address of its own for each server");
    }
  }

  void CheckDataPorts(int s, std::set<std::pair<std::string, uint32_t>>* taken) {
    const pb::Server& server = job_.servers(s);
    const std::string key = Join(ServerKey(s), "data_ports");
    if (server.data_ports_size() == 0 || !Sound({key, Join(ServerKey(s), "data_sockets")})) return;
    if (static_cast<uint32_t>(server.data_ports_size()) != server.data_sockets()) {
      Report(key, std::to_string(server.data_ports_size()) + " ports",
             "as many as data_sockets (" + std::to_string(server.data_sockets()) + "), or none");
    }
    const std::optional<Address> address = ParseAddress(server.address());
    if (!address) return;
    for (int i = 0; i < server.data_ports_size(); ++i) {
      const std::string port_key = Join(key, static_cast<size_t>(i));
      if (!Sound({port_key}) || taken->insert({address->host, server.data_ports(i)}).second)
        continue;
      Report(port_key,
             std::to_string(server.data_ports(i)) + ", which is taken on " + address->host,
             "a port of its own for each socket of a host");
    }
  }

  void CheckLoopback() {
    if (!Sound({"security"}) || job_.security() != pb::Job::loopback) return;
    for (int s = 0; s < job_.servers_size(); ++s) {
      const pb::Server& server = job_.servers(s);
      const std::optional<Address> address = ParseAddress(server.address());
      if (address)
        CheckLoopbackHost(Join(ServerKey(s), "address"), server.address(), address->host);
      const std::optional<std::string> bind = ParseHost(server.bind_host());
      if (bind) CheckLoopbackHost(Join(ServerKey(s), "bind_host"), server.bind_host(), *bind);
    }
    const std::optional<std::string> host = ParseHost(job_.metrics().host());
    if (host) {
      CheckLoopbackHost("metrics.host", job_.metrics().host(), *host);
    } else if (Sound({"metrics.host"})) {
      Report("metrics.host", Shown(job_.metrics().host()), "a host without a port, e.g. 127.0.0.1");
    }
  }

  void CheckLoopbackHost(const std::string& key, const std::string& text, const std::string& host) {
    if (IsLoopback(host) || !Sound({key})) return;
    Report(key, Shown(text),
           "a loopback address (127.0.0.0/8, ::1 or localhost), for the job's security is "
           "`loopback`; to leave this "
           "machine write `security: none`, and anyone who reaches the ports may take part");
  }

  void CheckWorkers() {
    if (job_.workers().has_cpus()) CheckCpus("workers.cpus", job_.workers().cpus());
    std::set<uint32_t> ranks;
    for (int i = 0; i < job_.workers().overrides_size(); ++i) {
      const std::string own = Join("workers.overrides", static_cast<size_t>(i));
      if (job_.workers().overrides(i).has_cpus())
        CheckCpus(Join(own, "cpus"), job_.workers().overrides(i).cpus());
      const std::string key = Join(own, "rank");
      if (!Sound({key, "workers.count"})) continue;
      const uint32_t rank = job_.workers().overrides(i).rank();
      if (rank >= job_.workers().count()) {
        Report(key, std::to_string(rank),
               "ranks 0 to " + std::to_string(job_.workers().count() - 1));
      } else if (!ranks.insert(rank).second) {
        Report(key, std::to_string(rank) + " a second time", "each rank once");
      }
    }
  }

  // Which of them a worker's machine has, that worker knows.
  void CheckCpus(const std::string& key, const std::string& cpus) {
    if (!Sound({key}) || ParseCpus(cpus)) return;
    Report(
        key, Shown(cpus),
        "numbers of CPUs and ranges of them, 0 to " + std::to_string(kMaxCpu) + ", e.g. \"0-3,8\"");
  }

  void CheckModel() {
    const pb::Model& model = job_.model();
    if (!Sound({"model.name", "model.net", "model.padding"})) return;
    if (model.has_name() == model.has_net()) {
      Report(model.has_net() ? "model.net" : "model",
             model.has_net() ? "both name and net" : "neither name nor net",
             "exactly one of model.name and model.net");
    }
    if (model.padding() != pb::Model::valid && model.name() != "lenet") {
      Report("model.padding", "same", "valid (only lenet is built with another padding)");
    }
  }

  void CheckExchange() {
    const pb::Exchange& exchange = job_.exchange();
    if (Sound({"exchange.clip", "exchange.scaler"}) && exchange.clip() == pb::Exchange::grace &&
        exchange.scaler() != pb::Exchange::per_worker) {
      Report("exchange.clip", "grace with scaler: " + pb::Exchange::Scaler_Name(exchange.scaler()),
             "grace with scaler: per_worker; or paper, official or none");
    }
    if (Sound({"exchange.credit_kib", "exchange.chunk_kib"}) &&
        exchange.credit_kib() < exchange.chunk_kib()) {
      Report("exchange.credit_kib", std::to_string(exchange.credit_kib()),
             "at least exchange.chunk_kib (" + std::to_string(exchange.chunk_kib()) +
                 "): a chunk that is larger than the credit never leaves");
    }
  }

  void CheckFaults() {
    const pb::Faults& faults = job_.faults();
    if (Sound({"faults.heartbeat_ms", "faults.suspect_after_s"}) &&
        faults.suspect_after_s() * 1000 <= faults.heartbeat_ms()) {
      Report("faults.suspect_after_s", NumberText(faults.suspect_after_s()),
             "more than faults.heartbeat_ms (" + NumberText(faults.heartbeat_ms()) + " ms)");
    }
    if (Sound({"faults.suspect_after_s", "faults.dead_after_s"}) &&
        faults.dead_after_s() <= faults.suspect_after_s()) {
      Report("faults.dead_after_s", NumberText(faults.dead_after_s()),
             "more than faults.suspect_after_s (" + NumberText(faults.suspect_after_s()) + ")");
    }
  }

  void CheckMetrics() {
    const pb::Metrics& metrics = job_.metrics();
    const std::string key = "metrics.histograms_every_steps";
    if (!Sound({key, "metrics.tensorboard"}) || metrics.histograms_every_steps() == 0 ||
        metrics.tensorboard())
      return;
    Report(
        key, std::to_string(metrics.histograms_every_steps()) + " with tensorboard: false",
        "0, for histograms stand in TensorBoard's event files; or set metrics.tensorboard: true");
  }
};

}  // namespace

void CheckJob(const pb::Job& job, const Reading& reading) {
  JobChecker(job, reading).Check();
  CheckData(job, reading);
  CheckTrain(job, reading);
  CheckAlgorithm(job, reading);
}

}  // namespace tern::config
