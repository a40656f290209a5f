// Tests of `tern forecast`: its output, its files and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"
#include "tools/command_table.h"
#include "tools/forecast/measure.h"
#include "tools/forecast/options.h"
#include "tools/forecast/profile.h"
#include "tools/forecast/report.h"

namespace tern::e2e {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

Result<tools::ForecastOptions> ParseForecast(const std::vector<std::string>& args) {
  const auto arguments = setup::Arguments::Parse(tools::CommandCalled("tern forecast").def, args);
  if (!arguments.ok()) return arguments.status();
  return tools::ParseForecastOptions(*arguments);
}

TEST(ForecastOptions, TakesListsAndNumbers) {
  const auto options =
      ParseForecast({"job.yaml", "--set", "seed=2", "--link_mbit", "100,1000.5", "--workers=1,8",
                     "--codecs", "fp32,qsgd", "--latency_us", "50", "--burst_kib", "64",
                     "--queue_ms", "2", "--cores_shared", "2", "--worker_link_mbit", "0"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->job, "job.yaml");
  EXPECT_EQ(options->overrides, std::vector<std::string>{"seed=2"});
  EXPECT_EQ(options->link_mbit, (std::vector<double>{100, 1000.5}));
  EXPECT_EQ(options->workers, (std::vector<uint32_t>{1, 8}));
  EXPECT_EQ(options->codecs, (std::vector<std::string>{"fp32", "qsgd"}));
  EXPECT_DOUBLE_EQ(options->network.latency_s, 50e-6);
  EXPECT_DOUBLE_EQ(options->network.burst_bytes, 65536);
  EXPECT_DOUBLE_EQ(options->network.queue_s, 0.002);
  EXPECT_EQ(options->network.cores_shared, 2u);
  EXPECT_EQ(options->network.worker_mbit, 0);
  const auto defaults = ParseForecast({"--job", "a.yaml"});
  ASSERT_TRUE(defaults.ok()) << defaults.status().message();
  EXPECT_EQ(defaults->job, "a.yaml");
  EXPECT_EQ(defaults->link_mbit, (std::vector<double>{1000}));
  EXPECT_EQ(defaults->workers, (std::vector<uint32_t>{1, 2, 4, 8, 16}));
  EXPECT_EQ(defaults->network.worker_mbit, -1) << "as the servers' links";
}

TEST(ForecastOptions, RefusesInvalidFlags) {
  const auto error_message_of = [](std::vector<std::string> arguments) {
    const auto options = ParseForecast(arguments);
    EXPECT_FALSE(options.ok());
    if (options.ok()) return std::string();
    EXPECT_EQ(options.status().code(), Code::kUsage);
    return options.status().message();
  };
  EXPECT_THAT(error_message_of({"j", "--link_mbit", "-3"}),
              HasSubstr("--link_mbit: saw '-3'; allowed: a number above 0"));
  EXPECT_THAT(error_message_of({"j", "--link_mbit", "100,,10"}), HasSubstr("saw ''"));
  EXPECT_THAT(error_message_of({"j", "--link_mbit", "nan"}), HasSubstr("saw 'nan'"));
  EXPECT_THAT(error_message_of({"j", "--workers", "0"}),
              HasSubstr("a whole number from 1 to 1024"));
  EXPECT_THAT(error_message_of({"j", "--workers", "2.5"}), HasSubstr("a whole number"));
  EXPECT_THAT(error_message_of({"j", "--latency_us", "-1"}), HasSubstr("--latency_us"));
  EXPECT_THAT(error_message_of({"j", "--codecs", "fp32,qsgx"}),
              AllOf(HasSubstr("--codecs: saw 'qsgx'"), HasSubstr("ternary_ans")));
  EXPECT_THAT(error_message_of({"j", "--algorithms", "sgdd"}),
              AllOf(HasSubstr("--algorithms: saw 'sgdd'"), HasSubstr("odsgd")));
  EXPECT_THAT(error_message_of({}), HasSubstr("saw 0 job files, expected one"));
  EXPECT_THAT(error_message_of({"j", "k"}), HasSubstr("saw 'k', which is one argument too many"));
  EXPECT_THAT(error_message_of({"--paper", "j"}), HasSubstr("--paper takes no job"));
  EXPECT_THAT(error_message_of({"--paper", "--workers", "2"}),
              HasSubstr("--paper takes no --workers"));
  EXPECT_THAT(error_message_of({"j", "--nonsense"}), HasSubstr("there is no flag"));
}

TEST(FitCompute, FindsFixedAndProportionalTime) {
  const tools::ComputeFit fit = tools::FitCompute({64, 0.070}, {32, 0.040});
  EXPECT_DOUBLE_EQ(fit.sample_s, 0.030 / 32);
  EXPECT_NEAR(fit.fixed_s, 0.010, 1e-12);
  EXPECT_EQ(fit.warning, "");
  const tools::ComputeFit no_fixed_time = tools::FitCompute({64, 0.070}, {32, 0.030});
  EXPECT_DOUBLE_EQ(no_fixed_time.sample_s, 0.070 / 64);
  EXPECT_DOUBLE_EQ(no_fixed_time.fixed_s, 0);
}

TEST(FitCompute, IsProportionalWhereTheMeasurementsContradictEachOther) {
  for (const double half_s : {0.034, 0.040}) {
    const tools::ComputeFit fit = tools::FitCompute({64, 0.034}, {32, half_s});
    EXPECT_DOUBLE_EQ(fit.sample_s, 0.034 / 64);
    EXPECT_DOUBLE_EQ(fit.fixed_s, 0);
    EXPECT_THAT(fit.warning, HasSubstr("the two measurements contradict each other, the machine "
                                       "is busy: a step of 64 samples took 34 ms"));
  }
}

TEST(OdsgdRow, HasTheEquationsOfThePaper) {
  tools::OdsgdRow row;
  row.odsgd = {.step_s = 8, .compute_s = 4, .exchange_s = 10, .busy_s = 8};
  row.ssgd.step_s = 14;
  EXPECT_DOUBLE_EQ(row.equation_2_s(), 7);
  EXPECT_DOUBLE_EQ(row.equation_1(), 0.5);
  EXPECT_DOUBLE_EQ(row.bounded_s(), 8) << "the link is busy: docs/ALGORITHMS.md, section 8";
  row.odsgd.exchange_s = 3;
  EXPECT_DOUBLE_EQ(row.equation_2_s(), 4);
}

TEST(Forecast, MeasuresForecastsAndWritesFiles) {
  TestJob job;
  const std::string profile_path = job.folder() + "/profile.json",
                    csv_path = job.folder() + "/rows.csv";
  TestProgram& tern =
      job.StartTern({"forecast", job.job_file(), "--set", "train.compute=wait", "--set",
                     "train.compute_wait_ms=2", "--workers", "1,2", "--link_mbit", "100,1000",
                     "--save_profile", profile_path, "--csv", csv_path});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(),
              AllOf(HasSubstr("431080 parameters"), HasSubstr("a wait"),
                    ContainsRegex("100 +ssgd +fp32 +1 "), ContainsRegex("1000 +ssgd +ternary +2 "),
                    HasSubstr("weak scaling"), HasSubstr("strong scaling"),
                    ContainsRegex("ssgd +ternary +fp32 +2 +.*Mbit/s")));
  const auto read_profile = tools::Profile::Read(profile_path);
  ASSERT_TRUE(read_profile.ok()) << read_profile.status().message();
  EXPECT_TRUE(read_profile->waits);
  EXPECT_GT(read_profile->codecs.at("ternary").encode_s, 0);
  EXPECT_GT(read_profile->message_s, 0);
  // A header and 16 rows: weak and strong scaling, 2 link rates, 2 codecs, and 2 numbers of workers
  // (both divide the batch of 8, so that strong scaling has a row for each).
  const std::string rows = ReadFile(csv_path);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 1 + 2 * 2 * 2 * 2) << rows;
}

