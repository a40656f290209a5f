#include "client/exchange/coder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "client/train/on_device.h"
#include "common/algorithm/facts.h"
#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/protocol/rounds/cells.h"
#include "kernels/codes/stats.h"

namespace tern::client {

namespace {

std::string WhatIsPushed(const pb::Job& job) {
  switch (algorithm::FactsOf(job).pushes) {
    case pb::AlgorithmTraits::gradient:
      return "the gradient of ";
    case pb::AlgorithmTraits::parameters:
      return "parameter ";
    case pb::AlgorithmTraits::change:
      break;
  }
  return "the change of ";
}

}  // namespace

Coder::Coder(const setup::Setup& setup, uint32_t rank, Port& port, Events& events,
             Progress& progress)
    : setup_(setup),
      rank_(rank),
      port_(port),
      events_(events),
      progress_(progress),
      keeps_(KeepsSomething(setup)),
      compensated_(keeps_ ? setup.plan.parameters() : 0) {
  for (size_t t = 0; t < setup.plan.codec_of.size(); ++t)
    memories_.push_back(setup.plan.codec_of[t]->NewMemory(setup.plan.tensor_count[t]));
  thread_ = Thread("coder", [this] { Run(); });
}

bool Coder::KeepsSomething(const setup::Setup& setup) {
  const auto& codecs = setup.plan.codec_of;
  return std::any_of(codecs.begin(), codecs.end(),
                     [](const auto& codec) { return codec->NewMemory(1) != nullptr; });
}

Coder::~Coder() {
  work_.Close();
  thread_.Join();
}

void Coder::Push(uint64_t round, uint32_t bucket, const float* arena, protocol::Request request) {
  Ready ready{round, bucket, arena, request, {}};
  const bool shared = !setup_.plan.buckets[bucket].shared.empty();
  if (shared && !setup_.plan.shares_before(round)) ready.scalers = scalers_before_(round, bucket);
  if (observer_ != nullptr) ready.show_as = observer_->StepToShow();
  work_.Push(std::move(ready));
}

void Coder::Skip(uint64_t round) {
  protocol::Request skip;
  skip.skip = true;
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    const uint32_t b = bucket.chunks.front().bucket;
    if (!bucket.shared.empty() && setup_.plan.shares_before(round))
      port_.Contribute({protocol::Kind::kScale, b, 0}, round, 0, {}, skip);
    for (const protocol::Chunk& chunk : bucket.chunks)
      port_.Contribute({protocol::Kind::kPush, b, chunk.index}, round, 0, {}, skip);
  }
}

void Coder::Forget() {
  std::promise<void> done;
  work_.Push(ForgetAll{&done});
  done.get_future().wait();
}

void Coder::Finish() {
  std::promise<Status> done;
  work_.Push(UseKept{nullptr, &done});
  done.get_future().wait();
}

Status Coder::WithKept(const std::function<void(SavedState)>& use) {
  std::promise<Status> done;
  work_.Push(UseKept{&use, &done});
  return done.get_future().get();
}

Status Coder::Show(const UseKept& to) {
  if (to.use == nullptr) return Ok();
  SavedState all;
  std::map<uint32_t, SavedState> kept;
  for (uint32_t t = 0; t < memories_.size(); ++t) {
    if (memories_[t] == nullptr) continue;
    SavedState& one = kept[t];
    memories_[t]->AddState(&one);
    TERN_RETURN_IF_ERROR(BringKept(t, one));
    const std::string prefix = Cat("codec.", setup_.table.parameters[t].name, ".");
    for (const SavedState::Array& array : one.arrays)
      all.arrays.push_back({prefix + array.name, array.values});
    for (const SavedState::Number& number : one.numbers)
      all.numbers.push_back({prefix + number.name, number.value});
  }
  (*to.use)(std::move(all));
  for (const auto& [t, one] : kept) TERN_RETURN_IF_ERROR(SendKept(t, one));
  return Ok();
}

void Coder::Run() {
  while (Gather()) {
    if (wanted_.has_value() && scaled_.empty() && ready_.empty()) {
      const UseKept wanted = *std::exchange(wanted_, std::nullopt);
      wanted.done->set_value(Show(wanted));
      continue;
    }
    TimeScope time(progress_.encode);
    if (!scaled_.empty()) {
      Answer answer = std::move(scaled_.front());
      scaled_.pop_front();
      OnScaled(std::move(answer));
    } else if (!ready_.empty()) {
      const Ready ready = std::move(ready_.front());
      ready_.pop_front();
      Prepare(ready);
    }
  }
}

