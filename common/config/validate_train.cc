#include "common/config/cross_key_checker.h"
#include "common/config/validate.h"

namespace tern::config {
namespace {

class TrainChecker : private CrossKeyChecker {
 public:
  TrainChecker(const pb::Job& job, const ParseContext& context)
      : CrossKeyChecker(job, context), train_(job.train()) {}

  void Check() {
    CheckBatch("train.batch_total", train_.batch_total());
    CheckLength();
    CheckBatchGrowth();
    CheckOptimizer();
    CheckDecayOfLars();
    CheckSchedule();
    if (train_.has_tensors() && train_.compute() != pb::Train::module &&
        AreValid({"train.tensors"})) {
      Report("train.tensors", Excerpt(train_.tensors()),
             "nothing, because the model's tensors are known; only train.compute: client and "
             "module have it");
    }
  }

 private:
  void CheckBatch(const std::string& key, uint32_t batch) {
    const uint64_t count = job_.workers().count();
    if (!AreValid({key, "workers.count"}) || batch % count == 0) return;
    const uint64_t below = batch / count * count;
    Report(key, std::to_string(batch),
           "a multiple of workers.count (" + std::to_string(count) + "), such as " +
               (below == 0 ? "" : std::to_string(below) + " or ") + std::to_string(below + count));
  }

  void CheckLength() {
    if (!AreValid({"train.steps", "train.epochs"}) || train_.has_steps() != train_.has_epochs())
      return;
    Report(train_.has_epochs() ? "train.epochs" : "train",
           train_.has_epochs() ? "both steps and epochs" : "neither steps nor epochs",
           "exactly one of train.steps and train.epochs; null removes a key, as in --set "
           "train.epochs=null");
  }

  void CheckBatchGrowth() {
    double epoch = 0;
    uint32_t batch = train_.batch_total();
    for (int i = 0; i < train_.batch_growth_size(); ++i) {
      const pb::BatchGrowth& growth = train_.batch_growth(i);
      const std::string key = Join("train.batch_growth", static_cast<size_t>(i));
      const std::string epoch_key = Join(key, "at_epoch"), batch_key = Join(key, "batch_total");
      CheckBatch(batch_key, growth.batch_total());
      if (AreValid({epoch_key}) && growth.at_epoch() <= epoch) {
        Report(epoch_key, NumberText(growth.at_epoch()),
               "more than the epoch of the previous entry (" + NumberText(epoch) + ")");
      }
      if (AreValid({batch_key, "train.batch_total"}) && growth.batch_total() <= batch) {
        Report(batch_key, std::to_string(growth.batch_total()),
               "more than the previous batch (" + std::to_string(batch) + ")");
      }
      epoch = growth.at_epoch();
      batch = growth.batch_total();
    }
  }

  void CheckOptimizer() {
    const pb::Optimizer& optimizer = train_.optimizer();
    const std::string& name = optimizer.name();
    if (!AreValid({"train.optimizer.name"}) || (name != "adam" && name != "rmsprop")) return;
    const auto check_decay = [&](const std::string& key, double decay) {
      if (AreValid({key}) && decay >= 1) Report(key, NumberText(decay), "less than 1 with " + name);
    };
    if (name == "adam") {
      check_decay("train.optimizer.beta1", optimizer.beta1());
      check_decay("train.optimizer.beta2", optimizer.beta2());
    } else {
      check_decay("train.optimizer.rho", optimizer.rho());
    }
    // Epsilon must not become 0 when rounded to float, or a zero gradient would give 0 / 0.
    if (AreValid({"train.optimizer.epsilon"}) && static_cast<float>(optimizer.epsilon()) == 0)
      Report("train.optimizer.epsilon", NumberText(optimizer.epsilon()),
             "more than 0 with " + name + ", e.g. 1e-08");
  }

  void CheckDecayOfLars() {
    const pb::WeightDecay& decay = train_.weight_decay();
    if (train_.optimizer().name() != "lars" || train_.clip_norm() == 0 ||
        decay.where() != pb::WeightDecay::in_gradient ||
        (decay.rate() == 0 && decay.rules().empty()) ||
        !AreValid({"train.optimizer.name", "train.clip_norm", "train.weight_decay"}))
      return;
    Report(
        "train.clip_norm",
        NumberText(train_.clip_norm()) + " with optimizer lars and weight_decay in_gradient",
        "0, because lars takes the decay out of the gradient again, and clipping has scaled both "
        "together; or set train.weight_decay.where: local");
  }

  void CheckSchedule() {
    const pb::Schedule& schedule = train_.schedule();
    const std::string& name = schedule.name();
    if (!AreValid({"train.schedule.name"})) return;
    if (AreValid({"train.schedule.step_every"}) && (name == "step" || name == "exponential") &&
        !schedule.has_step_every()) {
      Report("train.schedule.step_every", "nothing",
             "a whole number, at least 1, because the schedule is " + name);
    }
    if (!AreValid({"train.schedule.milestones"})) return;
    if (name == "multistep" && schedule.milestones_size() == 0) {
      Report("train.schedule.milestones", "nothing",
             "a list of steps, e.g. [1000, 2000], because the schedule is multistep");
    }
    for (int i = 1; i < schedule.milestones_size(); ++i) {
      if (schedule.milestones(i) > schedule.milestones(i - 1)) continue;
      Report(Join("train.schedule.milestones", static_cast<size_t>(i)),
             std::to_string(schedule.milestones(i)),
             "more than the previous step (" + std::to_string(schedule.milestones(i - 1)) + ")");
    }
  }

  const pb::Train& train_;
};

}  // namespace

void CheckTrain(const pb::Job& job, const ParseContext& context) {
  TrainChecker(job, context).Check();
}

}  // namespace tern::config
