// The rules between keys of train, and what algorithms require of exchange, workers and faults.
#include <gmock/gmock.h>

#include <string>

#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// SmallJob (2 workers, a batch of 64) with these keys in train and `more` appended, and the
// expected error; empty: the job is accepted.
struct Case {
  const char* train;
  const char* more;
  const char* fault;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.train << " | " << c.more; }

class TrainRule : public ::testing::TestWithParam<Case> {};
TEST_P(TrainRule, IsHeld) {
  const Case& c = GetParam();
  std::string train = c.train;
  for (size_t at = 0; (at = train.find('\n', at)) != std::string::npos; at += 3)
    train.insert(at + 1, "  ");
  const std::string text = SmallJob() + "  " + train + "\n" + c.more;
  const auto faults = FaultsOf(text);
  if (c.fault[0] == '\0') {
    EXPECT_THAT(faults, ElementsAre()) << text;
  } else {
    EXPECT_THAT(faults, ElementsAre(HasSubstr(c.fault))) << text;
  }
}

constexpr const char* kFloats = "exchange: {codec: fp32}\n";
constexpr const char* kSharedScalers = "exchange: {scaler: shared}\n";
constexpr const char* kOwnScalers = "exchange: {scaler: per_worker}\n";

INSTANTIATE_TEST_SUITE_P(
    Sections, TrainRule,
    ::testing::Values(
        Case{"algorithm: ssgd\nssgd: {backup_workers: 1}", "", ""},
        Case{"psgd: {p: 4}", "",
             "12:3: train.psgd: saw a section of psgd with algorithm: ssgd; allowed: sections of "
             "ssgd; remove this one, or set train.algorithm: psgd"},
        Case{"ssgd: {p: 4}", "", "train.ssgd.p: saw an unknown key; allowed: backup_workers"},
        Case{"algorithm: psgd\npsgd: {p: 4}", kFloats, ""},
        Case{"algorithm: psgd\npsgd: {p: 4}\nrsgd: {p: 4}", kFloats,
             "train.rsgd: saw a section of rsgd with algorithm: psgd"},
        Case{"algorithm: asdg", "", "train.algorithm: saw asdg; allowed: one of ssgd, odsgd, asgd"},
        // The keys of an unused section are not checked.
        Case{"ssgd: {}\nsoftsync: {n: 9}", "", "train.softsync: saw a section of softsync"}));

INSTANTIATE_TEST_SUITE_P(
    Holding, TrainRule,
    ::testing::Values(Case{"parameters: central", "", ""}, Case{"parameters: localized", "", ""},
                      Case{"algorithm: odsgd\nparameters: central", "", ""},
                      Case{"algorithm: asgd\nparameters: localized", kOwnScalers,
                           "train.parameters: saw localized with algorithm: asgd; allowed: central "
                           "(asgd supports no other place for them)"},
                      Case{"algorithm: asgd\nparameters: central", kOwnScalers, ""},
                      Case{
                          "algorithm: psgd\nparameters: central", kFloats,
                          "train.parameters: saw central with algorithm: psgd; allowed: localized"},
                      Case{"algorithm: easgd\nparameters: localized", kFloats,
                           "train.parameters: saw localized with algorithm: easgd"}));