bool Coder::Gather() {
  const bool idle = ready_.empty() && scaled_.empty() && !wanted_.has_value();
  for (auto work = idle ? work_.Pop() : work_.TryPop(); work; work = work_.TryPop()) {
    if (auto* ready = std::get_if<Ready>(&*work)) {
      ready_.push_back(std::move(*ready));
    } else if (const auto* forget = std::get_if<ForgetAll>(&*work)) {
      ForgetAllOf(*forget);
    } else if (const auto* use = std::get_if<UseKept>(&*work)) {
      wanted_ = *use;
    } else {
      scaled_.push_back(std::move(std::get<Answer>(*work)));
    }
  }
  return !work_.drained() || !ready_.empty() || !scaled_.empty() || wanted_.has_value();
}

void Coder::ForgetAllOf(const ForgetAll& forget) {
  ready_.clear();
  scaled_.clear();
  waiting_.clear();
  early_.clear();
  for (const auto& memory : memories_) {
    if (memory != nullptr) memory->Forget();
  }
  if (device_ != nullptr && keeps_) {
    if (const Status forgot = device_->ForgetKept(); !forgot.ok()) End(forgot);
  }
  forget.done->set_value();
}

void Coder::Prepare(const Ready& ready) {
  const protocol::ExchangePlan& plan = setup_.plan;
  const protocol::Bucket& bucket = plan.buckets[ready.bucket];
  Waiting values{ready.arena, ready.request, {}, {}, ready.show_as};
  if (!(device_ != nullptr ? PrepareOnDevice(ready, &values) : PrepareParts(ready, &values)))
    return;
  if (bucket.shared.empty()) return EncodeAndPush(ready.round, ready.bucket, std::move(values), 0);
  for (uint32_t p : bucket.shared)
    values.own.push_back(values.prepared[p - bucket.first_part].scaler);
  if (!plan.shares_before(ready.round)) return CodeWithScalersBefore(ready, std::move(values));
  ForgetBefore(ready.round);
  if (const auto early = early_.find({ready.round, ready.bucket}); early != early_.end())
    return CodeWith(early->second, std::move(values));
  Bytes own = protocol::EncodeScalers(values.own);
  waiting_[{ready.round, ready.bucket}] = std::move(values);
  port_.Contribute({protocol::Kind::kScale, ready.bucket, 0}, ready.round, 0, std::move(own));
}

void Coder::CodeWithScalersBefore(const Ready& ready, Waiting values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[ready.bucket];
  for (size_t i = 0; i < bucket.shared.size(); ++i)
    values.prepared[bucket.shared[i] - bucket.first_part].scaler = ready.scalers[i];
  const auto clamped = device_ != nullptr ? CountClampedOnDevice(ready.round, bucket, values)
                                          : CountClamped(bucket, values);
  if (!clamped.ok()) return void(End(clamped.status()));
  progress_.clamped.Add(*clamped);
  const uint64_t digest = Digest(protocol::EncodeScalers(ready.scalers).span());
  EncodeAndPush(ready.round, ready.bucket, std::move(values), digest);
}

Result<uint64_t> Coder::CountClamped(const protocol::Bucket& bucket, const Waiting& values) const {
  int64_t clamped = 0;
  for (size_t i = 0; i < bucket.shared.size(); ++i) {
    const codec::Prepared& prepared = values.prepared[bucket.shared[i] - bucket.first_part];
    if (values.own[i] <= prepared.scaler) continue;
    const protocol::Part& part = setup_.plan.parts[bucket.shared[i]];
    const auto to_code = ToCode(values.arena, part.tensor).subspan(part.begin, part.count);
    clamped += std::count_if(to_code.begin(), to_code.end(), [&](float v) {
      return std::min(std::abs(v), prepared.clip) > prepared.scaler;
    });
  }
  return static_cast<uint64_t>(clamped);
}

