#include "common/config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <set>
#include <sstream>
#include <utility>

namespace tern::config {
namespace {

// An exception that ends yaml-cpp's parsing after a fault that was already reported.
struct StopParsing {};

// Builds the tree of nodes from yaml-cpp's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string root_key, int override_index, Faults* faults)
      : root_key_(std::move(root_key)), override_index_(override_index), faults_(faults) {}

  Node TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (num_documents_++ == 0) return;
    faults_->Add(PositionAt(mark), root_key_, "a second document", "one document a file");
    throw StopParsing();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    AddNode(NewNode(Node::Kind::kNull, mark, "", anchor));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Node node = NewNode(Node::Kind::kNull, mark, "", 0);
    Refuse(&node, "an alias (*)", "the value itself; put a text that begins with * in quotes");
    AddNode(std::move(node));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = NewNode(Node::Kind::kScalar, mark, tag, anchor);
    node.text = value;
    node.is_quoted = tag == "!";
    AddNode(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    OpenLevel(NewNode(Node::Kind::kList, mark, tag, anchor));
  }
  void OnSequenceEnd() override { CloseLevel(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    OpenLevel(NewNode(Node::Kind::kMap, mark, tag, anchor));
  }
  void OnMapEnd() override { CloseLevel(); }

  Position PositionAt(const YAML::Mark& mark) const {
    return {mark.line + 1, mark.column + 1, override_index_};
  }

 private:
  // A map or list whose end has not been read yet.
  struct Level {
    Node node;
    std::string key;              // the dotted key of the map or list
    std::set<std::string> names;  // of a map: the keys read so far
  };

  bool AwaitsKey() const {
    return !open_levels_.empty() && open_levels_.back().node.kind == Node::Kind::kMap &&
           open_levels_.back().node.keys.size() == open_levels_.back().node.items.size();
  }

  // The dotted key of the next node.
  std::string NextKey() const {
    if (open_levels_.empty()) return root_key_;
    const Level& level = open_levels_.back();
    if (level.node.kind == Node::Kind::kList) return Join(level.key, level.node.items.size());
    return AwaitsKey() ? level.key : Join(level.key, level.node.keys.back().text);
  }

  void Refuse(Node* node, const std::string& saw, const std::string& allowed) {
    faults_->Add(node->position, NextKey(), saw, allowed);
    node->has_fault = true;
  }

  Node NewNode(Node::Kind kind, const YAML::Mark& mark, const std::string& tag,
               YAML::anchor_t anchor) {
    Node node;
    node.kind = kind;
    node.position = PositionAt(mark);
    if (++num_nodes_ > kMaxNodes) {
      faults_->Add(node.position, NextKey(),
                   "more than " + std::to_string(kMaxNodes) + " keys and values", "fewer");
      throw StopParsing();
    }
    if (anchor != 0)
      Refuse(&node, "an anchor (&)", "the value alone; put a text that begins with & in quotes");
    if (!tag.empty() && tag != "?" && tag != "!") {
      Refuse(&node, "the tag " + Excerpt(tag),
             "values without tags; put a text that begins with ! in quotes");
    }
    return node;
  }

  void AddNode(Node node) {
    if (AwaitsKey()) {
      AddKey(std::move(node));
    } else if (open_levels_.empty()) {
      root_ = std::move(node);
    } else {
      open_levels_.back().node.items.push_back(std::move(node));
    }
  }

  void AddKey(Node node) {
    Level& level = open_levels_.back();
    if (node.kind != Node::Kind::kScalar && !node.has_fault) {
      Refuse(&node, "a key that is not a name", "names as keys");
    }
    if (!node.has_fault && !level.names.insert(node.text).second) {
      faults_->Add(node.position, Join(level.key, node.text), "the key a second time",
                   "each key once");
      node.has_fault = true;
    }
    level.node.keys.push_back(std::move(node));
  }

  void OpenLevel(Node node) {
    if (open_levels_.size() >= kMaxDepth) {
      faults_->Add(node.position, NextKey(), "more than " + std::to_string(kMaxDepth) + " levels",
                   "fewer");
      throw StopParsing();
    }
    std::string key = NextKey();
    open_levels_.push_back({std::move(node), std::move(key), {}});
  }
  void CloseLevel() {
    Node node = std::move(open_levels_.back().node);
    open_levels_.pop_back();
    AddNode(std::move(node));
  }

  const std::string root_key_;
  const int override_index_;
  Faults* const faults_;
  Node root_;
  std::vector<Level> open_levels_;
  size_t num_nodes_ = 0;
  int num_documents_ = 0;
};

// Adds a document end marker (...) if there is none. Without the marker, yaml-cpp accepts a quote
// that is not closed at the end of the input.
std::string WithDocumentEnd(const std::string& text) {
  const size_t last_char_at = text.find_last_not_of(" \t\r\n");
  const bool has_end = last_char_at != std::string::npos && last_char_at >= 2 &&
                       text.compare(last_char_at - 2, 3, "...") == 0 &&
                       (last_char_at == 2 || text[last_char_at - 3] == '\n');
  if (has_end) return text;
  return text + (text.empty() || text.back() == '\n' ? "" : "\n") + "...\n";
}

}  // namespace

Node ParseYaml(const std::string& text, const std::string& root_key, int override_index,
               Faults* faults) {
  TreeBuilder builder(root_key, override_index, faults);
  try {
    std::istringstream in(WithDocumentEnd(text));
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.TakeRoot();
  } catch (const StopParsing&) {
  } catch (const YAML::Exception& error) {
    faults->Add(builder.PositionAt(error.mark), root_key,
                "invalid YAML (" + Excerpt(error.msg) + ")",
                "YAML, where a text with [ ] { } * & or # is in quotes, as \"[::1]:7500\"");
  } catch (const std::exception& error) {
    faults->Add({1, 1, override_index}, root_key,
                "text that cannot be read as YAML (" + Excerpt(error.what()) + ")", "YAML");
  }
  Node faulty_node;
  faulty_node.position = {1, 1, override_index};
  faulty_node.has_fault = true;
  return faulty_node;
}

}  // namespace tern::config