INSTANTIATE_TEST_SUITE_P(
    Push, TrainRule,
    ::testing::Values(
        Case{"algorithm: asgd", "", ""},
        Case{"algorithm: asgd", kSharedScalers,
             "exchange.scaler: saw shared with algorithm: asgd and codec ternary; allowed: "
             "per_worker: workers that do not wait for each other cannot share scalers; set "
             "exchange.scaler: per_worker"},
        Case{"algorithm: asgd", kOwnScalers, ""}, Case{"algorithm: asgd", kFloats, ""},
        Case{"algorithm: ssp",
             "exchange: {codec: fp16, scaler: shared, rules: [{codec: ternary}]}\n",
             "exchange.scaler: saw shared with algorithm: ssp and codec ternary"},
        Case{"algorithm: softsync", "exchange: {codec: bf16, rules: [{codec: fp32}]}\n", ""},
        Case{"algorithm: odsgd", "", ""},
        Case{"parameters: central", kSharedScalers,
             "exchange.scaler: saw shared with parameters: central and codec ternary; allowed: "
             "per_worker: servers that hold the parameters decode every push by itself; set "
             "exchange.scaler: per_worker"},
        Case{"algorithm: odsgd", "exchange: {scaler: previous, scaler_margin: 2}\n", ""},
        Case{"algorithm: asgd", "exchange: {scaler: previous}\n",
             "exchange.scaler: saw previous with algorithm: asgd"},
        Case{"parameters: central", "exchange: {scaler: previous}\n",
             "exchange.scaler: saw previous with algorithm: ssgd, parameters: central; allowed: "
             "shared or per_worker"},
        Case{"algorithm: pqasgd", "exchange: {scaler: previous}\n",
             "exchange.scaler: saw previous with algorithm: pqasgd"},
        Case{"algorithm: ssgd", "exchange: {scaler_margin: 2}\n",
             "exchange.scaler_margin: saw 2; allowed: nothing, because only scaler: previous has a "
             "margin"},
        Case{"algorithm: ssgd", "exchange: {codec: fp32, scaler_elements: 4096}\n",
             "exchange.scaler_elements: saw 4096; allowed: 0, because no tensor has a ternary "
             "codec"},
        Case{"algorithm: psgd", "", ""},
        Case{"algorithm: psgd", "exchange: {codec: ternary}\n",
             "exchange.codec: saw ternary with algorithm: psgd; allowed: one of fp32, fp16, bf16, "
             "because psgd pushes the parameters themselves"},
        Case{"algorithm: easgd_async", "exchange: {codec: bf16}\n", ""},
        Case{"algorithm: rsgd", "exchange: {codec: fp32, rules: [{codec: ternary}]}\n",
             "13:41: exchange.rules[0].codec: saw ternary with algorithm: rsgd"},
        Case{"algorithm: pqasgd", "", ""},
        Case{
            "algorithm: pqasgd", "exchange: {clip: paper}\n",
            "exchange.clip: saw paper with algorithm: pqasgd and codec ternary; allowed: none: "
            "pqasgd needs unbiased codes, and clipping makes them biased; set exchange.clip: none"},
        Case{"algorithm: pqasgd", "exchange: {clip: none}\n", ""},
        Case{"algorithm: pqasgd", "exchange: {codec: qsgd}\n", ""},
        Case{"algorithm: pqasgd", "exchange: {codec: onebit}\n",
             "exchange.codec: saw onebit with algorithm: pqasgd; allowed: one of fp32, fp16, bf16, "
             "ternary, qsgd, because pqasgd needs unbiased codes"},
        Case{"algorithm: psgd", "exchange: {codec: topk}\n",
             "exchange.codec: saw topk with algorithm: psgd; allowed: one of fp32, fp16, bf16"},
        Case{"algorithm: pqasgd", kFloats, ""}));

INSTANTIATE_TEST_SUITE_P(
    CodecSections, TrainRule,
    ::testing::Values(
        Case{"algorithm: ssgd", "exchange: {codec: qsgd, qsgd: {bits: 8}}\n", ""},
        Case{"algorithm: ssgd", "exchange: {rules: [{codec: topk}], topk: {ratio: 0.01}}\n", ""},
        Case{"algorithm: ssgd", "exchange: {qsgd: {bits: 8}}\n",
             "exchange.qsgd: saw a section of qsgd, which the job does not use; allowed: sections "
             "of the codecs in use; remove this one, or set exchange.codec: qsgd"},
        Case{"parameters: central",
             "exchange: {codec: fp32, pull: changes, pull_codec: onebit, onebit: {bucket_elements: "
             "64}}\n",
             ""},
        Case{"algorithm: ssgd", "exchange: {codec: qsgd, qsgd: {bits: 1}}\n",
             "exchange.qsgd.bits: saw 1"},
        Case{"optimizer: {name: sgd}", "exchange: {codec: topk, topk: {momentum: 0.9}}\n", ""},
        Case{"optimizer: {name: momentum}", "exchange: {codec: topk, topk: {momentum: 0.9}}\n",
             "exchange.topk.momentum: saw 0.9 with train.optimizer.name: momentum; allowed: 0, "
             "because momentum would apply twice; or set train.optimizer.name: sgd"},
        Case{"algorithm: ssgd", "exchange: {codec: topk, topk: {ratio: 0}}\n",
             "exchange.topk.ratio: saw 0"}));

