// Tests of the rules between the keys of a job's section `train`, and of what an algorithm requires
// of the sections exchange, workers and faults.
#include <gmock/gmock.h>

#include <string>

#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job and the expected error. The job is SmallJob (2 workers, a batch of 64) with the keys
// `train` in its section train, and `more` appended. If the error is empty, the job must be
// accepted.
struct RuleCase {
  const char* train;
  const char* more;
  const char* expected_error;
};
void PrintTo(const RuleCase& c, std::ostream* out) { *out << c.train << " | " << c.more; }

class TrainRule : public ::testing::TestWithParam<RuleCase> {};
TEST_P(TrainRule, IsHeld) {
  const RuleCase& c = GetParam();
  std::string train = c.train;
  for (size_t at = 0; (at = train.find('\n', at)) != std::string::npos; at += 3)
    train.insert(at + 1, "  ");
  const std::string text = SmallJob() + "  " + train + "\n" + c.more;
  const auto faults = FaultsOf(text);
  if (c.expected_error[0] == '\0') {
    EXPECT_THAT(faults, ElementsAre()) << text;
  } else {
    EXPECT_THAT(faults, ElementsAre(HasSubstr(c.expected_error))) << text;
  }
}

constexpr const char* kFp32 = "exchange: {codec: fp32}\n";
constexpr const char* kSharedScalers = "exchange: {scaler: shared}\n";
constexpr const char* kTernary = "exchange: {codec: ternary}\n";
constexpr const char* kPerWorkerScalers = "exchange: {scaler: per_worker}\n";

INSTANTIATE_TEST_SUITE_P(
    Sections, TrainRule,
    ::testing::Values(
        RuleCase{"algorithm: ssgd\nssgd: {backup_workers: 1}", "", ""},
        RuleCase{
            "psgd: {p: 4}", "",
            "12:3: train.psgd: saw a section of psgd with algorithm: ssgd; allowed: sections of "
            "ssgd; remove this one, or set train.algorithm: psgd"},
        RuleCase{"ssgd: {p: 4}", "",
                 "train.ssgd.p: saw an unknown key; did you mean train.psgd.p? Allowed: one of "
                 "backup_workers, "
                 "lookahead"},
        RuleCase{"algorithm: psgd\npsgd: {p: 4}", kFp32, ""},
        RuleCase{"algorithm: psgd\npsgd: {p: 4}\nrsgd: {p: 4}", kFp32,
                 "train.rsgd: saw a section of rsgd with algorithm: psgd"},
        RuleCase{"algorithm: asdg", "",
                 "train.algorithm: saw asdg; did you mean asgd? Allowed: one of ssgd, odsgd, asgd"},
        // The keys of an unused section are not checked.
        RuleCase{"ssgd: {}\nsoftsync: {n: 9}", "", "train.softsync: saw a section of softsync"}));

INSTANTIATE_TEST_SUITE_P(
    Holding, TrainRule,
    ::testing::Values(
        RuleCase{"parameters: central", "", ""}, RuleCase{"parameters: localized", "", ""},
        RuleCase{"algorithm: odsgd\nparameters: central", "", ""},
        RuleCase{"algorithm: asgd\nparameters: localized", kPerWorkerScalers,
                 "train.parameters: saw localized with algorithm: asgd; allowed: central "
                 "(asgd supports no other place for them)"},
        RuleCase{"algorithm: asgd\nparameters: central", kPerWorkerScalers, ""},
        RuleCase{"algorithm: psgd\nparameters: central", kFp32,
                 "train.parameters: saw central with algorithm: psgd; allowed: localized"},
        RuleCase{"algorithm: easgd\nparameters: localized", kFp32,
                 "train.parameters: saw localized with algorithm: easgd"}));

