#include "tools/forecast/profile.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/atomic_file.h"
#include "common/base/json_depth.h"
#include "common/base/text.h"
#include "common/codec/codec.h"
#include "tools/write_output.h"

namespace tern::tools {

namespace {

// Reading an ordered_json takes quadratic time in the number of keys, writing one does not matter.
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr int kVersion = 2;
constexpr uint64_t kMaxProfileBytes = 4 << 20;
constexpr size_t kMaxProfileDepth = 3;
// How long a program that writes the profile into a pipe may write nothing.
constexpr Time kProfileReadTimeout = std::chrono::seconds(5);

struct ProfileField {
  const char* name;
  double Profile::*member;
};
constexpr ProfileField kProfileFields[] = {{"compute_fixed_s", &Profile::compute_fixed_s},
                                           {"compute_sample_s", &Profile::compute_sample_s},
                                           {"update_s", &Profile::update_s},
                                           {"copy_s", &Profile::copy_s},
                                           {"message_s", &Profile::message_s},
                                           {"message_cpu_s", &Profile::message_cpu_s},
                                           {"byte_cpu_s", &Profile::byte_cpu_s},
                                           {"hop_s", &Profile::hop_s}};
struct SpeedField {
  const char* name;
  double CodecSpeed::*member;
};
constexpr SpeedField kSpeedFields[] = {
    {"prepare", &CodecSpeed::prepare_s}, {"encode", &CodecSpeed::encode_s},
    {"add", &CodecSpeed::add_s},         {"close", &CodecSpeed::close_s},
    {"decode", &CodecSpeed::decode_s},   {"apply", &CodecSpeed::apply_s}};

// Reads the values of a JSON object and collects all errors.
class ObjectReader {
 public:
  // `prefix` precedes every error; an example is "codecs.fp32.".
  ObjectReader(const Json& object, std::string prefix)
      : object_(object), prefix_(std::move(prefix)) {}

  // Reads a finite, non-negative number of seconds.
  double GetSeconds(const char* key) {
    const auto entry = object_.find(key);
    if (entry == object_.end()) {
      AddFault(Cat(key, " is missing"));
      return 0;
    }
    const double value = entry->is_number() ? entry->get<double>() : -1;
    if (value >= 0 && std::isfinite(value)) return value;
    AddFault(Cat(key, " is ", entry->dump(), ", expected a number of seconds, 0 or more"));
    return 0;
  }
  template <typename T>
  T GetValue(const char* key, const char* expected) {
    const auto entry = object_.find(key);
    if (entry == object_.end()) {
      AddFault(Cat(key, " is missing"));
      return T();
    }
    try {
      return entry->get<T>();
    } catch (const Json::exception&) {
      AddFault(Cat(key, " is not ", expected));
      return T();
    }
  }
  void AddFault(const std::string& fault) { faults_.push_back(prefix_ + fault); }
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  const Json& object_;
  const std::string prefix_;
  std::vector<std::string> faults_;
};

void ReadCodecs(const Json& json, Profile* profile, ObjectReader* reader) {
  const auto codecs = json.find("codecs");
  if (codecs == json.end() || !codecs->is_object()) {
    reader->AddFault("codecs is missing");
    return;
  }
  for (const auto& [key, speeds] : codecs->items()) {
    ObjectReader speed_reader(speeds, "codecs." + key + ".");
    for (const SpeedField& field : kSpeedFields)
      profile->codecs[key].*field.member = speed_reader.GetSeconds(field.name);
    for (const std::string& fault : speed_reader.faults()) reader->AddFault(fault);
  }
}

std::vector<double> ReadShares(const char* key, ObjectReader* reader) {
  auto shares = reader->GetValue<std::vector<double>>(key, "a list of shares");
  const bool are_valid =
      std::all_of(shares.begin(), shares.end(), [](double s) { return s >= 0 && s <= 1; });
  if (!are_valid) reader->AddFault(Cat(key, " has a share that is not between 0 and 1"));
  return shares;
}

}  // namespace

Result<Profile> Profile::Parse(const std::string& text, const std::string& name) {
  const Json json =
      JsonNestsAtMost(text, kMaxProfileDepth) ? Json::parse(text, nullptr, false) : Json();
  if (!json.is_object())
    return Status(Code::kBadData, name + " is not a profile: it is not a JSON object");
  Profile profile;
  ObjectReader reader(json, "");
  const int version = reader.GetValue<int>("version", "a whole number");
  if (reader.faults().empty() && version != kVersion)
    reader.AddFault(Cat("version is ", version, ", this build reads ", kVersion));
  profile.model = reader.GetValue<std::string>("model", "a name");
  profile.machine = reader.GetValue<std::string>("machine", "a name");
  profile.parameters = reader.GetValue<uint64_t>("parameters", "a whole number");
  profile.waits = reader.GetValue<bool>("waits", "true or false");
  for (const ProfileField& field : kProfileFields)
    profile.*field.member = reader.GetSeconds(field.name);
  profile.need_shares = ReadShares("need", &reader);
  profile.ready_shares = ReadShares("ready", &reader);
  if (reader.faults().empty() && profile.need_shares.size() != profile.ready_shares.size())
    reader.AddFault("need and ready have different lengths");
  ReadCodecs(json, &profile, &reader);
  if (reader.faults().empty()) return profile;
  return Status(Code::kBadData, Cat(name, " is not a profile: ", Join(reader.faults(), "; ")));
}

Result<Profile> Profile::Read(const std::string& path) {
  const Result<std::string> text = ReadAtMost(path, kMaxProfileBytes + 1, kProfileReadTimeout);
  if (!text.ok()) return text.status().Within("the profile");
  if (text->size() > kMaxProfileBytes) {
    return Status(Code::kBadData, Cat("the profile ", path, " has more than ", kMaxProfileBytes,
                                      " bytes, the most allowed; is it a profile?"));
  }
  return Parse(*text, path);
}

std::string Profile::ToJson() const {
  OrderedJson json;
  json["version"] = kVersion;
  json["model"] = model;
  json["machine"] = machine;
  json["parameters"] = parameters;
  json["waits"] = waits;
  for (const ProfileField& field : kProfileFields) json[field.name] = this->*field.member;
  json["need"] = need_shares;
  json["ready"] = ready_shares;
  json["codecs"] = OrderedJson::object();
  for (const auto& [key, speed] : codecs) {
    for (const SpeedField& field : kSpeedFields)
      json["codecs"][key][field.name] = speed.*field.member;
  }
  return json.dump(2) + "\n";
}

Status Profile::Write(const std::string& path) const { return WriteOutput(path, ToJson()); }

Status Profile::CheckFor(const setup::Setup& setup) const {
  const size_t num_tensors = setup.table.parameters.size();
  if (parameters == setup.table.total && ready_shares.size() == num_tensors) return Ok();
  return Status(Code::kBadData,
                Cat("the profile was measured with ", model, " of ", parameters, " parameters in ",
                    ready_shares.size(), " tensors, but the job's model has ", setup.table.total,
                    " in ", num_tensors, "; measure it with this job"));
}

Result<CodecSpeed> Profile::SpeedOf(const std::string& codec) const {
  if (const auto entry = codecs.find(codec); entry != codecs.end()) return entry->second;
  std::vector<std::string> known_codecs;
  for (const auto& [name, speed] : codecs) known_codecs.push_back(name);
  return Status(Code::kBadData, Cat("the profile has no measurement of codec ", codec, "; it has ",
                                    Join(known_codecs), "; measure again with --codecs"));
}

}  // namespace tern::tools