INSTANTIATE_TEST_SUITE_P(
    Pull, TrainRule,
    ::testing::Values(
        Case{"parameters: central", "exchange: {pull_codec: bf16}\n", ""},
        Case{"parameters: central", "exchange: {pull_codec: ternary}\n",
             "exchange.pull_codec: saw ternary with pull: weights; allowed: one of fp32, fp16, "
             "bf16"},
        Case{"parameters: central", "exchange: {pull_codec: onebit}\n",
             "exchange.pull_codec: saw onebit with pull: weights; allowed: one of fp32, fp16, "
             "bf16; or set exchange.pull: changes"},
        Case{"parameters: central", "exchange: {pull: changes, pull_codec: ternary}\n",
             "13:39: exchange.pull_codec: saw ternary with pull: changes; allowed: one of fp32, "
             "fp16, bf16, onebit, topk, threshold, adaptive, adacomp, because the codes of ternary "
             "are stochastic: their error is noise, which must not be carried over into the next "
             "change"},
        // exchange.rules do not change the pull codec.
        Case{"parameters: central",
             "exchange: {pull: changes, pull_codec: qsgd, rules: [{codec: fp32}]}\n",
             "exchange.pull_codec: saw qsgd with pull: changes"},
        Case{"parameters: central",
             "exchange: {pull: changes, pull_codec: topk, rules: [{codec: qsgd}]}\n", ""},
        Case{"", "exchange: {pull: changes}\n",
             "exchange.pull: saw changes with parameters: localized; allowed: weights, because "
             "only central parameters are pulled; or set train.parameters: central"},
        Case{"", "exchange: {pull_codec: fp16}\n",
             "exchange.pull_codec: saw fp16 with parameters: localized; allowed: fp32, because "
             "only central"}));

INSTANTIATE_TEST_SUITE_P(
    Algorithms, TrainRule,
    ::testing::Values(
        Case{"max_staleness: 3", "",
             "train.max_staleness: saw 3 with algorithm: ssgd; allowed: 0, because gradients are "
             "never stale in rounds; it is for algorithms without rounds: asgd, dcasgd_c, "
             "dcasgd_a, ssp, "
             "softsync, easgd_async"},
        Case{"algorithm: ssp\nmax_staleness: 3", kFloats, ""},
        Case{"ssgd: {backup_workers: 2}", "",
             "train.ssgd.backup_workers: saw 2; allowed: less than workers.count (2)"},
        Case{"ssgd: {backup_workers: 1}\nparameters: central", "", ""},
        Case{"ssgd: {backup_workers: 1}", "faults: {on_worker_loss: shrink}\n",
             "faults.on_worker_loss: saw shrink with backup_workers: 1; allowed: fail or wait, "
             "because backup workers need a fixed number of workers; or set "
             "train.ssgd.backup_workers: 0"},
        Case{"ssgd: {backup_workers: 1}", "faults: {on_worker_loss: wait}\n", ""},
        Case{"", "faults: {on_worker_loss: shrink, min_workers: 2}\n", ""},
        Case{"algorithm: asgd", "exchange: {codec: fp32}\nfaults: {on_worker_loss: shrink}\n", ""},
        Case{"", "faults: {on_worker_loss: shrink, min_workers: 3}\n",
             "faults.min_workers: saw 3; allowed: at most workers.count (2)"},
        Case{"algorithm: softsync\nsoftsync: {n: 2}", kFloats, ""},
        Case{"algorithm: softsync\nsoftsync: {n: 3}", kFloats,
             "train.softsync.n: saw 3; allowed: at most workers.count (2)"},
        Case{"algorithm: easgd\neasgd: {alpha: 0.49}", kFloats, ""},
        Case{"algorithm: easgd\neasgd: {alpha: 0.5}", kFloats,
             "train.easgd.alpha: saw 0.5; allowed: less than 1 / workers.count (2)"},
        Case{"algorithm: easgd_async\neasgd_async: {alpha: 0.5}", kFloats, ""}));

