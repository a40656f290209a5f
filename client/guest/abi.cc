// The C interface over Guest. No exception leaves it: those that the standard library may throw
// become errors.
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/guest/guest.h"
#include "client/tern.h"
#include "common/base/text.h"
#include "setup/environment.h"

struct tern_client {
  std::unique_ptr<tern::client::Guest> guest;
  tern::Bytes state;   // of the newest TERN_STATE
  tern::Bytes saved;   // by the newest tern_save
  tern::Bytes loaded;  // of the newest TERN_LOAD
};

namespace {

using tern::Cat;
using tern::Code;
using tern::Result;
using tern::Status;
using tern::client::Guest;
using tern::client::GuestEvent;
using tern::client::GuestTask;

// How long tern_push and tern_save wait.
constexpr tern::Time kPushPatience = std::chrono::milliseconds(100);

// Copies as much as fits, without cutting a character in two.
void CopyText(const std::string& from, char (&to)[TERN_TEXT_BYTES]) {
  size_t size = std::min(from.size(), sizeof to - 1);
  if (size < from.size()) {
    while (size > 0 && (static_cast<unsigned char>(from[size]) & 0xc0) == 0x80) --size;
  }
  std::memcpy(to, from.data(), size);
  to[size] = 0;
}

int Report(const Status& status, tern_error* error) {
  const int code = tern::ExitCode(status);
  if (error == nullptr) return code;
  error->code = code;
  CopyText(status.message(), error->sentence);
  return code;
}

// Calls `body`, which returns a Status.
template <typename Body>
int Guarded(tern_error* error, const Body& body) {
  try {
    return Report(body(), error);
  } catch (const std::exception& exception) {
    return Report(Status(Code::kInternal, Cat("unexpected: ", exception.what())), error);
  }
}

using Rows = google::protobuf::RepeatedPtrField<tern::pb::Tensor>;

Status AddRows(const char* what, const tern_tensor* tensors, size_t num_tensors, Rows* rows) {
  for (size_t t = 0; t < num_tensors; ++t) {
    const tern_tensor& tensor = tensors[t];
    if (tensor.name == nullptr || (tensor.shape == nullptr && tensor.num_dims > 0))
      return Status(Code::kUsage, Cat(what, " ", t, ": saw a null pointer as its name or shape"));
    tern::pb::Tensor* row = rows->Add();
    row->set_name(tensor.name);
    row->mutable_shape()->Add(tensor.shape, tensor.shape + tensor.num_dims);
  }
  return tern::Ok();
}

// Joins the first values of tensors, whose sizes are those of `rows`.
Status JoinValues(const char* what, const float* const* first, const Rows& rows,
                  std::vector<float>* values) {
  for (int t = 0; t < rows.size(); ++t) {
    if (first == nullptr || first[t] == nullptr)
      return Status(Code::kUsage, Cat(what, " ", t, ": saw a null pointer as its first values"));
    uint64_t count = 1;
    for (const uint32_t size : rows[t].shape()) count = tern::models::BoundedProduct(count, size);
    if (values->size() + count > tern::models::kMaxElements) {
      return Status(Code::kBadData,
                    Cat("saw more than ", tern::models::kMaxElements, " elements up to ", what, " ",
                        t, "; allowed: at most that many together"));
    }
    values->insert(values->end(), first[t], first[t] + count);
  }
  return tern::Ok();
}

// The parts of the options that only a module's job has.
Status ReadModuleOptions(const tern_options& options, Guest::Options* guest_options) {
  tern::pb::TensorTable& table = guest_options->tensors;
  TERN_RETURN_IF_ERROR(
      AddRows("statistic", options.statistics, options.num_statistics, table.mutable_statistics()));
  if (options.fixed_digest != 0) table.set_fixed_digest(options.fixed_digest);
  guest_options->is_module = true;
  guest_options->evaluates = options.evaluates != 0;
  TERN_RETURN_IF_ERROR(JoinValues("tensor", options.first_values, table.tensors(),
                                  &guest_options->first_weights.parameters));
  return JoinValues("statistic", options.first_statistics, table.statistics(),
                    &guest_options->first_weights.statistics);
}

Status Open(const tern_options* options, tern_client** client) {
  if (options == nullptr || client == nullptr)
    return Status(Code::kUsage, "tern_open: saw a null pointer as options or client");
  if (options->abi_version != TERN_ABI_VERSION) {
    return Status(Code::kUsage, Cat("the program was compiled for version ", options->abi_version,
                                    " of Tern's C interface, and this library has version ",
                                    TERN_ABI_VERSION, "; compile it with the library's tern.h"));
  }
  if ((options->tensors == nullptr && options->num_tensors > 0) ||
      (options->overrides == nullptr && options->num_overrides > 0) ||
      (options->statistics == nullptr && options->num_statistics > 0)) {
    return Status(Code::kUsage,
                  "tern_open: saw a null pointer as overrides, tensors or statistics");
  }
  Guest::Options guest_options;
  guest_options.job_path = options->job_path != nullptr
                               ? options->job_path
                               : tern::setup::JobFileOf(tern::setup::ProcessEnvironment());
  if (guest_options.job_path.empty())
    return Status(Code::kUsage, "the job file is not known: give its path, or set TERN_JOB");
  for (size_t i = 0; i < options->num_overrides; ++i)
    guest_options.overrides.emplace_back(options->overrides[i]);
  guest_options.rank = options->rank;
  TERN_RETURN_IF_ERROR(AddRows("tensor", options->tensors, options->num_tensors,
                               guest_options.tensors.mutable_tensors()));
  guest_options.has_first_state = options->has_first_state != 0;
  if (options->saved_state != nullptr) {
    guest_options.saved_state.assign(static_cast<const char*>(options->saved_state),
                                     options->num_saved_bytes);
    guest_options.saved_digest = options->fixed_digest;
  }
  guest_options.takes_tasks = options->takes_tasks != 0;
  if (options->is_module != 0) TERN_RETURN_IF_ERROR(ReadModuleOptions(*options, &guest_options));
  auto guest = Guest::Open(guest_options);
  if (!guest.ok()) return guest.status();
  *client = new tern_client{std::move(*guest), {}, {}, {}};
  return tern::Ok();
}

Status ReadPlace(enum tern_place place, uint32_t* number, const char** variable) {
  const tern::setup::Environment environment = tern::setup::ProcessEnvironment();
  const bool is_rank = place == TERN_RANK;
  const auto found =
      is_rank ? tern::setup::RankOf(environment) : tern::setup::WorldSizeOf(environment);
  if (!found.ok()) return found.status();
  if (!found->has_value()) {
    return Status(Code::kUsage, is_rank ? Cat("this worker's rank is not known: give it, or set ",
                                              tern::setup::RankVariables(environment))
                                        : Cat("the number of workers is not known: set ",
                                              tern::setup::WorldSizeVariables(environment)));
  }
  *number = (*found)->value;
  *variable = (*found)->variable;
  return tern::Ok();
}

tern::Bytes OwnBytes(const void* data, size_t size) {
  return tern::Bytes::Own(std::string(static_cast<const char*>(data), size));
}

tern::Time TimeOf(double seconds) {
  return tern::Time(static_cast<int64_t>(std::clamp(seconds, 0.0, 1e6) * 1e9));
}

void CopyEvent(const GuestEvent& from, tern_event* to) {
  to->level = to->code = 0;
  to->state = from.state.data();
  to->num_state_bytes = from.state.size();
  to->tensor = from.tensor;
  to->step = from.step;
  to->text[0] = 0;
  switch (from.type) {
    case GuestEvent::Type::kNothing:
      to->type = TERN_NOTHING;
      return;
    case GuestEvent::Type::kLog:
      to->type = TERN_LOG;
      to->level = std::min(static_cast<int>(from.level), static_cast<int>(TERN_ERROR));
      return CopyText(from.text, to->text);
    case GuestEvent::Type::kReady:
      to->type = TERN_READY;
      return;
    case GuestEvent::Type::kTensor:
      to->type = TERN_TENSOR;
      return;
    case GuestEvent::Type::kGiveState:
      to->type = TERN_GIVE_STATE;
      return;
    case GuestEvent::Type::kState:
      to->type = TERN_STATE;
      return;
    case GuestEvent::Type::kEnded:
      to->type = TERN_ENDED;
      to->code = tern::ExitCode(from.status);
      return CopyText(from.status.message(), to->text);
  }
}

}  // namespace