INSTANTIATE_TEST_SUITE_P(
    Push, TrainRule,
    ::testing::Values(
        RuleCase{"algorithm: asgd", "", ""},
        RuleCase{"algorithm: asgd", kSharedScalers,
                 "exchange.scaler: saw shared with algorithm: asgd and codec ternary; allowed: "
                 "per_worker: workers that do not wait for each other cannot share scalers; set "
                 "exchange.scaler: per_worker"},
        RuleCase{"algorithm: asgd", kPerWorkerScalers, ""}, RuleCase{"algorithm: asgd", kFp32, ""},
        RuleCase{"algorithm: ssp",
                 "exchange: {codec: fp16, scaler: shared, rules: [{codec: ternary}]}\n",
                 "exchange.scaler: saw shared with algorithm: ssp and codec ternary"},
        RuleCase{"algorithm: softsync", "exchange: {codec: bf16, rules: [{codec: fp32}]}\n", ""},
        RuleCase{"algorithm: odsgd", "", ""},
        RuleCase{"parameters: central", kSharedScalers,
                 "exchange.scaler: saw shared with parameters: central and codec ternary; allowed: "
                 "per_worker: servers that hold the parameters decode every push by itself; set "
                 "exchange.scaler: per_worker"},
        RuleCase{"algorithm: odsgd", "exchange: {scaler: previous, scaler_margin: 2}\n", ""},
        RuleCase{"algorithm: asgd", "exchange: {scaler: previous}\n",
                 "exchange.scaler: saw previous with algorithm: asgd"},
        RuleCase{
            "parameters: central", "exchange: {scaler: previous}\n",
            "exchange.scaler: saw previous with algorithm: ssgd, parameters: central; allowed: "
            "shared or per_worker"},
        RuleCase{"algorithm: pqasgd", "exchange: {scaler: previous}\n",
                 "exchange.scaler: saw previous with algorithm: pqasgd"},
        RuleCase{
            "algorithm: ssgd", "exchange: {scaler_margin: 2}\n",
            "exchange.scaler_margin: saw 2; allowed: nothing, because only scaler: previous has a "
            "margin"},
        RuleCase{"algorithm: ssgd", "exchange: {codec: fp32, scaler_elements: 4096}\n",
                 "exchange.scaler_elements: saw 4096; allowed: 0, because no tensor has a codec "
                 "with scalers: a ternary one, or qsgd_shared"},
        RuleCase{"algorithm: psgd", "", ""},
        RuleCase{
            "algorithm: psgd", "exchange: {codec: ternary}\n",
            "exchange.codec: saw ternary with algorithm: psgd; allowed: one of fp32, fp16, bf16, "
            "because psgd pushes the parameters themselves"},
        RuleCase{"algorithm: easgd_async", "exchange: {codec: bf16}\n", ""},
        RuleCase{"algorithm: rsgd", "exchange: {codec: fp32, rules: [{codec: ternary}]}\n",
                 "13:41: exchange.rules[0].codec: saw ternary with algorithm: rsgd"},
        RuleCase{"algorithm: pqasgd", "", ""},
        RuleCase{
            "algorithm: pqasgd", "exchange: {clip: paper}\n",
            "exchange.clip: saw paper with algorithm: pqasgd and codec ternary; allowed: none: "
            "pqasgd needs unbiased codes, and clipping makes them biased; set exchange.clip: none, "
            "or exchange.rotate"},
        RuleCase{"algorithm: pqasgd", "exchange: {clip: none}\n", ""},
        RuleCase{"algorithm: pqasgd", "exchange: {clip: paper, rotate: 4096}\n", ""},
        RuleCase{"algorithm: pqasgd", "exchange: {codec: qsgd}\n", ""},
        RuleCase{
            "algorithm: pqasgd", "exchange: {codec: onebit}\n",
            "exchange.codec: saw onebit with algorithm: pqasgd; allowed: one of fp32, fp16, bf16, "
            "ternary, qsgd, qsgd_shared, qsgd_shared_ans, because pqasgd needs unbiased codes"},
        RuleCase{"algorithm: psgd", "exchange: {codec: topk}\n",
                 "exchange.codec: saw topk with algorithm: psgd; allowed: one of fp32, fp16, bf16"},
        RuleCase{"algorithm: pqasgd", kFp32, ""}));

INSTANTIATE_TEST_SUITE_P(
    CodecSections, TrainRule,
    ::testing::Values(
        RuleCase{"algorithm: ssgd", "exchange: {codec: qsgd, qsgd: {bits: 8}}\n", ""},
        RuleCase{"algorithm: ssgd", "exchange: {rules: [{codec: topk}], topk: {ratio: 0.01}}\n",
                 ""},
        RuleCase{
            "algorithm: ssgd", "exchange: {qsgd: {bits: 8}}\n",
            "exchange.qsgd: saw a section of qsgd, which the job does not use; allowed: sections "
            "of the codecs in use; remove this one, or set exchange.codec: qsgd"},
        RuleCase{
            "parameters: central",
            "exchange: {codec: fp32, pull: changes, pull_codec: onebit, onebit: {bucket_elements: "
            "64}}\n",
            ""},
        RuleCase{"algorithm: ssgd", "exchange: {codec: qsgd, qsgd: {levels: sqrt_n}}\n", ""},
        RuleCase{"algorithm: ssgd", "exchange: {codec: qsgd, qsgd: {levels: sqrt_n, norm: two}}\n",
                 ""},
        RuleCase{"algorithm: ssgd",
                 "exchange: {codec: qsgd, qsgd: {levels: sqrt_mpn, norm: max}}\n",
                 "exchange.qsgd.norm: saw max with levels: sqrt_mpn; allowed: two, because levels: "
                 "sqrt_mpn is a number of levels of the 2-norm, too many by the ratio of the norms "
                 "for max; or levels: by_bits or given"},
        RuleCase{"algorithm: ssgd", "exchange: {codec: qsgd, qsgd: {bits: 1}}\n",
                 "exchange.qsgd.bits: saw 1"},
        RuleCase{"algorithm: pqasgd", "exchange: {codec: qsgd, qsgd: {sums: exact}}\n", ""},
        RuleCase{"parameters: central", "exchange: {codec: qsgd, qsgd: {sums: coded}}\n", ""},
        RuleCase{"parameters: central", "exchange: {codec: qsgd, qsgd: {sums: exact}}\n",
                 "13:38: exchange.qsgd.sums: saw exact with parameters: central; allowed: coded, "
                 "because servers that hold the parameters apply the mean of the codes themselves, "
                 "without coding it again; remove the key"},
        RuleCase{"optimizer: {name: sgd}", "exchange: {codec: topk, topk: {momentum: 0.9}}\n", ""},
        RuleCase{"optimizer: {name: momentum}", "exchange: {codec: topk, topk: {momentum: 0.9}}\n",
                 "exchange.topk.momentum: saw 0.9 with train.optimizer.name: momentum; allowed: 0, "
                 "because momentum would apply twice; or set train.optimizer.name: sgd"},
        RuleCase{"optimizer: {name: momentum}\nparameters: central",
                 "exchange: {pull: changes, pull_codec: topk, topk: {momentum: 0.9}}\n", ""},
        RuleCase{"algorithm: ssgd", "exchange: {codec: topk, topk: {ratio: 0}}\n",
                 "exchange.topk.ratio: saw 0"}));