INSTANTIATE_TEST_SUITE_P(
    Odsgd, TrainRule,
    ::testing::Values(
        Case{"algorithm: odsgd\nodsgd: {warmup_epochs: 1}", "", ""},
        Case{"algorithm: odsgd\nodsgd: {warmup_steps: 100, warmup_epochs: 1}", "",
             "train.odsgd.warmup_epochs: saw both warmup_steps and warmup_epochs; allowed: at most "
             "one"},
        Case{"algorithm: odsgd\nodsgd: {local: {lambda: 0.04}}", "",
             "train.odsgd.local.lambda: saw a key that does not apply to the local updater sgd; "
             "allowed: nothing, because sgd does not use it; remove the key, or set "
             "train.odsgd.local.name: dcasgd_c or dcasgd_a"},
        Case{"algorithm: odsgd\nodsgd: {local: {name: none, reference: train_point}}", "",
             "train.odsgd.local.reference: saw a key that does not apply to the local updater "
             "none"},
        Case{"algorithm: odsgd\nodsgd: {local: {name: dcasgd_c, lambda: 0.1, rho: 0.9}}", "",
             "train.odsgd.local.rho: saw a key that does not apply to the local updater "
             "dcasgd_c; allowed: nothing, because dcasgd_c does not use it; remove the key, or set "
             "train.odsgd.local.name: dcasgd_a"},
        Case{"algorithm: odsgd\nodsgd: {local: {name: dcasgd_c, reference: prev_global}}", "", ""},
        Case{"algorithm: odsgd\nodsgd: {local: {name: dcasgd_a, lambda: 2, rho: 0.9}}", "", ""},
        Case{"algorithm: odsgd\nodsgd: {local: {name: none, momentum: 0.9}}", "", ""}));

INSTANTIATE_TEST_SUITE_P(
    Dcasgd, TrainRule,
    ::testing::Values(
        Case{"algorithm: dcasgd_a\ndcasgd_a: {compensation: on_server}", kOwnScalers,
             "train.dcasgd_a.compensation: saw on_server with codec ternary; allowed: on_worker, "
             "because "
             "the term needs the square of the gradient, which a server cannot compute from "
             "stochastic codes or codes with error feedback; or leave the key out"},
        Case{"algorithm: dcasgd_a\ndcasgd_a: {compensation: on_server}",
             "exchange: {codec: onebit}\n",
             "train.dcasgd_a.compensation: saw on_server with codec onebit; allowed: on_worker"},
        Case{"algorithm: dcasgd_c\ndcasgd_c: {compensation: on_server}",
             "exchange: {codec: fp32, rules: [{codec: adacomp}]}\n",
             "train.dcasgd_c.compensation: saw on_server with codec adacomp; allowed: on_worker"},
        Case{"algorithm: dcasgd_c\ndcasgd_c: {compensation: on_server}",
             "exchange: {codec: bf16}\n", ""},
        Case{"algorithm: dcasgd_c\ndcasgd_c: {compensation: on_server}",
             "exchange: {codec: bf16, error_feedback: true}\n",
             "train.dcasgd_c.compensation: saw on_server with codec bf16 and error_feedback: true; "
             "allowed: on_worker"},
        Case{"algorithm: dcasgd_c\ndcasgd_c: {compensation: on_server}",
             "exchange: {codec: fp32, error_feedback: true}\n", ""},
        Case{"algorithm: dcasgd_c\ndcasgd_c: {compensation: on_worker}", kOwnScalers, ""},
        Case{"algorithm: dcasgd_c\ndcasgd_c: {compensation: on_server}", kFloats, ""},
        Case{"algorithm: dcasgd_c", kOwnScalers, ""},
        Case{"algorithm: dcasgd_c\noptimizer: {name: momentum}", kFloats, ""},
        Case{"algorithm: dcasgd_c\ndcasgd_c: {rho: 0.9}", kFloats,
             "train.dcasgd_c.rho: saw 0.9; allowed: nothing, because only dcasgd_a has a mean "
             "square"},
        Case{"algorithm: dcasgd_c\ndcasgd_c: {mean_square_scope: global}", kFloats,
             "train.dcasgd_c.mean_square_scope: saw global; allowed: nothing"},
        Case{"algorithm: dcasgd_a\ndcasgd_a: {rho: 0.9, mean_square_scope: global}", kFloats, ""},
        Case{"algorithm: dcasgd_a\ndcasgd_a: {mean_square_scope: global}", kOwnScalers,
             "13:33: train.dcasgd_a.mean_square_scope: saw global with codec ternary; allowed: "
             "worker, because the workers form the term, each with the mean square of its own "
             "gradients; or push with one of fp32, fp16, bf16 without error_feedback, and leave "
             "train.dcasgd_a.compensation out"},
        Case{"algorithm: dcasgd_a\ndcasgd_a: {mean_square_scope: global, compensation: on_worker}",
             kFloats,
             "train.dcasgd_a.mean_square_scope: saw global with compensation: on_worker; allowed: "
             "worker, because the workers form the term, each with the mean square of its own "
             "gradients; or set train.dcasgd_a.compensation: on_server"},
        Case{"algorithm: dcasgd_a\ndcasgd_a: {mean_square_scope: global}",
             "exchange: {codec: fp16, error_feedback: true}\n",
             "train.dcasgd_a.mean_square_scope: saw global with codec fp16 and error_feedback: "
             "true"},
        Case{"algorithm: dcasgd_a\ndcasgd_a: {mean_square_scope: worker}", kOwnScalers, ""},
        // If the job says that servers form the term, that is the reported fault.
        Case{"algorithm: dcasgd_a\ndcasgd_a: {mean_square_scope: global, compensation: on_server}",
             kOwnScalers, "train.dcasgd_a.compensation: saw on_server with codec ternary"}));