uint32_t tern_abi_version(void) { return TERN_ABI_VERSION; }
const char* tern_version(void) { return TERN_VERSION; }

int tern_environment(enum tern_place place, uint32_t* number, const char** variable,
                     tern_error* error) {
  return Guarded(error, [&] { return ReadPlace(place, number, variable); });
}

int tern_open(const tern_options* options, tern_client** client, tern_error* error) {
  if (client != nullptr) *client = nullptr;
  return Guarded(error, [&] { return Open(options, client); });
}

void tern_poll(tern_client* client, double timeout_s, tern_event* event) {
  const GuestEvent guest_event = client->guest->Poll(TimeOf(timeout_s));
  client->state = guest_event.state;
  CopyEvent(guest_event, event);
}

int tern_push(tern_client* client, uint32_t tensor, const float* gradient, float* mean,
              tern_error* error) {
  bool is_taken = false;
  const int code = Guarded(error, [&] {
    const Result<bool> pushed = client->guest->Push(tensor, gradient, mean, kPushPatience);
    if (pushed.ok()) is_taken = *pushed;
    return pushed.status();
  });
  return code == TERN_OK && !is_taken ? TERN_AGAIN : code;
}

float* tern_memory(tern_client* client, enum tern_memory_kind kind, uint32_t index) {
  const tern::models::ParameterTable& table = client->guest->setup().table;
  tern::client::Replica& replica = client->guest->replica();
  if (kind == TERN_STATISTIC) {
    return index < table.statistics.size() ? &replica.statistics()[table.statistics[index].offset]
                                           : nullptr;
  }
  if (index >= table.parameters.size()) return nullptr;
  return (kind == TERN_GRADIENT ? replica.gradients() : replica.point()) +
         table.parameters[index].offset;
}