constexpr const char* kSharedNorms = "exchange: {codec: qsgd_shared}\n";

INSTANTIATE_TEST_SUITE_P(
    SharedNorms, TrainRule,
    ::testing::Values(
        RuleCase{"algorithm: ssgd", kSharedNorms, ""},
        RuleCase{"algorithm: pqasgd", kSharedNorms, ""},
        RuleCase{"algorithm: odsgd",
                 "exchange: {codec: qsgd_shared, scaler: previous, scaler_elements: 4096, clip: "
                 "paper, qsgd_shared: {bits: 8}}\n",
                 ""},
        RuleCase{"algorithm: ssgd", "exchange: {codec: qsgd_shared_ans, qsgd_shared: {bits: 8}}\n",
                 ""},
        RuleCase{"algorithm: ssgd", "exchange: {qsgd_shared: {bits: 8}}\n",
                 "exchange.qsgd_shared: saw a section of qsgd_shared, which the job does not use"},
        RuleCase{"parameters: central", "exchange: {codec: qsgd_shared_ans}\n",
                 "exchange.codec: saw qsgd_shared_ans with parameters: central"},
        RuleCase{"algorithm: ssgd", "exchange: {codec: qsgd_shared, qsgd_shared: {bits: 9}}\n",
                 "exchange.qsgd_shared.bits: saw 9; allowed: a whole number, 2 to 8"},
        RuleCase{"algorithm: ssgd", "exchange: {codec: qsgd_shared, scaler: per_worker}\n",
                 "13:19: exchange.codec: saw qsgd_shared with scaler: per_worker; allowed: qsgd, "
                 "whose norms are each worker's own; or set exchange.scaler: shared"},
        RuleCase{"algorithm: ssgd",
                 "exchange: {scaler: per_worker, rules: [{codec: qsgd_shared}]}\n",
                 "exchange.rules[0].codec: saw qsgd_shared with scaler: per_worker"},
        RuleCase{"algorithm: ssgd", "exchange: {codec: qsgd_shared, clip: grace}\n",
                 "exchange.codec: saw qsgd_shared with scaler: per_worker; allowed: qsgd, whose "
                 "norms are each worker's own; or set exchange.scaler: shared and exchange.clip: "
                 "none"},
        RuleCase{"parameters: central", kSharedNorms,
                 "exchange.codec: saw qsgd_shared with parameters: central; allowed: a codec whose "
                 "codes a server can decode alone, e.g. qsgd, because all workers of a round share "
                 "the norms of qsgd_shared"},
        RuleCase{"parameters: central", "exchange: {codec: qsgd_shared, scaler: shared}\n",
                 "exchange.codec: saw qsgd_shared with parameters: central"},
        RuleCase{"algorithm: asgd", kSharedNorms,
                 "exchange.codec: saw qsgd_shared with algorithm: asgd; allowed: a codec whose"},
        RuleCase{"algorithm: pqasgd", "exchange: {codec: qsgd_shared, clip: official}\n",
                 "exchange.clip: saw official with algorithm: pqasgd and codec qsgd_shared"},
        RuleCase{"algorithm: psgd", kSharedNorms,
                 "exchange.codec: saw qsgd_shared with algorithm: psgd; allowed: one of fp32"},
        RuleCase{"algorithm: easgd_async", kSharedNorms,
                 "exchange.codec: saw qsgd_shared with algorithm: easgd_async; allowed: one of "
                 "fp32, fp16, bf16, because easgd_async pushes the parameters themselves"},
        RuleCase{"parameters: central", "exchange: {codec: fp32, pull_codec: qsgd_shared}\n",
                 "exchange.pull_codec: saw qsgd_shared with pull: weights"},
        RuleCase{"parameters: central",
                 "exchange: {codec: fp32, pull: changes, pull_codec: qsgd_shared}\n",
                 "exchange.pull_codec: saw qsgd_shared with pull: changes"}));

