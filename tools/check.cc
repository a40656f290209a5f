// tern check: prints the job with all defaults, its exchange plan, its memory and its data.
#include <algorithm>
#include <cstdio>

#include "common/base/text.h"
#include "setup/setup.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/memory.h"
#include "tools/table.h"
#include "worker/data/samples.h"

namespace tern::tools {
namespace {

constexpr const char* kUsage = "tern check JOB [--set KEY=VALUE]...";

void PrintParameters(const setup::Setup& setup) {
  std::printf("\nparameters: %s in %zu tensors\n", Cat(setup.table.total).c_str(),
              setup.table.parameters.size());
  std::vector<TableRow> rows = {{"name", "shape", "count", "codec"}};
  for (size_t t = 0; t < setup.table.parameters.size(); ++t) {
    const models::Parameter& p = setup.table.parameters[t];
    std::vector<std::string> shape;
    for (const uint32_t dim : p.shape) shape.push_back(Cat(dim));
    rows.push_back(
        {p.name, Join(shape, " x "), Cat(p.count), std::string(setup.plan.codec_of[t]->name())});
  }
  PrintTable(rows);
}

void PrintBuckets(const setup::Setup& setup) {
  size_t chunks = 0;
  for (const protocol::Bucket& bucket : setup.plan.buckets) chunks += bucket.chunks.size();
  std::printf("\nexchange: %zu buckets, %zu chunks, in the order in which workers push them\n",
              setup.plan.buckets.size(), chunks);
  std::vector<TableRow> rows = {
      {"bucket", "tensors", "count", "shared scalers", "chunks", "servers"}};
  for (size_t b = 0; b < setup.plan.buckets.size(); ++b) {
    const protocol::Bucket& bucket = setup.plan.buckets[b];
    const std::string& first = setup.table.parameters[bucket.first_tensor].name;
    const std::string& last = setup.table.parameters[bucket.first_tensor + bucket.tensors - 1].name;
    std::vector<std::string> servers;
    for (const protocol::Chunk& chunk : bucket.chunks) {
      const std::string shard = Cat(chunk.shard);
      if (std::find(servers.begin(), servers.end(), shard) == servers.end())
        servers.push_back(shard);
    }
    rows.push_back({Cat(b), bucket.tensors == 1 ? first : first + " to " + last, Cat(bucket.count),
                    Cat(bucket.shared.size()), Cat(bucket.chunks.size()), Join(servers)});
  }
  PrintTable(rows);
}

void PrintRound(const setup::Setup& setup) {
  const protocol::RoundBytes bytes = protocol::CountRoundBytes(setup.plan);
  const uint64_t fp32_bytes = 4 * setup.table.total;
  const auto make_row = [&](const std::string& name, uint64_t payload) {
    char ratio[32];
    std::snprintf(ratio, sizeof ratio, "%.2f",
                  static_cast<double>(fp32_bytes) / static_cast<double>(payload));
    return TableRow{name, Cat(payload), HumanBytes(payload), ratio};
  };
  std::printf("\npayload of one worker in a round, without headers\n");
  PrintTable({{"", "bytes", "", "fp32 / this"},
              make_row("up, at most", bytes.push + bytes.scalers),
              make_row("down", bytes.sum + bytes.scalers),
              make_row("fp32, each way", fp32_bytes)});
}

void PrintMemory(const std::string& title, const std::vector<MemoryItem>& items) {
  uint64_t total = 0;
  std::vector<TableRow> rows;
  for (const MemoryItem& item : items) {
    rows.push_back({item.what, HumanBytes(item.bytes), item.note});
    total += item.bytes;
  }
  rows.push_back({"total", HumanBytes(total), ""});
  std::printf("\nmemory of %s, besides the program itself\n", title.c_str());
  PrintTable(rows);
}

std::string ShapeText(const data::Samples& set) {
  return Cat(set.channels(), " x ", set.size().height, " x ", set.size().width);
}

Status CheckShape(const setup::Setup& setup, const data::Samples& set, const std::string& name) {
  const pb::ImageShape& input = setup.net.input();
  const uint32_t classes = set.dataset().classes;
  if (set.channels() == input.channels() && set.size().height == input.height() &&
      set.size().width == input.width() && classes <= setup.net.classes()) {
    return Ok();
  }
  return Status(Code::kBadData,
                Cat("the ", name, " images in ", setup.job.data().dir(), " are ", ShapeText(set),
                    " with ", classes, " classes; the model takes ", input.channels(), " x ",
                    input.height(), " x ", input.width(), " and ", setup.net.classes()));
}

Status PrintData(const setup::Setup& setup) {
  for (const auto& [split, name] :
       {std::pair{data::Split::kTrain, "training"}, std::pair{data::Split::kTest, "test"}}) {
    data::ReadOptions options;
    options.channels = setup.net.input().channels();
    options.warn = [](const std::string& sentence) { std::printf("%s\n", sentence.c_str()); };
    const auto samples = data::Samples::Read(setup.job.data(), setup.job.seed(), split, options);
    if (!samples.ok()) return samples.status();
    const data::Samples& set = **samples;
    std::printf("%s images: %s of %s, %u classes", name, Cat(set.count()).c_str(),
                ShapeText(set).c_str(), set.dataset().classes);
    if (split == data::Split::kTrain) {
      std::printf(", %s steps an epoch",
                  Cat(set.count() / setup.job.train().batch_total()).c_str());
    }
    std::printf("\n");
    TERN_RETURN_IF_ERROR(CheckShape(setup, set, name));
  }
  return Ok();
}

}  // namespace

Status CheckJob(const Args& args) {
  const Result<Arguments> arguments = Arguments::Parse(args, {{"set"}}, kUsage);
  if (!arguments.ok()) return arguments.status();
  if (arguments->positional().size() != 1) {
    return Status(Code::kUsage, Cat("saw ", arguments->positional().size(),
                                    " job files, expected one\nusage: ", kUsage));
  }
  const auto made_setup = setup::MakeSetup(arguments->positional().front(), arguments->All("set"));
  if (!made_setup.ok()) return made_setup.status();
  const setup::Setup& setup = **made_setup;
  std::printf("# the job with every key\n%s", config::ToYaml(setup.job).c_str());
  PrintParameters(setup);
  PrintBuckets(setup);
  PrintRound(setup);
  PrintMemory("a worker", WorkerMemory(setup));
  for (uint32_t shard = 0; shard < setup.plan.data_lanes.size(); ++shard) {
    PrintMemory(Cat("server ", shard), ServerMemory(setup, shard));
  }
  std::printf("\n");
  return PrintData(setup);
}

}  // namespace tern::tools