int tern_next(tern_client* client, double timeout_s, tern_task* task, tern_error* error) {
  return Guarded(error, [&] {
    const Result<GuestTask> next = client->guest->NextTask(TimeOf(timeout_s));
    if (!next.ok()) return next.status();
    *task = {};
    task->step = next->step;
    task->part = next->part;
    task->num_parts = next->num_parts;
    client->loaded = next->state;
    task->state = client->loaded.data();
    task->num_state_bytes = client->loaded.size();
    switch (next->type) {
      case GuestTask::Type::kNone:
        task->type = TERN_NO_TASK;
        break;
      case GuestTask::Type::kStep:
        task->type = TERN_STEP;
        break;
      case GuestTask::Type::kEvaluate:
        task->type = TERN_EVALUATE;
        break;
      case GuestTask::Type::kSave:
        task->type = TERN_SAVE;
        break;
      case GuestTask::Type::kLoad:
        task->type = TERN_LOAD;
        break;
      case GuestTask::Type::kOver:
        task->type = TERN_OVER;
        break;
    }
    return tern::Ok();
  });
}

void tern_score(tern_client* client, double loss, uint64_t correct, uint64_t among_five,
                uint64_t samples) {
  client->guest->tasks().SetScore({loss, correct, among_five, samples});
}

void tern_report(tern_client* client, double loss, uint32_t num_samples) {
  client->guest->handoff().Report(loss, num_samples);
}

void tern_give_state(tern_client* client, const void* state, size_t num_bytes) {
  client->guest->handoff().GiveState(OwnBytes(state, num_bytes));
}

void tern_keep(tern_client* client, const void* state, size_t num_bytes) {
  client->guest->tasks().SetState(OwnBytes(state, num_bytes));
}

int tern_save(tern_client* client, const void** state, size_t* num_bytes, tern_error* error) {
  bool is_made = false;
  const int code = Guarded(error, [&] {
    Result<std::optional<tern::Bytes>> saved = client->guest->Save(kPushPatience);
    if (!saved.ok()) return saved.status();
    is_made = saved->has_value();
    if (is_made) client->saved = **std::move(saved);
    return tern::Ok();
  });
  *state = client->saved.data();
  *num_bytes = client->saved.size();
  return code == TERN_OK && !is_made ? TERN_AGAIN : code;
}

uint64_t tern_steps(tern_client* client) { return client->guest->steps(); }

size_t tern_stats(tern_client* client, char* json, size_t num_bytes) {
  const std::string text = client->guest->StatsJson();
  if (json == nullptr || num_bytes == 0) return text.size();
  const size_t size = std::min(text.size(), num_bytes - 1);
  std::memcpy(json, text.data(), size);
  json[size] = 0;
  return text.size();
}

void tern_finish(tern_client* client) { client->guest->handoff().Finish(); }

void tern_close(tern_client* client, int code, const char* sentence) {
  if (client == nullptr) return;
  if (code != TERN_OK) {
    client->guest->End(Status(tern::ParseErrorCode(static_cast<uint32_t>(code)),
                              sentence == nullptr ? "the program has left the job" : sentence));
  }
  delete client;
}
