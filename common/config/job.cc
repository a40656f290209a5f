#include "common/config/job.h"

#include "common/algorithm/rules.h"
#include "common/base/atomic_file.h"
#include "common/base/text.h"
#include "common/config/canonical.h"
#include "common/config/ignored_keys.h"
#include "common/config/overrides.h"
#include "common/config/rules.h"
#include "common/config/textproto.h"
#include "common/config/utf8.h"
#include "common/config/validate.h"
#include "common/config/yaml.h"

namespace tern::config {
namespace {

// How long a program that writes the job into a pipe may write nothing.
constexpr Time kReadTimeout = std::chrono::seconds(5);

bool IsTextFormat(const std::string& name) {
  for (const std::string ending : {".textproto", ".pbtxt", ".prototxt"}) {
    if (name.size() >= ending.size() &&
        name.compare(name.size() - ending.size(), ending.size(), ending) == 0) {
      return true;
    }
  }
  return false;
}

Status TooLargeError(const std::string& name) {
  return Status(Code::kBadJob,
                name + ": saw more than " + std::to_string(kMaxTextBytes) +
                    " bytes; allowed: a job file of at most that size; is this a job file?");
}

// Checks for printable UTF-8. Adds a fault and returns false at the first invalid byte.
bool CheckText(std::string_view text, Faults* faults) {
  Position position{1, 1};
  while (!text.empty()) {
    const bool is_space = text[0] == '\t' || text[0] == '\n' || text[0] == '\r';
    const size_t char_bytes = is_space ? 1 : PrintableSize(text);
    if (char_bytes == 0) {
      faults->Add(position, "", "the byte " + Excerpt(text.substr(0, 1)), "printable UTF-8");
      return false;
    }
    ++position.column;
    if (text[0] == '\n') position = {position.line + 1, 1};
    text.remove_prefix(char_bytes);
  }
  return true;
}

// The sections that every job has.
std::vector<std::string> RequiredSections() {
  std::vector<std::string> names;
  const auto* type = pb::Job::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const pb::Rule& rule = RuleOf(type->field(i));
    if (rule.required() || rule.min_items() > 0) names.push_back(type->field(i)->name());
  }
  return names;
}

// First those of `place`, then those of --set, which win.
std::vector<Override> OverridesOf(const Place& place, const std::vector<std::string>& set_options) {
  std::vector<Override> overrides = PlaceOverrides(place);
  for (const std::string& option : set_options)
    overrides.push_back({option, "--set " + Excerpt(option)});
  return overrides;
}

std::vector<std::string> NamesOf(const std::vector<Override>& overrides) {
  std::vector<std::string> names;
  for (const Override& override_ : overrides) names.push_back(override_.name);
  return names;
}

// Some editors write a byte order mark before UTF-8.
std::string WithoutByteOrderMark(const std::string& text) {
  return text.compare(0, 3, "\xef\xbb\xbf") == 0 ? text.substr(3) : text;
}

}  // namespace

Result<pb::Job> ParseJob(const std::string& bytes, const std::string& name,
                         const std::vector<std::string>& overrides, const NameTables& tables,
                         const Place& place, std::vector<std::string>* warnings) {
  if (bytes.size() > kMaxTextBytes) return TooLargeError(name);
  const std::vector<Override> all_overrides = OverridesOf(place, overrides);
  Faults faults(name, NamesOf(all_overrides));
  const std::string text = WithoutByteOrderMark(bytes);
  if (!CheckText(text, &faults)) return faults.ToStatus();
  const Node root =
      IsTextFormat(name) ? ParseTextFormat(text, &faults) : ParseYaml(text, "", -1, &faults);
  // After a syntax error all further faults would be guesses.
  if (root.has_fault) return faults.ToStatus();
  KeyPositions key_positions;
  const ParseContext context{tables, &faults, &key_positions};
  pb::Job job;
  if (root.kind == Node::Kind::kMap || root.kind == Node::Kind::kNull) {
    FillMessage(root, "", &job, context);
  } else {
    faults.Add(root.position, "", root.kind == Node::Kind::kList ? "a list" : Excerpt(root.text),
               "a map with the keys of a job");
    return faults.ToStatus();
  }
  if (root.items.empty() && all_overrides.empty()) {
    faults.Add(root.position, "", "an empty job",
               "a job with " + tern::Join(RequiredSections()) +
                   "; begin with a copy of configs/lenet_fashion.yaml");
    return faults.ToStatus();
  }
  SetNumServers(place, &job);
  ApplyOverrides(all_overrides, &job, context);
  pb::Job complete_job = job;
  FillDefaults(&complete_job);
  ParseContext check_context = context;
  check_context.compute = job.train().compute();
  // Checks the job first as written: FillDefaults adds missing sections, whose required keys would
  // then be reported one by one.
  CheckRules(job, "", check_context);
  CheckRules(complete_job, "", check_context);
  CheckJob(complete_job, check_context);
  if (!faults.empty()) return faults.ToStatus();
  if (warnings != nullptr) {
    *warnings = WarningsOfIgnoredKeys(job, complete_job, context);
    const std::string warning = algorithm::WarningOfAlgorithm(complete_job);
    if (!warning.empty()) warnings->push_back(warning);
  }
  return complete_job;
}

Result<pb::Job> LoadJob(const std::string& path, const std::vector<std::string>& overrides,
                        const NameTables& tables, const Place& place,
                        std::vector<std::string>* warnings) {
  const Result<std::string> text = ReadAtMost(path, kMaxTextBytes + 1, kReadTimeout);
  if (!text.ok()) return text.status().Within("the job file");
  return ParseJob(*text, path, overrides, tables, place, warnings);
}

}  // namespace tern::config