// With --profile nothing is measured, so equal arguments give equal output.
TEST(Forecast, SameProfileGivesTheSameForecast) {
  TestJob job;
  const std::string profile_path = job.folder() + "/profile.json";
  const std::vector<std::string> arguments = {"forecast",     job.job_file(), "--profile",
                                              profile_path,   "--workers",    "1,4",
                                              "--algorithms", "ssgd,odsgd"};
  ASSERT_EQ(
      job.StartTern({"forecast", job.job_file(), "--save_profile", profile_path, "--workers", "1"})
          .Wait(),
      0);
  TestProgram& first_forecast = job.StartTern(arguments);
  ASSERT_EQ(first_forecast.Wait(), 0) << first_forecast.err();
  TestProgram& second_forecast = job.StartTern(arguments);
  ASSERT_EQ(second_forecast.Wait(), 0) << second_forecast.err();
  EXPECT_EQ(first_forecast.out(), second_forecast.out());
  EXPECT_THAT(first_forecast.out(), HasSubstr("odsgd by the equations of its paper"));
}

// Two workers of a host share its link. If they add up their pushes, a step is shorter.
TEST(Forecast, SaysWhereSumsOnHostsPay) {
  TestJob job;
  const auto forecast = [&](const std::string& host_sum) -> TestProgram& {
    return job.StartTern({"forecast", job.job_file(), "--set", "train.compute=wait", "--set",
                          "exchange.host_sum=" + host_sum, "--workers", "4", "--workers_a_host",
                          "2", "--codecs", "fp32,ternary,ternary_ans", "--link_mbit", "10", "--csv",
                          job.folder() + "/" + host_sum + ".csv"});
  };
  TestProgram& without = forecast("false");
  ASSERT_EQ(without.Wait(), 0) << without.err();
  EXPECT_THAT(without.out(),
              AllOf(ContainsRegex("ssgd +fp32 +4 +2 .* 0.50 .* 0.50 .*yes, both ways"),
                    ContainsRegex("ssgd +ternary +4 +2 .* 1.1. .* 0.50 .*up, a host sends more"),
                    ContainsRegex("ssgd +ternary_ans +4 +2 .* 0.7. .* 0.50 .*yes, both ways")));
  TestProgram& with = forecast("true");
  ASSERT_EQ(with.Wait(), 0) << with.err();
  const auto first_step_ms = [&](const std::string& name) {
    const std::string csv = ReadFile(job.folder() + "/" + name + ".csv");
    const size_t row = csv.find("10,ssgd,fp32,weak,4");
    size_t at = row;
    for (int comma = 0; comma < 8; ++comma) at = csv.find(',', at) + 1;
    return row == std::string::npos ? 0 : std::stod(csv.substr(at));
  };
  EXPECT_LT(first_step_ms("true"), 0.7 * first_step_ms("false"));
}

