#include "setup/metrics_routes.h"

#include <memory>
#include <utility>

#include "common/base/process_metrics.h"
#include "common/base/text.h"
#include "common/config/address.h"
#include "common/net/address.h"

namespace tern::setup {

net::HttpRoutes MetricsRoutes(const Setup& setup, uint32_t rank, Registry& registry) {
  const pb::Job& job = setup.job;
  registry
      .GetGauge("tern_build_info", "Always 1; the labels say what runs",
                {{"version", TERN_VERSION}, {"commit", setup.commit}})
      .Set(1);
  // The job's name is not in a label `job`, because Prometheus sets that label itself; and the role
  // in none, because the list of targets says it (deploy/prometheus).
  registry
      .GetGauge("tern_job_info", "Always 1; the labels say what is trained, and who this is",
                {{"name", job.name()},
                 {"model", job.model().name().empty() ? "net" : job.model().name()},
                 {"codec", job.exchange().codec()},
                 {"algorithm", job.train().algorithm()},
                 {"rank", std::to_string(rank)},
                 {"host", Printable(setup.hello.host())}})
      .Set(1);
  const auto process_metrics = std::make_shared<ProcessMetrics>(registry);
  return {{"/metrics", [process_metrics, &registry] {
             process_metrics->Update();
             return net::HttpAnswer{200, registry.PrometheusText(),
                                    "text/plain; version=0.0.4; charset=utf-8"};
           }}};
}

uint16_t ServerMetricsPort(const pb::Metrics& metrics, uint32_t shard) {
  const bool is_shared = metrics.port() == 0 || metrics.same_port();
  return static_cast<uint16_t>(metrics.port() + (is_shared ? 0 : shard));
}

uint16_t WorkerMetricsPort(const pb::Metrics& metrics, uint32_t rank) {
  const bool is_shared = metrics.port() == 0 || metrics.same_port();
  return static_cast<uint16_t>(metrics.port() + (is_shared ? 0 : 100 + rank));
}

net::HttpRoutes::mapped_type SignpostRoute(const pb::Job& job, const std::string& name) {
  return [text = Cat(name, " of the job ", job.name(), "\n/metrics: for Prometheus\n", PageUrl(job),
                     ": the page of the whole job, from server shard 0\n")] {
    return net::HttpAnswer{200, text};
  };
}

std::string PageUrl(const pb::Job& job) {
  if (job.metrics().port() == 0 || job.servers_size() == 0) return "";
  std::string host = config::ParseHost(job.metrics().host()).value_or(job.metrics().host());
  if (config::IsWildcard(host)) {
    if (const Result<net::Address> shard0 = net::ParseAddress(job.servers(0).address());
        shard0.ok())
      host = shard0->host;
  }
  return Cat("http://", net::ToString({host, static_cast<uint16_t>(job.metrics().port())}), "/");
}

}  // namespace tern::setup