bool Coder::PreparePart(const float* arena, const protocol::Part& part, kernels::NoiseKey noise,
                        codec::Prepared* prepared) {
  noise.tensor = part.tensor;
  const std::span<const float> to_code = ToCode(arena, part.tensor).subspan(part.begin, part.count);
  const kernels::Stats stats = kernels::ComputeStats(to_code.data(), to_code.size());
  if (const Status finite = Finite(stats, part.tensor, noise.round); !finite.ok())
    return End(finite);
  const codec::Codec& codec = *setup_.plan.codec_of[part.tensor];
  if (!codec.prepares_model()) *prepared = codec.Prepare(stats, to_code, noise);
  return true;
}

Status Coder::Finite(const kernels::Stats& stats, uint32_t tensor, uint64_t round) const {
  if (stats.finite) return Ok();
  return Status(Code::kDiverged, Cat(WhatIsPushed(setup_.job), setup_.table.parameters[tensor].name,
                                     " is not finite at round ", round, " on worker ", rank_,
                                     "; lower the learning rate"));
}

bool Coder::PrepareParts(const Ready& ready, Waiting* values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[ready.bucket];
  for (uint32_t p = bucket.first_part; p < bucket.first_part + bucket.parts; ++p) {
    codec::Prepared& prepared = values->prepared.emplace_back();
    const protocol::Part& part = setup_.plan.parts[p];
    // What an earlier round leaves out is known only when it has been coded.
    if (memories_[part.tensor] != nullptr) continue;
    if (!PreparePart(ready.arena, part, NoiseOf(ready.round), &prepared)) return false;
  }
  return true;
}

bool Coder::End(const Status& status) {
  events_.Push(Ended{status});
  return false;
}

void Coder::PrepareTogether(uint64_t round, const protocol::Bucket& bucket, Waiting* values) {
  const protocol::ExchangePlan& plan = setup_.plan;
  std::vector<uint32_t> parts;
  together_.clear();
  for (uint32_t p = bucket.first_part; p < bucket.first_part + bucket.parts; ++p) {
    const protocol::Part& part = plan.parts[p];
    if (!plan.codec_of[part.tensor]->prepares_model()) continue;
    parts.push_back(p);
    const auto to_code = ToCode(values->arena, part.tensor).subspan(part.begin, part.count);
    together_.insert(together_.end(), to_code.begin(), to_code.end());
  }
  if (parts.empty()) return;
  const codec::Codec& codec = *plan.codec_of[plan.parts[parts.front()].tensor];
  const kernels::Stats stats = kernels::ComputeStats(together_.data(), together_.size());
  const codec::Prepared prepared = codec.Prepare(stats, together_, NoiseOf(round));
  for (uint32_t p : parts) values->prepared[p - bucket.first_part] = prepared;
}

bool Coder::PrepareKept(uint64_t round, const protocol::Bucket& bucket, Waiting* values) {
  for (uint32_t p = bucket.first_part; p < bucket.first_part + bucket.parts; ++p) {
    const protocol::Part& part = setup_.plan.parts[p];
    codec::Memory* memory = memories_[part.tensor].get();
    if (memory == nullptr) continue;
    const uint64_t begin = setup_.plan.tensor_begin[part.tensor] + part.begin;
    memory->Compensate(part.begin, {values->arena + begin, part.count},
                       {&compensated_[begin], part.count});
    if (!PreparePart(values->arena, part, NoiseOf(round), &values->prepared[p - bucket.first_part]))
      return false;
  }
  PrepareTogether(round, bucket, values);
  return true;
}

void Coder::OnScaled(Answer answer) {
  const std::pair key{answer.outcome.round(), answer.cell.bucket};
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) {
    early_[key] = std::move(answer);
    return;
  }
  Waiting values = std::move(found->second);
  waiting_.erase(found);
  CodeWith(answer, std::move(values));
}

// A late worker goes through the rounds that it missed without coding anything.
void Coder::ForgetBefore(uint64_t round) {
  waiting_.erase(waiting_.begin(), waiting_.lower_bound({round - std::min<uint64_t>(round, 2), 0}));
  early_.erase(early_.begin(), early_.lower_bound({round, 0}));
}

