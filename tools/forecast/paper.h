// The performance model of TernGrad (Wen et al. 2017, Appendix B, equations 15 to 18), to the
// letter: N = i j GPUs, i per machine on j machines; gradients are added by an all-reduce over the
// GPUs of a machine, then over the machines. Seconds, bytes, bytes per second.
//
//   |g|            gradient_bytes       size of a gradient on its way
//   C_gwd          gpu_bandwidth        between the GPUs of a machine
//   C_cwd          cpu_bandwidth        between GPU and CPU
//   C_nwd          network_bandwidth    between machines
//   C_ncost        network_latency_s    between machines
//   K              samples              of a mini-batch; in weak scaling, of each worker
//   T(1,1,K,|g|)   compute_s            step of one GPU: compute_s + |g| / C_cwd
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::tools::paper {

struct Cluster {
  const char* name;
  double gpu_bandwidth, cpu_bandwidth, network_bandwidth, network_latency_s;
  uint32_t gpus_a_machine;
};
struct Workload {
  double gradient_bytes = 0;
  double samples = 0;
  double compute_s = 0;  // of `samples` on one GPU
};

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

// The compute_s for which equation 17 gives this speed-up with gradients `times` smaller.
double ComputeFromSpeedup(const Cluster& cluster, double gradient_bytes, double times,
                          double speedup, uint32_t i, uint32_t j);

// Figure 5. The paper's text gives, for two clusters, the kind of links, 4 GPUs per machine, 1 to
// 128 machines, the batch of each GPU, and two speed-ups (Anchor below). Our sources for the rest:
//
//   bandwidths of PCIe and NVLink, latencies   data sheets, named at each constant
//   |g|                                        4 bytes per parameter of the published nets; for
//                                              TernGrad 1/16 of that (2 bits)
//   T(1,1,K,|g|)                               for one net per cluster, from the printed speed-up;
//                                              for the other nets, by their multiply-adds
struct Net {
  const char* name;
  double parameters;
  uint32_t batch;        // per GPU, from the caption
  double multiply_adds;  // of one image, forward
};
// A speed-up that the paper's text states for a net: "TernGrad can have 3.04x training speedup for
// AlexNet on 8 GPUs" (a), "double the training speed of VggNet-A on 128 nodes" (b).
struct Anchor {
  const char* net;
  uint32_t i, j;
  double speedup;
};
struct Panel {
  const char* name;
  Cluster cluster;
  Anchor anchor;
};
const std::vector<Net>& Nets();
const std::vector<Panel>& Panels();
inline constexpr double kTimesSmaller = 16;

// The workload of a net in a panel of the figure, if gradients are `times` smaller than in fp32.
Workload WorkloadOf(const Panel& panel, const Net& net, double times);

struct Point {
  std::string panel, net;
  uint32_t gpus = 0, machines = 0;
  double fp32_weak = 0, ternary_weak = 0;      // images a second, equation 18
  double fp32_strong = 0, ternary_strong = 0;  // equation 16, K = 512 times the batch of one GPU
};
// The figure's series: 1, 2, 4 GPUs of one machine, then 4 on each of 2, 4, ... 128 machines.
std::vector<Point> Figure5();

// The points as tables, with the sources of the constants.
std::string Text(const std::vector<Point>& points);
// The points as CSV.
std::string Csv(const std::vector<Point>& points);

}  // namespace tern::tools::paper