INSTANTIATE_TEST_SUITE_P(
    OptimizerAndSchedule, TrainRule,
    ::testing::Values(
        Case{"optimizer: {name: lars}", "", ""},
        Case{"optimizer: {name: lars}\nparameters: central", "",
             "train.optimizer.name: saw lars with parameters: central; allowed: an element-wise "
             "optimizer"},
        Case{"algorithm: easgd\noptimizer: {name: lars}", kFloats, ""},
        Case{"optimizer: {name: adam}\nparameters: central", "", ""},
        Case{"optimizer: {name: adam, beta1: 1}", "",
             "train.optimizer.beta1: saw 1; allowed: less than 1 with adam"},
        Case{"optimizer: {name: adam, beta2: 1}", "", "train.optimizer.beta2: saw 1"},
        Case{"optimizer: {name: adam, epsilon: 0}", "",
             "train.optimizer.epsilon: saw 0; allowed: more than 0 with adam"},
        Case{"optimizer: {name: adam, epsilon: 1e-60}", "",
             "train.optimizer.epsilon: saw 1e-60; allowed: more than 0 with adam"},
        Case{"optimizer: {beta1: 1, epsilon: 0}", "", ""},
        Case{"schedule: {name: exponential}", "",
             "train.schedule.step_every: saw nothing; allowed: a whole number, at least 1, because "
             "the schedule is exponential"},
        Case{"schedule: {name: exponential, step_every: 10}", "", ""},
        Case{"schedule: {name: multistep}", "",
             "train.schedule.milestones: saw nothing; allowed: a list of steps"},
        Case{"schedule: {name: multistep, milestones: [30, 60]}", "", ""},
        Case{"schedule: {name: multistep, milestones: [30, 60, 60]}", "",
             "train.schedule.milestones[2]: saw 60; allowed: more than the previous step (60)"},
        Case{"schedule: {name: one_cycle, warmup_steps: 10, linear_scaling_batch: 32}", "", ""},
        Case{"schedule: {name: cosine, total_div_factor: 0.5}", "",
             "train.schedule.total_div_factor: saw 0.5; allowed: a number, at least 1"},
        Case{"clip_norm: 1\ncompute: wait", "", ""}));