void Coder::CodeWith(const Answer& scaled, Waiting values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[scaled.cell.bucket];
  Result<std::vector<float>> scalers = protocol::ParseScalers(scaled.payload, bucket.shared.size());
  if (!scalers.ok()) {
    events_.Push(Ended{scalers.status().Within("shared scalers from the server")});
    return;
  }
  for (size_t i = 0; i < bucket.shared.size(); ++i)
    values.prepared[bucket.shared[i] - bucket.first_part].scaler = (*scalers)[i];
  EncodeAndPush(scaled.outcome.round(), scaled.cell.bucket, std::move(values),
                Digest(scaled.payload.span()));
}

kernels::NoiseKey Coder::NoiseOf(uint64_t round) const {
  kernels::NoiseKey noise;
  noise.seed = setup_.job.seed();
  noise.rank = static_cast<uint16_t>(rank_);
  noise.round = round;
  return noise;
}

void Coder::EncodeAndPush(uint64_t round, uint32_t bucket, Waiting values, uint64_t digest) {
  const protocol::ExchangePlan& plan = setup_.plan;
  if (device_ == nullptr && !PrepareKept(round, plan.buckets[bucket], &values)) return;
  Observer::Pushed shown;
  if (values.show_as != 0) {
    auto copied = device_ != nullptr ? CopyOfDevice(values.show_as, round, bucket)
                                     : Copy(values.show_as, bucket, values.arena);
    if (!copied.ok()) return void(End(copied.status()));
    shown = std::move(*copied);
  }
  for (const protocol::Chunk& chunk : plan.buckets[bucket].chunks) {
    const Result<Bytes> codes =
        device_ != nullptr ? CodesOnDevice(values, chunk, round) : CodesOf(values, chunk, round);
    if (!codes.ok()) return void(End(codes.status()));
    const Bytes& payload = *codes;
    progress_.push_bytes.Add(payload.size());
    if (values.show_as != 0) shown.codes.push_back(payload);
    port_.Contribute({protocol::Kind::kPush, bucket, chunk.index}, round, digest, payload,
                     values.request);
  }
  if (values.show_as == 0) return;
  for (const codec::Prepared& prepared : values.prepared) shown.scalers.push_back(prepared.scaler);
  observer_->Show(std::move(shown));
}

Result<Observer::Pushed> Coder::Copy(uint64_t step, uint32_t bucket, const float* arena) const {
  const protocol::Bucket& of = setup_.plan.buckets[bucket];
  const float* begin = arena + of.begin;
  return Observer::Pushed{step, bucket, std::vector<float>(begin, begin + of.count), {}, {}};
}

std::vector<uint8_t> Coder::BeginOf(const protocol::Chunk& chunk, const Waiting& values) {
  std::vector<uint8_t> codes;
  codes.reserve(chunk.max_push_bytes);
  if (chunk.scalers != 0) {
    const auto* own = reinterpret_cast<const uint8_t*>(values.own.data());
    codes.insert(codes.end(), own, own + values.own.size() * sizeof(float));
  }
  return codes;
}

Result<Bytes> Coder::CodesOf(const Waiting& values, const protocol::Chunk& chunk, uint64_t round) {
  std::vector<uint8_t> codes = BeginOf(chunk, values);
  const uint32_t first = setup_.plan.buckets[chunk.bucket].first_part;
  for (size_t i = 0; i < chunk.segments.size(); ++i)
    Encode(values, chunk.segments[i], values.prepared[chunk.part_of[i] - first], NoiseOf(round),
           &codes);
  return Bytes::Own(std::move(codes));
}

void Coder::Encode(const Waiting& values, const codec::Segment& segment,
                   const codec::Prepared& prepared, kernels::NoiseKey noise,
                   std::vector<uint8_t>* codes) {
  const codec::Codec& codec = *setup_.plan.codec_of[segment.tensor];
  const std::span<const float> to_code =
      ToCode(values.arena, segment.tensor).subspan(segment.begin, segment.count);
  const size_t before = codes->size();
  codec.Encode(to_code.data(), segment, prepared, noise, codes);
  codec::Memory* memory = memories_[segment.tensor].get();
  if (memory == nullptr) return;
  sent_.resize(segment.count);
  const Result<size_t> decoded =
      codec.DecodeAlone(std::span(*codes).subspan(before), segment, sent_.data());
  CHECK(decoded.ok()) << decoded.status().message();  // we coded it
  memory->Keep(segment.begin, to_code, sent_);
}

}  // namespace tern::client
