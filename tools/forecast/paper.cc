#include "tools/forecast/paper.h"

#include <cmath>
#include <cstring>

#include "common/base/text.h"
#include "tools/table.h"

namespace tern::tools::paper {

namespace {

constexpr double kGiga = 1e9;
// In strong scaling the mini-batch K is as large as the batches of this many GPUs together.
constexpr uint32_t kStrongGpus = 512;

}  // namespace

// In these functions there are `i` GPUs on each of `j` machines; paper.h has the equations.
double CommunicationSeconds(const Cluster& c, uint32_t i, uint32_t j, double gradient_bytes) {
  return gradient_bytes / c.gpu_bandwidth * std::log2(i) + gradient_bytes / c.cpu_bandwidth +
         (c.network_latency_s + gradient_bytes / c.network_bandwidth) * std::log2(j);
}

double StrongSeconds(const Cluster& cluster, const Workload& workload, uint32_t i, uint32_t j) {
  return workload.compute_s / (static_cast<double>(i) * j) +
         CommunicationSeconds(cluster, i, j, workload.gradient_bytes);
}
double StrongThroughput(const Cluster& cluster, const Workload& workload, uint32_t i, uint32_t j) {
  return workload.samples / StrongSeconds(cluster, workload, i, j);
}

double WeakSeconds(const Cluster& cluster, const Workload& workload, uint32_t i, uint32_t j) {
  return workload.compute_s + CommunicationSeconds(cluster, i, j, workload.gradient_bytes);
}
double WeakThroughput(const Cluster& cluster, const Workload& workload, uint32_t i, uint32_t j) {
  return static_cast<double>(i) * j * workload.samples / WeakSeconds(cluster, workload, i, j);
}

// Solves for c, the seconds of compute:
// (c + T_comm(|g|)) / (c + T_comm(|g| / compression)) = speedup.
double ComputeFromSpeedup(const Cluster& cluster, double gradient_bytes, double compression,
                          double speedup, uint32_t i, uint32_t j) {
  const double fp32_s = CommunicationSeconds(cluster, i, j, gradient_bytes);
  const double compressed_s = CommunicationSeconds(cluster, i, j, gradient_bytes / compression);
  return (fp32_s - speedup * compressed_s) / (speedup - 1);
}

const std::vector<Net>& Nets() {
  // Parameters and multiply-adds of the published nets: Krizhevsky et al. 2012 (AlexNet, as one
  // column of layers instead of two), Szegedy et al. 2015 (GoogLeNet, without its auxiliary heads),
  // and Simonyan and Zisserman 2015 (VGG, column A of its table).
  static const std::vector<Net> nets = {{"AlexNet", 61.1e6, 128, 0.71e9},
                                        {"GoogLeNet", 7.0e6, 64, 1.58e9},
                                        {"VggNet-A", 132.9e6, 32, 7.61e9}};
  return nets;
}

const std::vector<Panel>& Panels() {
  // PCIe 3.0 x16 carries 12 of its nominal 15.75 GB/s. NVLink on the P100 carries 20 GB/s per link
  // and direction, with two links to a neighbour. An MPI message has a latency of 50 us on
  // Ethernet, and of 2 us on InfiniBand.
  static const std::vector<Panel> panels = {
      {"a",
       {"1 Gbps Ethernet, 4 GTX 1080 and a PCI switch a machine", 12 * kGiga, 12 * kGiga,
        1 * kGiga / 8, 50e-6, 4},
       {"AlexNet", 4, 2, 3.04},
       Published{"github.com/jcjohnson/cnn-benchmarks, GTX 1080, cuDNN 5", 23.18e-3, 16}},
      {"b",
       {"100 Gbps InfiniBand, 4 P100 with NVLink a machine", 40 * kGiga, 12 * kGiga,
        100 * kGiga / 8, 2e-6, 4},
       {"VggNet-A", 4, 128, 2.0},
       std::nullopt}};
  return panels;
}

namespace {

const Net& AnchorNetOf(const Panel& panel) {
  const Net* anchor_net = &Nets()[0];
  for (const Net& candidate : Nets()) {
    if (std::strcmp(candidate.name, panel.anchor.net) == 0) anchor_net = &candidate;
  }
  return *anchor_net;
}

// The published time for a batch of the figure. REQUIRES a published time.
double PublishedSeconds(const Panel& panel) {
  return panel.published->seconds * AnchorNetOf(panel).batch / panel.published->images;
}

}  // namespace

Workload WorkloadOf(const Panel& panel, const Net& net, double compression) {
  const Net& anchor_net = AnchorNetOf(panel);
  const double anchor_s =
      ComputeFromSpeedup(panel.cluster, 4 * anchor_net.parameters, kTernaryCompression,
                         panel.anchor.speedup, panel.anchor.i, panel.anchor.j);
  const double work_ratio =
      net.batch * net.multiply_adds / (anchor_net.batch * anchor_net.multiply_adds);
  return {4 * net.parameters / compression, static_cast<double>(net.batch), anchor_s * work_ratio};
}

double SpeedupWithPublishedTime(const Panel& panel, uint32_t i, uint32_t j) {
  const double fp32_bytes = 4 * AnchorNetOf(panel).parameters;
  const auto seconds = [&](double gradient_bytes) {
    return WeakSeconds(panel.cluster, {gradient_bytes, 0, PublishedSeconds(panel)}, i, j);
  };
  return seconds(fp32_bytes) / seconds(fp32_bytes / kTernaryCompression);
}

std::vector<Point> Figure5() {
  std::vector<Point> points;
  for (const Panel& panel : Panels()) {
    for (const Net& net : Nets()) {
      const Workload fp32_workload = WorkloadOf(panel, net, 1);
      const Workload ternary_workload = WorkloadOf(panel, net, kTernaryCompression);
      const auto scale_to_strong_batch = [](Workload workload) {
        workload.samples *= kStrongGpus;
        workload.compute_s *= kStrongGpus;
        return workload;
      };
      for (uint32_t gpus = 1; gpus <= kStrongGpus; gpus *= 2) {
        const uint32_t i = std::min(gpus, panel.cluster.gpus_per_machine), j = gpus / i;
        points.push_back(
            {panel.name, net.name, gpus, j, WeakThroughput(panel.cluster, fp32_workload, i, j),
             WeakThroughput(panel.cluster, ternary_workload, i, j),
             StrongThroughput(panel.cluster, scale_to_strong_batch(fp32_workload), i, j),
             StrongThroughput(panel.cluster, scale_to_strong_batch(ternary_workload), i, j),
             std::nullopt});
        if (panel.published.has_value() && &net == &AnchorNetOf(panel))
          points.back().published_speedup = SpeedupWithPublishedTime(panel, i, j);
      }
    }
  }
  return points;
}

namespace {

// What the published time gives beside the time that follows from the paper's speed-up; empty
// without a published time.
std::string DescribePublished(const Panel& panel) {
  if (!panel.published.has_value()) return "";
  const Anchor& anchor = panel.anchor;
  return Cat("  published elsewhere: ", anchor.net, " takes ",
             FormatFixed(1e3 * panel.published->seconds, 1), " ms for ", panel.published->images,
             " images (", panel.published->source, "),\n  so at most ",
             FormatFixed(1e3 * PublishedSeconds(panel), 1), " ms for ", AnchorNetOf(panel).batch,
             "; with that time equation 17 gives ",
             FormatFixed(SpeedupWithPublishedTime(panel, anchor.i, anchor.j), 2), "x on ",
             anchor.i * anchor.j, " GPUs:\n  the paper's model and its ",
             FormatFixed(anchor.speedup, 2), "x disagree\n");
}

}  // namespace

std::string FormatTables(const std::vector<Point>& points) {
  std::string text =
      "TernGrad, Appendix B: an all-reduce, equations 15 to 18; Figure 5\n\n"
      "from the paper: the kinds of links, 4 GPUs per machine, batches of 128, 64 and 32 per GPU\n"
      "our assumptions: |g| is 4 bytes per parameter, for TernGrad 1/16 of that (2 bits); PCIe\n"
      "12 GB/s, NVLink 40 GB/s; latency 50 us (Ethernet), 2 us (InfiniBand); the time of one GPU\n"
      "follows from the speed-up that the paper prints, and for other nets from multiply-adds\n";
  for (const Panel& panel : Panels()) {
    text += Cat("\n(", panel.name, ") ", panel.cluster.name, "; from its ",
                FormatFixed(panel.anchor.speedup, 2), "x for ", panel.anchor.net, " on ",
                panel.anchor.i * panel.anchor.j, " GPUs:\n");
    for (const Net& net : Nets()) {
      const Workload workload = WorkloadOf(panel, net, 1);
      text += Cat("  ", net.name, ": ", FormatFixed(1e3 * workload.compute_s, 1), " ms for ",
                  net.batch, " images on one GPU\n");
    }
    text += DescribePublished(panel);
    std::vector<TableRow> rows = {{"net", "GPUs", "machines", "fp32 images/s", "TernGrad images/s",
                                   "speed-up", "strong: fp32", "TernGrad", "speed-up"}};
    if (panel.published.has_value()) rows[0].push_back("speed-up, published time");
    for (const Point& p : points) {
      if (p.panel != panel.name) continue;
      rows.push_back({p.net, Cat(p.gpus), Cat(p.machines), FormatFixed(p.fp32_weak, 0),
                      FormatFixed(p.ternary_weak, 0), FormatFixed(p.ternary_weak / p.fp32_weak, 2),
                      FormatFixed(p.fp32_strong, 0), FormatFixed(p.ternary_strong, 0),
                      FormatFixed(p.ternary_strong / p.fp32_strong, 2)});
      if (panel.published.has_value())
        rows.back().push_back(p.published_speedup.has_value() ? FormatFixed(*p.published_speedup, 2)
                                                              : "");
    }
    text += FormatTable(rows);
  }
  return text + Cat("\nstrong scaling: the mini-batch is that of ", kStrongGpus,
                    " GPUs, whatever their number\n");
}

std::string FormatCsv(const std::vector<Point>& points) {
  std::string text = "panel,net,gpus,machines,fp32_weak,ternary_weak,fp32_strong,ternary_strong\n";
  for (const Point& p : points) {
    text += Cat(p.panel, ",", p.net, ",", p.gpus, ",", p.machines, ",", FormatFixed(p.fp32_weak, 3),
                ",", FormatFixed(p.ternary_weak, 3), ",", FormatFixed(p.fp32_strong, 3), ",",
                FormatFixed(p.ternary_strong, 3), "\n");
  }
  return text;
}

}  // namespace tern::tools::paper