INSTANTIATE_TEST_SUITE_P(
    BatchGrowth, TrainRule,
    ::testing::Values(
        Case{"batch_growth: [{at_epoch: 1, batch_total: 128}, {at_epoch: 2.5, batch_total: 256}]",
             "", ""},
        Case{"batch_growth: [{at_epoch: 2, batch_total: 128}, {at_epoch: 2, batch_total: 256}]", "",
             "train.batch_growth[1].at_epoch: saw 2; allowed: more than the epoch of the previous "
             "entry (2)"},
        Case{"batch_growth: [{at_epoch: 2, batch_total: 129}]", "",
             "train.batch_growth[0].batch_total: saw 129; allowed: a multiple of workers.count "
             "(2)"},
        Case{"batch_growth: [{at_epoch: 2, batch_total: 64}]", "",
             "train.batch_growth[0].batch_total: saw 64; allowed: more than the previous batch "
             "(64)"},
        Case{"batch_growth: [{at_epoch: 2}]", "",
             "train.batch_growth[0].batch_total: saw nothing"}));

// Choosing an algorithm in one line must be valid, so defaults that it cannot use are replaced.
TEST(TrainRules, FillInDefaultsThatSuitTheAlgorithm) {
  const auto exchange = [](const std::string& lines) {
    return Parse(SmallJob() + lines)->exchange();
  };
  EXPECT_EQ(exchange("").scaler(), pb::Exchange::shared);
  EXPECT_EQ(exchange("  algorithm: asgd\n").scaler(), pb::Exchange::per_worker);
  EXPECT_EQ(exchange("  parameters: central\n").scaler(), pb::Exchange::per_worker);
  EXPECT_EQ(exchange("exchange: {clip: grace}\n").scaler(), pb::Exchange::per_worker);
  EXPECT_EQ(exchange("").clip(), pb::Exchange::paper);
  EXPECT_EQ(exchange("  algorithm: pqasgd\n").clip(), pb::Exchange::none);
  EXPECT_EQ(exchange("").codec(), "ternary");
  EXPECT_EQ(exchange("  algorithm: easgd\n").codec(), "fp32");
}

TEST(TrainRules, FillInWhereTheAlgorithmHoldsParameters) {
  EXPECT_EQ(Parse(SmallJob())->train().parameters(), pb::Train::localized);
  const auto asgd = Parse(SmallJob() + "  algorithm: asgd\n" + kFloats);
  ASSERT_TRUE(asgd.ok()) << asgd.status().message();
  EXPECT_EQ(asgd->train().parameters(), pb::Train::central);
  EXPECT_TRUE(asgd->train().has_asgd());
  EXPECT_FALSE(asgd->train().has_ssgd());
  EXPECT_EQ(asgd->train().asgd().push_every(), 1u);
}

// The printed job must be valid again, so keys that do not apply are not filled in.
TEST(TrainRules, AcceptThePrintedJob) {
  for (const char* local : {"none", "sgd", "dcasgd_c", "dcasgd_a"}) {
    const auto job =
        Parse(SmallJob() + "  algorithm: odsgd\n  odsgd: {local: {name: " + local + "}}\n");
    ASSERT_TRUE(job.ok()) << job.status().message();
    const auto again = Parse(ToYaml(*job));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(ToYaml(*again), ToYaml(*job));
    EXPECT_EQ(JobDigest(*again), JobDigest(*job));
    EXPECT_EQ(job->train().odsgd().local().lambda(), 0.04);
  }
}

TEST(TrainRules, ReportAllFaults) {
  EXPECT_THAT(FaultsOf(SmallJob() +
                       "  algorithm: dcasgd_a\n  parameters: localized\n"
                       "  dcasgd_a: {compensation: on_server}\n" +
                       kSharedScalers),
              ElementsAre(HasSubstr("13:15: train.parameters"),
                          HasSubstr("14:28: train.dcasgd_a.compensation"),
                          HasSubstr("15:20: exchange.scaler")));
}

}  // namespace
}  // namespace tern::config