INSTANTIATE_TEST_SUITE_P(
    Pull, TrainRule,
    ::testing::Values(
        RuleCase{"parameters: central", "exchange: {pull_codec: bf16}\n", ""},
        RuleCase{"parameters: central", "exchange: {pull_codec: ternary}\n",
                 "exchange.pull_codec: saw ternary with pull: weights; allowed: one of fp32, fp16, "
                 "bf16"},
        RuleCase{"parameters: central", "exchange: {pull_codec: onebit}\n",
                 "exchange.pull_codec: saw onebit with pull: weights; allowed: one of fp32, fp16, "
                 "bf16; or set exchange.pull: changes"},
        RuleCase{
            "parameters: central", "exchange: {pull: changes, pull_codec: ternary}\n",
            "13:39: exchange.pull_codec: saw ternary with pull: changes; allowed: one of fp32, "
            "fp16, bf16, onebit, topk, threshold, adaptive, adacomp, because the codes of ternary "
            "are stochastic: their error is noise, which must not be carried over into the next "
            "change"},
        // exchange.rules do not change the pull codec.
        RuleCase{"parameters: central",
                 "exchange: {pull: changes, pull_codec: qsgd, rules: [{codec: fp32}]}\n",
                 "exchange.pull_codec: saw qsgd with pull: changes"},
        RuleCase{"parameters: central",
                 "exchange: {pull: changes, pull_codec: topk, rules: [{codec: qsgd}]}\n", ""},
        RuleCase{"", "exchange: {pull: changes}\n",
                 "exchange.pull: saw changes with parameters: localized; allowed: weights, because "
                 "only central parameters are pulled; or set train.parameters: central"},
        RuleCase{"", "exchange: {pull_codec: fp16}\n",
                 "exchange.pull_codec: saw fp16 with parameters: localized; allowed: fp32, because "
                 "only central"}));

INSTANTIATE_TEST_SUITE_P(
    Algorithms, TrainRule,
    ::testing::Values(
        RuleCase{
            "max_staleness: 3", "",
            "train.max_staleness: saw 3 with algorithm: ssgd; allowed: 0, because gradients are "
            "never stale in rounds; it is for algorithms without rounds: asgd, dcasgd_c, "
            "dcasgd_a, ssp, "
            "softsync, easgd_async"},
        RuleCase{"algorithm: ssp\nmax_staleness: 3", kFp32, ""},
        RuleCase{"ssgd: {backup_workers: 2}", "",
                 "train.ssgd.backup_workers: saw 2; allowed: less than workers.count (2)"},
        RuleCase{"ssgd: {backup_workers: 1}\nparameters: central", "", ""},
        RuleCase{"ssgd: {backup_workers: 1}", "faults: {on_worker_loss: shrink}\n",
                 "faults.on_worker_loss: saw shrink with backup_workers: 1; allowed: fail or wait, "
                 "because backup workers need a fixed number of workers; or set "
                 "train.ssgd.backup_workers: 0"},
        RuleCase{"ssgd: {backup_workers: 1}", "faults: {on_worker_loss: wait}\n", ""},
        RuleCase{"algorithm: asgd", "exchange: {codec: fp32}\nfaults: {on_worker_loss: shrink}\n",
                 ""},
        RuleCase{"algorithm: softsync\nsoftsync: {n: 2}", kFp32, ""},
        RuleCase{"algorithm: softsync\nsoftsync: {n: 3}", kFp32,
                 "train.softsync.n: saw 3; allowed: at most workers.count (2)"},
        RuleCase{"algorithm: easgd\neasgd: {alpha: 0.49}", kFp32, ""},
        RuleCase{"algorithm: easgd\neasgd: {alpha: 0.5}", kFp32,
                 "train.easgd.alpha: saw 0.5; allowed: less than 1 / workers.count (2)"},
        RuleCase{"algorithm: easgd_async\neasgd_async: {alpha: 0.5}", kFp32, ""}));

INSTANTIATE_TEST_SUITE_P(
    WeightDecay, TrainRule,
    ::testing::Values(
        RuleCase{"weight_decay: {rules: [{tensors: \"local?.weight\", rate: 0.004}]}", "", ""},
        RuleCase{"weight_decay: {rules: [{tensors: \"*\"}]}", "",
                 "train.weight_decay.rules[0].rate: saw nothing; allowed: a number, at least 0"},
        RuleCase{"weight_decay: {rules: [{rate: -1}]}", "",
                 "train.weight_decay.rules[0].rate: saw -1; allowed: a number, at least 0"},
        RuleCase{
            "optimizer: {name: lars}\nweight_decay: {rules: [{rate: 1}]}\nclip_norm: 5", "",
            "train.clip_norm: saw 5 with optimizer lars and weight_decay in_gradient; allowed: "
            "0, because lars takes the decay out of the gradient again, and clipping has scaled "
            "both together; or set train.weight_decay.where: local"},
        RuleCase{"optimizer: {name: lars}\nweight_decay: {rate: 1, where: local}\nclip_norm: 5", "",
                 ""},
        RuleCase{"optimizer: {name: lars}\nclip_norm: 5", "", ""}));

