#include "common/config/textproto.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

namespace tern::config {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::ErrorCollector;
using google::protobuf::io::Tokenizer;

// Reports only the first error, because later errors are mostly its consequences.
class FirstErrorReporter : public ErrorCollector {
 public:
  FirstErrorReporter(Faults* faults) : faults_(faults) {}
  void AddError(int line, int column, const std::string& message) override {
    if (has_error_) return;
    has_error_ = true;
    faults_->Add({line + 1, column + 1}, "", "invalid protobuf text (" + Excerpt(message) + ")",
                 "KEY: VALUE or KEY { ... }");
  }
  void AddLimitFault(int line, int column, const std::string& saw) {
    if (!has_error_) faults_->Add({line + 1, column + 1}, "", saw, "fewer");
    has_error_ = true;
  }
  bool has_error() const { return has_error_; }

 private:
  Faults* const faults_;
  bool has_error_ = false;
};

// A recursive-descent parser. After an error its loops end, so that Parse returns soon.
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
    root.has_fault = errors_.has_error();
    return root;
  }

 private:
  bool IsSymbol(const char* symbol) {
    return tokens_.current().text == symbol && tokens_.current().type == Tokenizer::TYPE_SYMBOL;
  }
  // If the current token is this symbol, goes to the next token and returns true.
  bool SkipSymbol(const char* symbol) {
    if (!IsSymbol(symbol)) return false;
    tokens_.Next();
    return true;
  }
  void ReportExpected(const std::string& expected) {
    const Tokenizer::Token& token = tokens_.current();
    const std::string saw =
        token.type == Tokenizer::TYPE_END ? "the end" : "'" + Excerpt(token.text) + "'";
    errors_.AddError(token.line, token.column, expected + " expected before " + saw);
  }
  void ReportLimit(size_t limit, const char* of_what) {
    errors_.AddLimitFault(tokens_.current().line, tokens_.current().column,
                          "more than " + std::to_string(limit) + " " + of_what);
  }
  Node NewNode(Node::Kind kind) {
    if (++num_nodes_ > kMaxNodes) ReportLimit(kMaxNodes, "keys and values");
    Node node;
    node.kind = kind;
    node.position = {tokens_.current().line + 1, tokens_.current().column + 1};
    node.is_text_format = true;
    return node;
  }

  // Parses fields up to and including the symbol `end`; if `end` is empty, up to the end of the
  // text.
  void ParseFields(const std::string& end, size_t depth, Node* map) {
    if (depth >= kMaxDepth) ReportLimit(kMaxDepth, "levels");
    while (!errors_.has_error()) {
      if (end.empty() ? tokens_.current().type == Tokenizer::TYPE_END : SkipSymbol(end.c_str()))
        return;
      if (tokens_.current().type != Tokenizer::TYPE_IDENTIFIER)
        return ReportExpected("the name of a key");
      Node key = NewNode(Node::Kind::kScalar);
      key.text = tokens_.current().text;
      tokens_.Next();
      const bool has_colon = SkipSymbol(":");
      if (!has_colon && !IsSymbol("{") && !IsSymbol("<")) return ReportExpected("':' or '{'");
      Node value = ParseValue(depth, true);
      map->keys.push_back(std::move(key));
      map->items.push_back(std::move(value));
      if (!SkipSymbol(",")) SkipSymbol(";");
    }
  }

  Node ParseValue(size_t depth, bool may_be_list) {
    if (IsSymbol("{") || IsSymbol("<")) {
      Node map = NewNode(Node::Kind::kMap);
      const char* end = IsSymbol("{") ? "}" : ">";
      tokens_.Next();
      ParseFields(end, depth + 1, &map);
      return map;
    }
    if (may_be_list && IsSymbol("[")) return ParseList(depth);
    return ParseScalar();
  }

  Node ParseList(size_t depth) {
    Node list = NewNode(Node::Kind::kList);
    tokens_.Next();
    if (SkipSymbol("]")) return list;
    while (!errors_.has_error()) {
      list.items.push_back(ParseValue(depth, false));
      if (SkipSymbol("]")) break;
      if (!SkipSymbol(",")) ReportExpected("',' or ']'");
    }
    return list;
  }

  Node ParseScalar() {
    Node node = NewNode(Node::Kind::kScalar);
    if (tokens_.current().type == Tokenizer::TYPE_STRING) {
      node.is_quoted = true;
      for (; tokens_.current().type == Tokenizer::TYPE_STRING && !errors_.has_error();
           tokens_.Next()) {
        Tokenizer::ParseStringAppend(tokens_.current().text, &node.text);
      }
      return node;
    }
    if (SkipSymbol("-")) node.text = "-";
    switch (tokens_.current().type) {
      case Tokenizer::TYPE_INTEGER:
      case Tokenizer::TYPE_FLOAT:
      case Tokenizer::TYPE_IDENTIFIER:
        node.text += tokens_.current().text;
        tokens_.Next();
        break;
      default:
        ReportExpected("a value");
    }
    return node;
  }

  ArrayInputStream stream_;
  FirstErrorReporter errors_;
  Tokenizer tokens_;
  size_t num_nodes_ = 0;
};

}  // namespace

Node ParseTextFormat(const std::string& text, Faults* faults) {
  return TextParser(text, faults).Parse();
}

}  // namespace tern::config