TEST(Forecast, ForecastsEveryAlgorithm) {
  TestJob job;
  TestProgram& tern = job.StartTern(
      {"forecast", job.job_file(), "--set", "train.compute=wait", "--workers", "2", "--codecs",
       "fp32", "--algorithms",
       "ssgd,odsgd,asgd,dcasgd_c,dcasgd_a,ssp,softsync,psgd,rsgd,pqasgd,easgd,easgd_async"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  for (const char* name : {"odsgd", "asgd", "dcasgd_c", "dcasgd_a", "ssp", "softsync", "psgd",
                           "rsgd", "pqasgd", "easgd", "easgd_async"}) {
    EXPECT_THAT(tern.out(), ContainsRegex(Cat("1000 +", name, " +fp32 +2 "))) << tern.err();
  }
}

// Speed-ups are relative to one worker, who is no job with these keys.
TEST(Forecast, TakesJobsWhoseKeysNeedSeveralWorkers) {
  TestJob job;
  for (const std::vector<std::string>& settings : std::vector<std::vector<std::string>>{
           {"train.ssgd.backup_workers=1"},
           {"faults.on_worker_loss=shrink", "workers.min=2", "workers.max=3"},
           {"workers.overrides=[{rank: 1, threads: 1}]"}}) {
    std::vector<std::string> arguments = {"forecast",           job.job_file(), "--set",
                                          "train.compute=wait", "--workers",    "2",
                                          "--codecs",           "fp32"};
    for (const std::string& setting : settings)
      arguments.insert(arguments.end(), {"--set", setting});
    TestProgram& tern = job.StartTern(arguments);
    EXPECT_EQ(tern.Wait(), 0) << settings.front() << tern.err();
    EXPECT_THAT(tern.out(), ContainsRegex("1000 +ssgd +fp32 +2 ")) << settings.front();
  }
}

TEST(Forecast, ReportsErrors) {
  TestJob job;
  TestProgram& missing_profile_run =
      job.StartTern({"forecast", job.job_file(), "--profile", "/nowhere.json"});
  EXPECT_EQ(missing_profile_run.Wait(), 65);
  EXPECT_THAT(missing_profile_run.err(), HasSubstr("/nowhere.json"));
  TestProgram& unknown_codec_run = job.StartTern({"forecast", job.job_file(), "--codecs", "qsgx"});
  EXPECT_EQ(unknown_codec_run.Wait(), 64);
  EXPECT_THAT(unknown_codec_run.err(), HasSubstr("qsgx"));
  TestProgram& bad_job_run =
      job.StartTern({"forecast", job.job_file(), "--set", "train.batch_total=0"});
  EXPECT_EQ(bad_job_run.Wait(), 78);
  // The codec ternary rounds at random, so it must not encode parameters. But psgd pushes them.
  TestProgram& psgd_with_ternary_run =
      job.StartTern({"forecast", job.job_file(), "--set", "train.compute=wait", "--algorithms",
                     "psgd", "--codecs", "ternary"});
  EXPECT_EQ(psgd_with_ternary_run.Wait(), 78);
  EXPECT_THAT(psgd_with_ternary_run.err(), HasSubstr("psgd pushes the parameters themselves"));
}

TEST(Forecast, ReproducesThePapersFigure) {
  TestJob job;
  const std::string csv_path = job.folder() + "/figure5.csv";
  TestProgram& tern = job.StartTern({"forecast", "--paper", "--csv", csv_path});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(ContainsRegex("AlexNet +8 +2 +[0-9]+ +[0-9]+ +3\\.04"),
                                HasSubstr("our assumptions")));
  EXPECT_THAT(ReadFile(csv_path), HasSubstr("b,VggNet-A,512,128,"));
}

}  // namespace
}  // namespace tern::e2e