INSTANTIATE_TEST_SUITE_P(
    Odsgd, TrainRule,
    ::testing::Values(
        RuleCase{"algorithm: odsgd\nodsgd: {warmup_epochs: 1}", "", ""},
        RuleCase{
            "algorithm: odsgd\nodsgd: {warmup_steps: 100, warmup_epochs: 1}", "",
            "train.odsgd.warmup_epochs: saw both warmup_steps and warmup_epochs; allowed: at most "
            "one"},
        RuleCase{"algorithm: odsgd\nodsgd: {local: {learning_rate_times: 1.25}}", "", ""},
        RuleCase{"algorithm: odsgd\nodsgd: {local: {learning_rate_times: 0}}", "",
                 "train.odsgd.local.learning_rate_times: saw 0; allowed: a number, more than 0"},
        RuleCase{
            "algorithm: odsgd\nodsgd: {local: {learning_rate: 1, learning_rate_times: 2}}", "",
            "train.odsgd.local.learning_rate_times: saw both learning_rate and "
            "learning_rate_times; allowed: at most one of the two: learning_rate is fixed, and "
            "learning_rate_times multiplies the schedule's rate at each step"},
        RuleCase{"schedule: {name: one_cycle, anneal: linear}", "", ""},
        RuleCase{
            "schedule: {name: poly, anneal: linear}", "",
            "train.schedule.anneal: saw a key that does not apply to the schedule poly; allowed: "
            "nothing, because poly does not use it; remove the key, or set "
            "train.schedule.name: one_cycle"},
        RuleCase{
            "algorithm: odsgd\nodsgd: {local: {lambda: 0.04}}", "",
            "train.odsgd.local.lambda: saw a key that does not apply to the local updater sgd; "
            "allowed: nothing, because sgd does not use it; remove the key, or set "
            "train.odsgd.local.name: dcasgd_c or dcasgd_a"},
        RuleCase{"algorithm: odsgd\nodsgd: {local: {name: none, reference: train_point}}", "",
                 "train.odsgd.local.reference: saw a key that does not apply to the local updater "
                 "none"},
        RuleCase{
            "algorithm: odsgd\nodsgd: {local: {name: dcasgd_c, lambda: 0.1, rho: 0.9}}", "",
            "train.odsgd.local.rho: saw a key that does not apply to the local updater "
            "dcasgd_c; allowed: nothing, because dcasgd_c does not use it; remove the key, or set "
            "train.odsgd.local.name: dcasgd_a"},
        RuleCase{"algorithm: odsgd\nodsgd: {local: {name: dcasgd_c, reference: prev_global}}", "",
                 ""},
        RuleCase{"algorithm: odsgd\nodsgd: {local: {name: dcasgd_a, lambda: 2, rho: 0.9}}", "", ""},
        RuleCase{"algorithm: odsgd\nodsgd: {local: {name: none, momentum: 0.9}}", "", ""}));

INSTANTIATE_TEST_SUITE_P(
    Dcasgd, TrainRule,
    ::testing::Values(
        RuleCase{
            "algorithm: dcasgd_a\ndcasgd_a: {compensation: on_server}", kTernary,
            "train.dcasgd_a.compensation: saw on_server with codec ternary; allowed: on_worker, "
            "because "
            "the term needs the square of the gradient, which a server cannot compute from "
            "stochastic codes or codes with error feedback; or leave the key out"},
        RuleCase{
            "algorithm: dcasgd_a\ndcasgd_a: {compensation: on_server}",
            "exchange: {codec: onebit}\n",
            "train.dcasgd_a.compensation: saw on_server with codec onebit; allowed: on_worker"},
        RuleCase{
            "algorithm: dcasgd_c\ndcasgd_c: {compensation: on_server}",
            "exchange: {codec: fp32, rules: [{codec: adacomp}]}\n",
            "train.dcasgd_c.compensation: saw on_server with codec adacomp; allowed: on_worker"},
        RuleCase{"algorithm: dcasgd_c\ndcasgd_c: {compensation: on_server}",
                 "exchange: {codec: bf16}\n", ""},
        RuleCase{
            "algorithm: dcasgd_c\ndcasgd_c: {compensation: on_server}",
            "exchange: {codec: bf16, error_feedback: true}\n",
            "train.dcasgd_c.compensation: saw on_server with codec bf16 and error_feedback: true; "
            "allowed: on_worker"},
        RuleCase{"algorithm: dcasgd_c\ndcasgd_c: {compensation: on_server}",
                 "exchange: {codec: fp32, error_feedback: true}\n", ""},
        RuleCase{"algorithm: dcasgd_c\ndcasgd_c: {compensation: on_worker}", kTernary, ""},
        RuleCase{"algorithm: dcasgd_c\ndcasgd_c: {compensation: on_server}", kFp32, ""},
        RuleCase{"algorithm: dcasgd_c", kTernary, ""},
        RuleCase{"algorithm: dcasgd_c\noptimizer: {name: momentum}", kFp32, ""},
        RuleCase{"algorithm: dcasgd_c\ndcasgd_c: {rho: 0.9}", kFp32,
                 "train.dcasgd_c.rho: saw 0.9; allowed: nothing, because only dcasgd_a has a mean "
                 "square"},
        RuleCase{"algorithm: dcasgd_c\ndcasgd_c: {mean_square_scope: global}", kFp32,
                 "train.dcasgd_c.mean_square_scope: saw global; allowed: nothing"},
        RuleCase{"algorithm: dcasgd_a\ndcasgd_a: {rho: 0.9, mean_square_scope: global}", kFp32, ""},
        RuleCase{
            "algorithm: dcasgd_a\ndcasgd_a: {mean_square_scope: global}", kTernary,
            "13:33: train.dcasgd_a.mean_square_scope: saw global with codec ternary; allowed: "
            "worker, because the workers form the term, each with the mean square of its own "
            "gradients; or push with one of fp32, fp16, bf16 without error_feedback, and leave "
            "train.dcasgd_a.compensation out"},
        RuleCase{
            "algorithm: dcasgd_a\ndcasgd_a: {mean_square_scope: global, compensation: on_worker}",
            kFp32,
            "train.dcasgd_a.mean_square_scope: saw global with compensation: on_worker; allowed: "
            "worker, because the workers form the term, each with the mean square of its own "
            "gradients; or set train.dcasgd_a.compensation: on_server"},
        RuleCase{"algorithm: dcasgd_a\ndcasgd_a: {mean_square_scope: global}",
                 "exchange: {codec: fp16, error_feedback: true}\n",
                 "train.dcasgd_a.mean_square_scope: saw global with codec fp16 and error_feedback: "
                 "true"},
        RuleCase{"algorithm: dcasgd_a\ndcasgd_a: {mean_square_scope: worker}", kTernary, ""},
        // If the job asks servers to compute the compensation term, the error names that key, and
        // not mean_square_scope.
        RuleCase{
            "algorithm: dcasgd_a\ndcasgd_a: {mean_square_scope: global, compensation: on_server}",
            kTernary, "train.dcasgd_a.compensation: saw on_server with codec ternary"}));

