#include "common/protocol/rounds/message.h"

#include "common/base/text.h"

namespace tern::protocol {

std::string ToString(const Cell& cell, std::string_view at) {
  switch (cell.kind) {
    case Kind::kScale:
      return Cat("scale of bucket ", cell.bucket, ", ", at);
    case Kind::kFigures:
      return Cat("figures of ", at);
    case Kind::kPush:
      break;
  }
  return Cat("push of bucket ", cell.bucket, ", chunk ", cell.chunk, ", ", at);
}

std::string ToString(const Cell& cell, uint64_t number, std::string_view of) {
  return ToString(cell, Cat(of, " ", number));
}

pb::Contribution* MutableContribution(Kind kind, pb::Envelope* head) {
  switch (kind) {
    case Kind::kScale:
      return head->mutable_scale();
    case Kind::kFigures:
      return head->mutable_figures();
    case Kind::kPush:
      break;
  }
  return head->mutable_push();
}

pb::Outcome* MutableOutcome(Kind kind, pb::Envelope* head) {
  switch (kind) {
    case Kind::kScale:
      return head->mutable_scaled();
    case Kind::kFigures:
      return head->mutable_all_figures();
    case Kind::kPush:
      break;
  }
  return head->mutable_sum();
}

pb::Outcome* MutableHeldOutcome(Kind kind, pb::Envelope* head) {
  switch (kind) {
    case Kind::kScale:
      return head->mutable_held_scaled();
    case Kind::kFigures:
      return head->mutable_held_figures();
    case Kind::kPush:
      break;
  }
  return head->mutable_held_sum();
}

const pb::Contribution* AsContribution(const pb::Envelope& head, Kind* kind) {
  switch (head.body_case()) {
    case pb::Envelope::kScale:
      *kind = Kind::kScale;
      return &head.scale();
    case pb::Envelope::kPush:
      *kind = Kind::kPush;
      return &head.push();
    case pb::Envelope::kFigures:
      *kind = Kind::kFigures;
      return &head.figures();
    default:
      return nullptr;
  }
}

const pb::Outcome* AsOutcome(const pb::Envelope& head, Kind* kind) {
  switch (head.body_case()) {
    case pb::Envelope::kScaled:
      *kind = Kind::kScale;
      return &head.scaled();
    case pb::Envelope::kSum:
      *kind = Kind::kPush;
      return &head.sum();
    case pb::Envelope::kAllFigures:
      *kind = Kind::kFigures;
      return &head.all_figures();
    default:
      return nullptr;
  }
}

const pb::Outcome* AsHeldOutcome(const pb::Envelope& head, Kind* kind) {
  switch (head.body_case()) {
    case pb::Envelope::kHeldScaled:
      *kind = Kind::kScale;
      return &head.held_scaled();
    case pb::Envelope::kHeldSum:
      *kind = Kind::kPush;
      return &head.held_sum();
    case pb::Envelope::kHeldFigures:
      *kind = Kind::kFigures;
      return &head.held_figures();
    default:
      return nullptr;
  }
}

std::string ContributorBits(const std::vector<bool>& ranks) {
  std::string bytes((ranks.size() + 7) / 8, '\0');
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank]) bytes[rank / 8] = static_cast<char>(bytes[rank / 8] | 1 << (rank % 8));
  }
  return bytes;
}

bool HasContributed(const std::string& contributor_bits, uint32_t rank) {
  return rank / 8 < contributor_bits.size() &&
         (static_cast<unsigned char>(contributor_bits[rank / 8]) >> (rank % 8) & 1) != 0;
}

Message MakeRefusal(Code code, std::string sentence, pb::Refuse::Then then) {
  Message message;
  pb::Refuse* refuse = message.head.mutable_refuse();
  refuse->set_code(static_cast<uint32_t>(code));
  refuse->set_sentence(std::move(sentence));
  refuse->set_then(then);
  return message;
}

Send RefusalTo(Peer to, Code code, std::string sentence, pb::Refuse::Then then) {
  return {to, MakeRefusal(code, std::move(sentence), then)};
}

Status ErrorFromPeer(uint32_t code, const std::string& sentence) {
  const Code parsed_code = ParseErrorCode(code);
  const bool is_known_code = static_cast<uint32_t>(parsed_code) == code;
  return Status(parsed_code, PrintableSentence(sentence) +
                                 (is_known_code ? ""
                                                : Cat(" (it came with exit code ", code,
                                                      ", which is no error of Tern)")));
}

Status StatusOf(const pb::End& end) {
  return end.code() == 0 ? Ok() : ErrorFromPeer(end.code(), end.sentence());
}

}  // namespace tern::protocol
