#include "common/config/textproto.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

namespace tern::config {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::ErrorCollector;
using google::protobuf::io::Tokenizer;

// The first error ends the reading; the rest would be its echoes.
class FirstError : public ErrorCollector {
 public:
  FirstError(Faults* faults) : faults_(faults) {}
  void AddError(int line, int column, const std::string& message) override {
    if (seen_) return;
    seen_ = true;
    faults_->Add({line + 1, column + 1}, "",
                 "text that is no protobuf text (" + Shown(message) + ")",
                 "KEY: VALUE or KEY { ... }");
  }
  void AddLimit(int line, int column, const std::string& saw) {
    if (!seen_) faults_->Add({line + 1, column + 1}, "", saw, "fewer");
    seen_ = true;
  }
  bool seen() const { return seen_; }

 private:
  Faults* const faults_;
  bool seen_ = false;
};

// A recursive descent. Every method leaves at once after an error.
class TextParser {
 public:
  TextParser(const std::string& text, Faults* faults)
      : stream_(text.data(), static_cast<int>(text.size())),
        errors_(faults),
        tokens_(&stream_, &errors_) {
    tokens_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokens_.Next();
  }

  Node Parse() {
    Node root = NewNode(Node::Kind::kMap);
    ParseFields("", 0, &root);
    root.at_fault = errors_.seen();
    return root;
  }

 private:
  bool Is(const char* symbol) {
    return tokens_.current().text == symbol && tokens_.current().type == Tokenizer::TYPE_SYMBOL;
  }
  bool Take(const char* symbol) {
    if (!Is(symbol)) return false;
    tokens_.Next();
    return true;
  }
  void Fail(const std::string& expected) {
    const Tokenizer::Token& token = tokens_.current();
    const std::string saw =
        token.type == Tokenizer::TYPE_END ? "the end" : "'" + Shown(token.text) + "'";
    errors_.AddError(token.line, token.column, expected + " expected before " + saw);
  }
  void Limit(size_t most, const char* of_what) {
    errors_.AddLimit(tokens_.current().line, tokens_.current().column,
                     "more than " + std::to_string(most) + " " + of_what);
  }
  Node NewNode(Node::Kind kind) {
    if (++nodes_ > kMaxNodes) Limit(kMaxNodes, "keys and values");
    Node node;
    node.kind = kind;
    node.at = {tokens_.current().line + 1, tokens_.current().column + 1};
    node.text_format = true;
    return node;
  }

  // Fields up to `end`, which is taken too; the whole text if it is empty.
  void ParseFields(const std::string& end, size_t depth, Node* map) {
    if (depth >= kMaxDepth) Limit(kMaxDepth, "levels");
    while (!errors_.seen()) {
      if (end.empty() ? tokens_.current().type == Tokenizer::TYPE_END : Take(end.c_str())) return;
      if (tokens_.current().type != Tokenizer::TYPE_IDENTIFIER) return Fail("the name of a key");
      Node key = NewNode(Node::Kind::kScalar);
      key.text = tokens_.current().text;
      tokens_.Next();
      const bool colon = Take(":");
      if (!colon && !Is("{") && !Is("<")) return Fail("':' or '{'");
      Node value = ParseValue(depth, true);
      map->keys.push_back(std::move(key));
      map->items.push_back(std::move(value));
      if (!Take(",")) Take(";");
    }
  }

  Node ParseValue(size_t depth, bool list_allowed) {
    if (Is("{") || Is("<")) {
      Node map = NewNode(Node::Kind::kMap);
      const char* end = Is("{") ? "}" : ">";
      tokens_.Next();
      ParseFields(end, depth + 1, &map);
      return map;
    }
    if (list_allowed && Is("[")) return ParseList(depth);
    return ParseScalar();
  }

  Node ParseList(size_t depth) {
    Node list = NewNode(Node::Kind::kList);
    tokens_.Next();
    if (Take("]")) return list;
    while (!errors_.seen()) {
      list.items.push_back(ParseValue(depth, false));
      if (Take("]")) break;
      if (!Take(",")) Fail("',' or ']'");
    }
    return list;
  }

  Node ParseScalar() {
    Node node = NewNode(Node::Kind::kScalar);
    if (tokens_.current().type == Tokenizer::TYPE_STRING) {
      node.quoted = true;
      for (; tokens_.current().type == Tokenizer::TYPE_STRING && !errors_.seen(); tokens_.Next()) {
        Tokenizer::ParseStringAppend(tokens_.current().text, &node.text);
      }
      return node;
    }
    if (Take("-")) node.text = "-";
    switch (tokens_.current().type) {
      case Tokenizer::TYPE_INTEGER:
      case Tokenizer::TYPE_FLOAT:
      case Tokenizer::TYPE_IDENTIFIER:
        node.text += tokens_.current().text;
        tokens_.Next();
        break;
      default:
        Fail("a value");
    }
    return node;
  }

  ArrayInputStream stream_;
  FirstError errors_;
  Tokenizer tokens_;
  size_t nodes_ = 0;
};

}  // namespace

Node ParseTextFormat(const std::string& text, Faults* faults) {
  return TextParser(text, faults).Parse();
}

}  // namespace tern::config