INSTANTIATE_TEST_SUITE_P(
    OptimizerAndSchedule, TrainRule,
    ::testing::Values(
        RuleCase{"optimizer: {name: lars}", "", ""},
        RuleCase{
            "optimizer: {name: lars}\nparameters: central", "",
            "train.optimizer.name: saw lars with parameters: central; allowed: an element-wise "
            "optimizer"},
        RuleCase{"algorithm: easgd\noptimizer: {name: lars}", kFp32, ""},
        RuleCase{"optimizer: {name: adam}\nparameters: central", "", ""},
        RuleCase{"optimizer: {name: adam, beta1: 1}", "",
                 "train.optimizer.beta1: saw 1; allowed: less than 1 with adam"},
        RuleCase{"optimizer: {name: adam, beta2: 1}", "", "train.optimizer.beta2: saw 1"},
        RuleCase{"optimizer: {name: rmsprop}\nparameters: central", "", ""},
        RuleCase{"optimizer: {name: rmsprop, rho: 1}", "",
                 "train.optimizer.rho: saw 1; allowed: less than 1 with rmsprop"},
        RuleCase{"optimizer: {name: rmsprop, epsilon: 0}", "",
                 "train.optimizer.epsilon: saw 0; allowed: more than 0 with rmsprop"},
        RuleCase{"optimizer: {name: adam, epsilon: 0}", "",
                 "train.optimizer.epsilon: saw 0; allowed: more than 0 with adam"},
        RuleCase{"optimizer: {name: adam, epsilon: 1e-60}", "",
                 "train.optimizer.epsilon: saw 1e-60; allowed: more than 0 with adam"},
        RuleCase{"optimizer: {beta1: 1, epsilon: 0}", "", ""},
        RuleCase{
            "schedule: {name: exponential}", "",
            "train.schedule.step_every: saw nothing; allowed: a whole number, at least 1, because "
            "the schedule is exponential"},
        RuleCase{"schedule: {name: exponential, step_every: 10}", "", ""},
        RuleCase{"schedule: {name: multistep}", "",
                 "train.schedule.milestones: saw nothing; allowed: a list of steps"},
        RuleCase{"schedule: {name: multistep, milestones: [30, 60]}", "", ""},
        RuleCase{"schedule: {name: multistep, milestones: [30, 60, 60]}", "",
                 "train.schedule.milestones[2]: saw 60; allowed: more than the previous step (60)"},
        RuleCase{"schedule: {name: one_cycle, warmup_steps: 10, linear_scaling_batch: 32}", "", ""},
        RuleCase{"schedule: {name: cosine, total_div_factor: 0.5}", "",
                 "train.schedule.total_div_factor: saw 0.5; allowed: a number, at least 1"},
        RuleCase{"clip_norm: 1\ncompute: wait", "", ""}));

