#include "tools/forecast/report.h"

#include <algorithm>

#include "common/base/text.h"
#include "tools/table.h"

namespace tern::tools {

namespace {

std::string InMilliseconds(double seconds) { return FormatFixed(1e3 * seconds, 2); }
std::string BytesText(double bytes) { return HumanBytes(static_cast<uint64_t>(bytes)); }

}  // namespace

double OdsgdRow::equation_2_s() const {
  return odsgd.exchange_s <= odsgd.compute_s ? odsgd.compute_s
                                             : (odsgd.exchange_s + odsgd.compute_s) / 2;
}
double OdsgdRow::equation_1() const { return 1 - equation_2_s() / ssgd.step_s; }
double OdsgdRow::bounded_s() const {
  return std::max({odsgd.compute_s, odsgd.busy_s, (odsgd.compute_s + odsgd.exchange_s) / 2});
}

std::string ProfileText(const Profile& profile, double samples) {
  const double compute_s = profile.compute_fixed_s + samples * profile.compute_sample_s;
  std::string text = Cat(
      "profile of ", profile.machine, ": ", profile.model, profile.model.empty() ? "" : ", ",
      profile.parameters, " parameters\n  forward and backward of ", samples,
      " samples: ", InMilliseconds(compute_s), " ms", profile.waits ? " (a wait)" : "", "; update ",
      InMilliseconds(profile.update_s * static_cast<double>(profile.parameters)),
      " ms\n  a message ", FormatFixed(1e6 * profile.message_s, 0), " us, ",
      FormatFixed(1e6 * profile.message_cpu_s, 0), " us of it CPU time on each side, and ",
      FormatFixed(1e9 * profile.byte_cpu_s, 2), " ns per byte; from thread to thread ",
      FormatFixed(1e6 * profile.hop_s, 0), " us\n\nmillions of elements per second on one core\n");
  std::vector<TableRow> rows = {
      {"codec", "scaler", "code", "add", "code the sum", "decode", "decode and update"}};
  const auto speed_text = [](double seconds) {
    return seconds <= 0 ? std::string("-") : FormatFixed(1e-6 / seconds, 0);
  };
  for (const auto& [name, seconds] : profile.codecs) {
    rows.push_back({name, speed_text(seconds.prepare_s), speed_text(seconds.encode_s),
                    speed_text(seconds.add_s), speed_text(seconds.close_s),
                    speed_text(seconds.decode_s), speed_text(seconds.apply_s)});
  }
  return text + FormatTable(rows);
}

std::string ForecastText(const std::vector<ForecastRow>& rows, bool is_strong) {
  std::vector<TableRow> table = {{"Mbit/s", "algorithm", "codec", "workers", "samples a worker",
                                  "up", "down", "step ms", "compute ms", "exchange ms", "samples/s",
                                  "over one worker"}};
  for (const ForecastRow& row : rows) {
    if (row.is_strong != is_strong) continue;
    table.push_back({Cat(row.link_mbit), row.variant.algorithm, row.variant.codec, Cat(row.workers),
                     Cat(row.samples), BytesText(row.bytes.up), BytesText(row.bytes.down),
                     InMilliseconds(row.step.step_s), InMilliseconds(row.step.compute_s),
                     InMilliseconds(row.step.exchange_s), FormatFixed(row.rate(), 1),
                     FormatFixed(row.rate() / row.one_worker_rate, 2)});
  }
  if (table.size() == 1) return "";
  return Cat("\n",
             is_strong ? "strong scaling: the job's total batch over more workers"
                       : "weak scaling: each worker has the job's share of its batch",
             "; bytes are those of one worker in a round\n", FormatTable(table));
}

std::string BreakEvenText(const std::vector<BreakEvenRow>& rows) {
  if (rows.empty()) return "";
  std::vector<TableRow> table = {{"algorithm", "codec", "against", "workers", "pays below"}};
  for (const BreakEvenRow& row : rows) {
    const Forecaster::BreakEven& break_even = row.break_even;
    table.push_back(
        {row.variant.algorithm, row.variant.codec, row.other_variant.codec, Cat(row.workers),
         break_even.mbit.has_value()
             ? Cat(FormatFixed(*break_even.mbit, *break_even.mbit < 10 ? 1 : 0), " Mbit/s")
         : break_even.is_shorter_at_every_rate
             ? Cat("any rate up to ", Forecaster::kMaxMbit, " Mbit/s")
             : "no rate"});
  }
  return "\nthe bandwidth below which a codec makes the step shorter (weak scaling)\n" +
         FormatTable(table);
}

std::string HostRow::Pays() const {
  if (!bytes.with.has_value()) return "no: these codes cannot be added up on hosts";
  const bool saves_up = bytes.with->up < bytes.without.up,
             saves_down = bytes.with->down < bytes.without.down;
  if (saves_up && saves_down) return "yes, both ways";
  if (saves_down) return "down; up, a host sends more than without";
  return "no";
}

std::string HostText(const std::vector<HostRow>& rows) {
  if (rows.empty()) return "";
  std::vector<TableRow> table = {{"algorithm", "codec", "workers", "a host", "up", "with host_sum",
                                  "ratio", "down", "with host_sum", "ratio", "pays"}};
  for (const HostRow& row : rows) {
    const Forecaster::HostBytes& bytes = row.bytes;
    TableRow cells = {row.variant.algorithm, row.variant.codec, Cat(row.workers),
                      Cat(row.workers_a_host)};
    for (double RoundTotals::*way : {&RoundTotals::up, &RoundTotals::down}) {
      cells.push_back(BytesText(bytes.without.*way));
      cells.push_back(bytes.with.has_value() ? BytesText(*bytes.with.*way) : "-");
      cells.push_back(bytes.with.has_value() ? FormatFixed(*bytes.with.*way / bytes.without.*way, 2)
                                             : "-");
    }
    cells.push_back(row.Pays());
    table.push_back(cells);
  }
  return "\nwhat a host's link carries in a round, without exchange.host_sum and with it\n" +
         FormatTable(table);
}

std::string OdsgdText(const std::vector<OdsgdRow>& rows) {
  if (rows.empty()) return "";
  std::vector<TableRow> table = {{"Mbit/s", "codec", "workers", "T_cop ms", "T_com ms",
                                  "ssgd, no overlap ms", "equation 2 ms", "equation 1",
                                  "with the link's bound ms", "step ms"}};
  for (const OdsgdRow& row : rows) {
    table.push_back({Cat(row.link_mbit), row.variant.codec, Cat(row.workers),
                     InMilliseconds(row.odsgd.compute_s), InMilliseconds(row.odsgd.exchange_s),
                     InMilliseconds(row.ssgd.step_s), InMilliseconds(row.equation_2_s()),
                     FormatFixed(100 * row.equation_1(), 1) + " %", InMilliseconds(row.bounded_s()),
                     InMilliseconds(row.odsgd.step_s)});
  }
  return "\nodsgd by the equations of its paper, beside the simulated step (weak scaling)\n" +
         FormatTable(table);
}

std::string ForecastCsv(const std::vector<ForecastRow>& rows) {
  std::string text =
      "link_mbit,algorithm,codec,scaling,workers,samples,up_bytes,down_bytes,step_ms,compute_ms,"
      "exchange_ms,busy_ms,samples_per_s,over_one_worker\n";
  for (const ForecastRow& row : rows) {
    text += Cat(row.link_mbit, ",", row.variant.algorithm, ",", row.variant.codec, ",",
                row.is_strong ? "strong" : "weak", ",", row.workers, ",", row.samples, ",",
                FormatFixed(row.bytes.up, 0), ",", FormatFixed(row.bytes.down, 0), ",");
    for (const double seconds :
         {row.step.step_s, row.step.compute_s, row.step.exchange_s, row.step.busy_s})
      text += FormatFixed(1e3 * seconds, 4) + ",";
    text += Cat(FormatFixed(row.rate(), 3), ",", FormatFixed(row.rate() / row.one_worker_rate, 4),
                "\n");
  }
  return text;
}

}  // namespace tern::tools
