// The performance model of the TernGrad paper (Wen et al. 2017, Appendix B, equations 15 to 18),
// unchanged: N = i j GPUs, i per machine on j machines. An all-reduce adds the gradients over the
// GPUs of each machine, then over the machines. Times are in seconds, bandwidths in bytes per
// second. Strong scaling divides one mini-batch among the GPUs; in weak scaling each GPU has its
// own.
//
//   |g|            gradient_bytes       bytes of a gradient as it is sent
//   C_gwd          gpu_bandwidth        bandwidth between the GPUs of a machine
//   C_cwd          cpu_bandwidth        bandwidth between a GPU and its CPU
//   C_nwd          network_bandwidth    bandwidth between machines
//   C_ncost        network_latency_s    latency between machines
//   K              samples              samples of a mini-batch
//   T(1,1,K,|g|)                        the step of one GPU: compute_s + |g| / C_cwd
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tern::tools::paper {

struct Cluster {
  const char* name;
  double gpu_bandwidth, cpu_bandwidth, network_bandwidth, network_latency_s;
  uint32_t gpus_per_machine;
};
struct Workload {
  double gradient_bytes = 0;
  double samples = 0;
  double compute_s = 0;  // Seconds to compute `samples` samples on one GPU.
};

// Returns T_comm, the seconds of the communication of a step with i GPUs on each of j machines:
// T_comm(i, j, K, |g|) = |g|/C_gwd log2 i + |g|/C_cwd + (C_ncost + |g|/C_nwd) log2 j
double CommunicationSeconds(const Cluster& cluster, uint32_t i, uint32_t j, double gradient_bytes);
// Equation 15:  T_strong = (T(1,1,K,|g|) - |g|/C_cwd) / N + T_comm
// Equation 16:  throughput = K / T_strong
double StrongSeconds(const Cluster& cluster, const Workload& workload, uint32_t i, uint32_t j);
double StrongThroughput(const Cluster& cluster, const Workload& workload, uint32_t i, uint32_t j);
// Equation 17:  T_weak = T(1,1,K,|g|) + |g|/C_gwd log2 i + (C_ncost + |g|/C_nwd) log2 j
// Equation 18:  throughput = N K / T_weak
double WeakSeconds(const Cluster& cluster, const Workload& workload, uint32_t i, uint32_t j);
double WeakThroughput(const Cluster& cluster, const Workload& workload, uint32_t i, uint32_t j);

// Returns the compute_s for which, by equation 17, a step becomes `speedup` times as fast if its
// gradients of `gradient_bytes` become `compression` times smaller.
double ComputeFromSpeedup(const Cluster& cluster, double gradient_bytes, double compression,
                          double speedup, uint32_t i, uint32_t j);

// Figure 5 of the paper. For two clusters the paper's text gives the kind of links, 4 GPUs per
// machine, 1 to 128 machines, the batch of each GPU, and two speed-ups (struct Anchor). The other
// values come from these sources:
//
//   bandwidths of PCIe and NVLink, latencies   data sheets
//   |g|                                        4 bytes per parameter of the published nets; for
//                                              TernGrad 1/16 of that (2 bits per parameter)
//   T(1,1,K,|g|)                               for one net per cluster from the printed speed-up;
//                                              for the other nets in proportion to multiply-adds.
//                                              Beside it, for the net of panel a, a time that was
//                                              published elsewhere, with which the same equations
//                                              give another speed-up (struct Published)
struct Net {
  const char* name;
  double parameters;
  uint32_t batch;        // Images per GPU, from the caption of the figure.
  double multiply_adds;  // Multiply-adds of the forward pass of one image.
};
// A speed-up over fp32 that the paper's text states for a net on j machines with i GPUs each. Panel
// a: "TernGrad can have 3.04x training speedup for AlexNet on 8 GPUs". Panel b: "double the
// training speed of VggNet-A on 128 nodes".
struct Anchor {
  const char* net;
  uint32_t i, j;
  double speedup;
};
// A measurement of others: forward and backward pass of the anchor's net on one GPU of the panel's
// kind. More images at once take at most proportionally longer.
struct Published {
  const char* source;
  double seconds;
  uint32_t images;
};
// One of the two plots of the figure.
struct Panel {
  const char* name;
  Cluster cluster;
  Anchor anchor;
  std::optional<Published> published;
};
const std::vector<Net>& Nets();
const std::vector<Panel>& Panels();
inline constexpr double kTernaryCompression = 16;  // 32 bits of fp32 become 2 bits.

// Returns the workload of a net in a panel, with gradients `compression` times smaller than in
// fp32.
Workload WorkloadOf(const Panel& panel, const Net& net, double compression);
// Returns the speed-up of TernGrad over fp32 by equation 17 for the anchor's net on i GPUs of each
// of j machines, with the published time of computing. REQUIRES a published time.
double SpeedupWithPublishedTime(const Panel& panel, uint32_t i, uint32_t j);

// The values of the figure for one net on one number of GPUs.
struct Point {
  std::string panel, net;
  uint32_t gpus = 0, machines = 0;
  // Images per second by equation 18, and by equation 16 with K = 512 times the batch of one GPU.
  double fp32_weak = 0, ternary_weak = 0;
  double fp32_strong = 0, ternary_strong = 0;
  // The speed-up by equation 18 with the published time of computing, if the net has one.
  std::optional<double> published_speedup;
};
// Returns all points of the figure: for 1, 2 and 4 GPUs of one machine, then for 4 GPUs on each of
// 2, 4, ... 128 machines.
std::vector<Point> Figure5();

// Formats the points as tables, with the sources of the constants.
std::string FormatTables(const std::vector<Point>& points);
// Formats the points as CSV.
std::string FormatCsv(const std::vector<Point>& points);

}  // namespace tern::tools::paper