INSTANTIATE_TEST_SUITE_P(
    BatchGrowth, TrainRule,
    ::testing::Values(
        RuleCase{
            "batch_growth: [{at_epoch: 1, batch_total: 128}, {at_epoch: 2.5, batch_total: 256}]",
            "", ""},
        RuleCase{
            "batch_growth: [{at_epoch: 2, batch_total: 128}, {at_epoch: 2, batch_total: 256}]", "",
            "train.batch_growth[1].at_epoch: saw 2; allowed: more than the epoch of the previous "
            "entry (2)"},
        RuleCase{"batch_growth: [{at_epoch: 2, batch_total: 129}]", "",
                 "train.batch_growth[0].batch_total: saw 129; allowed: a multiple of workers.count "
                 "(2), such as 128 or 130"},
        RuleCase{"batch_growth: [{at_epoch: 2, batch_total: 64}]", "",
                 "train.batch_growth[0].batch_total: saw 64; allowed: more than the previous batch "
                 "(64)"},
        RuleCase{"batch_growth: [{at_epoch: 2}]", "",
                 "train.batch_growth[0].batch_total: saw nothing"}));

TEST(TrainRules, LimitWorkersMin) {
  const auto faults_with = [](int min, const std::string& on_worker_loss) {
    return FaultsOf(SmallJobWith("  count: 2\n", "  count: 2\n  min: " + std::to_string(min) + "\n",
                                 "faults: {on_worker_loss: " + on_worker_loss + "}\n"));
  };
  EXPECT_THAT(faults_with(2, "shrink"), ElementsAre());
  EXPECT_THAT(faults_with(3, "shrink"),
              ElementsAre(HasSubstr("workers.min: saw 3; allowed: at most workers.count (2)")));
  EXPECT_THAT(faults_with(1, "wait"),
              ElementsAre(HasSubstr("workers.min: saw 1; allowed: not with this "
                                    "faults.on_worker_loss; with shrink a job trains with fewer")));
}

TEST(TrainRules, LimitWorkersMax) {
  const auto faults_with = [](int max, const std::string& on_worker_loss) {
    return FaultsOf(SmallJobWith("  count: 2\n", "  count: 2\n  max: " + std::to_string(max) + "\n",
                                 "faults: {on_worker_loss: " + on_worker_loss + "}\n"));
  };
  EXPECT_THAT(faults_with(2, "shrink"), ElementsAre());
  EXPECT_THAT(faults_with(1024, "shrink"), ElementsAre());
  EXPECT_THAT(faults_with(1, "shrink"),
              ElementsAre(HasSubstr("workers.max: saw 1; allowed: at least workers.count (2)")));
  EXPECT_THAT(faults_with(3, "fail"),
              ElementsAre(HasSubstr("workers.max: saw 3; allowed: not with this "
                                    "faults.on_worker_loss; with shrink a job trains with fewer or "
                                    "more than workers.count")));
}

// A job that sets only the algorithm must be valid, so defaults that the algorithm cannot use are
// replaced.
TEST(TrainRules, FillInDefaultsThatSuitTheAlgorithm) {
  const auto exchange_of = [](const std::string& lines) {
    return Parse(SmallJob() + lines)->exchange();
  };
  EXPECT_EQ(exchange_of("").scaler(), pb::Exchange::shared);
  EXPECT_EQ(exchange_of("  algorithm: asgd\n").scaler(), pb::Exchange::per_worker);
  EXPECT_EQ(exchange_of("  parameters: central\n").scaler(), pb::Exchange::per_worker);
  EXPECT_EQ(exchange_of("exchange: {clip: grace}\n").scaler(), pb::Exchange::per_worker);
  EXPECT_EQ(exchange_of("").clip(), pb::Exchange::paper);
  EXPECT_EQ(exchange_of("  algorithm: pqasgd\n").clip(), pb::Exchange::none);
  EXPECT_EQ(exchange_of("").codec(), "ternary");
  EXPECT_EQ(exchange_of("  algorithm: easgd\n").codec(), "fp32");
}

TEST(TrainRules, FillInWhereTheAlgorithmHoldsParameters) {
  EXPECT_EQ(Parse(SmallJob())->train().parameters(), pb::Train::localized);
  const auto asgd_job = Parse(SmallJob() + "  algorithm: asgd\n" + kFp32);
  ASSERT_TRUE(asgd_job.ok()) << asgd_job.status().message();
  EXPECT_EQ(asgd_job->train().parameters(), pb::Train::central);
  EXPECT_TRUE(asgd_job->train().has_asgd());
  EXPECT_FALSE(asgd_job->train().has_ssgd());
  EXPECT_EQ(asgd_job->train().asgd().push_every(), 1u);
}

TEST(TrainRules, FillInTheNormOfRootLevels) {
  const auto norm_with = [](const std::string& levels) {
    const auto job =
        Parse(SmallJob() + "exchange: {codec: qsgd, qsgd: {levels: " + levels + "}}\n");
    EXPECT_TRUE(job.ok()) << job.status().message();
    return job->exchange().qsgd().norm();
  };
  for (const char* levels : {"sqrt_n", "sqrt_mn", "sqrt_mpn"})
    EXPECT_EQ(norm_with(levels), pb::Qsgd::two) << levels;
  EXPECT_EQ(norm_with("by_bits"), pb::Qsgd::max);
}

// The optimizer of a job whose section train has these keys.
std::string OptimizerWith(const std::string& keys) {
  const auto job = Parse(SmallJob() + "  " + keys + "\n" + kFp32);
  EXPECT_TRUE(job.ok()) << job.status().message();
  return job->train().optimizer().name() + " " +
         std::to_string(job->train().optimizer().momentum());
}

// Without rounds, staleness acts as a momentum, so a job has to ask for one of the optimizer. With
// easgd_async, each worker's own steps are not stale.
TEST(TrainRules, FillInMomentumOnlyForAlgorithmsWithRounds) {
  for (const char* name : {"asgd", "dcasgd_c", "dcasgd_a", "ssp", "softsync"}) {
    const std::string algorithm = std::string("algorithm: ") + name;
    EXPECT_THAT(OptimizerWith(algorithm), HasSubstr("sgd ")) << name;
    EXPECT_EQ(OptimizerWith(algorithm + "\n  optimizer: {momentum: 0.5}"), "momentum 0.500000");
    EXPECT_EQ(OptimizerWith(algorithm + "\n  optimizer: {name: nesterov}"), "nesterov 0.900000");
  }
  for (const char* name : {"ssgd", "odsgd", "psgd", "rsgd", "pqasgd", "easgd", "easgd_async"})
    EXPECT_EQ(OptimizerWith(std::string("algorithm: ") + name), "momentum 0.900000") << name;
}

TEST(TrainRules, FillInTheFactorOfDelayCompensation) {
  const auto train_with = [](const std::string& keys) {
    const auto job = Parse(SmallJob() + "  " + keys + "\n" + kFp32);
    EXPECT_TRUE(job.ok()) << job.status().message();
    return job->train();
  };
  EXPECT_EQ(train_with("algorithm: dcasgd_c").dcasgd_c().lambda(), 0.04);
  EXPECT_EQ(train_with("algorithm: dcasgd_a").dcasgd_a().lambda(), 2);
  EXPECT_EQ(train_with("algorithm: dcasgd_a\n  dcasgd_a: {lambda: 0.5}").dcasgd_a().lambda(), 0.5);
  const std::string odsgd = "algorithm: odsgd\n  odsgd: {local: {name: ";
  EXPECT_EQ(train_with(odsgd + "dcasgd_c}}").odsgd().local().lambda(), 0.04);
  EXPECT_EQ(train_with(odsgd + "dcasgd_a}}").odsgd().local().lambda(), 2);
  EXPECT_EQ(train_with(odsgd + "dcasgd_a, lambda: 0}}").odsgd().local().lambda(), 0);
  EXPECT_FALSE(train_with(odsgd + "sgd}}").odsgd().local().has_lambda());
  EXPECT_EQ(train_with(odsgd + "sgd}}").odsgd().warmup_steps(), 200u);
}

// Codes that are not the gradient make the workers form the term, which costs a second pull.
TEST(TrainRules, FillInFp32WhereCodesMakeWorkersPullTwice) {
  const auto codec_with = [](const std::string& algorithm, const std::string& exchange) {
    const auto job = Parse(SmallJob() + "  algorithm: " + algorithm + "\n" + exchange);
    EXPECT_TRUE(job.ok()) << job.status().message();
    return job->exchange().codec();
  };
  for (const char* algorithm : {"dcasgd_c", "dcasgd_a", "psgd"})
    EXPECT_EQ(codec_with(algorithm, ""), "fp32") << algorithm;
  for (const char* algorithm : {"ssgd", "odsgd", "asgd", "ssp", "softsync"})
    EXPECT_EQ(codec_with(algorithm, ""), "ternary") << algorithm;
  EXPECT_EQ(codec_with("dcasgd_a", kTernary), "ternary");
}

// The printed job must be valid again, so keys that do not apply are not filled in.
TEST(TrainRules, AcceptThePrintedJob) {
  for (const char* local : {"none", "sgd", "dcasgd_c", "dcasgd_a"}) {
    const auto job =
        Parse(SmallJob() + "  algorithm: odsgd\n  odsgd: {local: {name: " + local + "}}\n");
    ASSERT_TRUE(job.ok()) << job.status().message();
    const auto parsed_again = Parse(ToYaml(*job));
    ASSERT_TRUE(parsed_again.ok()) << parsed_again.status().message();
    EXPECT_EQ(ToYaml(*parsed_again), ToYaml(*job));
    EXPECT_EQ(JobDigest(*parsed_again), JobDigest(*job));
  }
}

TEST(TrainRules, ReportAllFaults) {
  EXPECT_THAT(FaultsOf(SmallJob() + "  algorithm: dcasgd_a\n  parameters: localized\n"
                                    "  dcasgd_a: {compensation: on_server}\n"
                                    "exchange: {scaler: shared, codec: ternary}\n"),
              ElementsAre(HasSubstr("13:15: train.parameters"),
                          HasSubstr("14:28: train.dcasgd_a.compensation"),
                          HasSubstr("15:20: exchange.scaler")));
}

}  // namespace
}  // namespace tern::config
