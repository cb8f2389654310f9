// Weights of the text form: values written out, or a digest whose bytes are absent.
#include <charconv>
#include <cstring>

#include "text/limits.h"
#include "text/numbers.h"
#include "text/parser.h"

namespace atenon::text {
namespace {

// The product of sizes times an element's bytes; nullopt if it leaves the cap.
std::optional<int64_t> bytes_of(const std::vector<int64_t>& sizes, ScalarType dtype) {
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  for (const int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes) || bytes > max_bytes) return std::nullopt;
  }
  return bytes;
}

std::optional<std::vector<int64_t>> constants(const std::vector<ir::SymInt>& items) {
  std::vector<int64_t> out;
  for (const ir::SymInt& item : items) {
    if (!item.constant()) return std::nullopt;
    out.push_back(*item.constant());
  }
  return out;
}

}  // namespace

// weight "a": f32[2] = [1.0, 2.0]
// weight "a": f32[2]{strides=[4], offset=1} in storage 0
// weight "a": f32[64, 3] layout [48,1]:0b16 padded 12288 = xxh3:... 12288
void Parser::parse_weight() {
  ir::Weight weight;
  Token where = lexer_.token();
  weight.name = lexer_.expect_string("the name of the weight");
  check_unique(lexer_.failed() || !program_.weight(weight.name), "weight " + quote(weight.name), where);
  lexer_.expect(":", "and a type after the name of a weight");
  where = lexer_.token();
  const ir::Type type = parse_type();
  if (lexer_.failed()) return;
  const auto* meta = std::get_if<ir::TensorMeta>(&type);
  const auto sizes = meta ? constants(meta->sizes) : std::nullopt;
  const auto strides = meta && meta->strides ? constants(*meta->strides) : std::nullopt;
  const bool is_constant = sizes && (!meta->strides || strides) && meta->offset.constant();
  const auto bytes = is_constant ? bytes_of(*sizes, meta->dtype) : std::nullopt;
  if (!bytes) return lexer_.fail(214, "a weight must be a tensor of constant sizes that fit into memory", where);
  Tensor& tensor = weight.tensor;
  tensor.dtype = meta->dtype;
  tensor.sizes = *sizes;
  tensor.strides = strides ? *strides : contiguous_strides(*sizes);
  tensor.offset = *meta->offset.constant();
  weight.layout = parse_layout();
  if (lexer_.take("in")) {
    lexer_.expect("storage", "after `in`");
    const Token number = lexer_.token();
    const auto found = storages_.find(lexer_.expect(TokenKind::number, "the number of a storage"));
    if (!lexer_.failed() && found == storages_.end())
      lexer_.fail(211, "no storage of this number stands above", number);
    if (!lexer_.failed()) tensor.storage = found->second;
  } else {
    lexer_.expect("=", "or `in storage` after the type of a weight");
    tensor.storage = parse_bytes(&tensor.dtype, where);
    const int64_t needed = weight.layout ? weight.layout->padded_bytes : *bytes;
    if (!lexer_.failed() && tensor.storage->size() != static_cast<size_t>(needed)) {
      lexer_.fail(214,
                  "this weight has " + std::to_string(needed) + " bytes, and " +
                      std::to_string(tensor.storage->size()) + " are given",
                  where);
    }
  }
  if (lexer_.failed()) return;
  if (std::optional<std::string> problem = weight_problem(weight)) return lexer_.fail(214, std::move(*problem), where);
  program_.weights.push_back(std::move(weight));
}

// storage 0: f32 = [...], or storage 0 = xxh3:... 12345
void Parser::parse_storage() {
  const Token number = lexer_.token();
  const std::string name(lexer_.expect(TokenKind::number, "the number of the storage"));
  check_unique(lexer_.failed() || !storages_.contains(name), "storage " + name, number);
  std::optional<ScalarType> dtype;
  if (lexer_.take(":")) dtype = parse_scalar_type();
  lexer_.expect("=", "before the bytes of a storage");
  storages_[name] = parse_bytes(dtype ? &*dtype : nullptr, number);
}

std::shared_ptr<Storage> Parser::parse_bytes(const ScalarType* dtype, const Token& where) {
  if (lexer_.is("xxh3")) return parse_digest();
  if (dtype) return parse_elements(*dtype);
  lexer_.fail(214, "a storage whose elements are written out needs their type: storage 0: f32 = [...]", where);
  return nullptr;
}

// Numbers in nested lists; only their order counts.
std::shared_ptr<Storage> Parser::parse_elements(ScalarType dtype) {
  std::string bytes;
  int depth = 0;
  do {
    if (lexer_.take("[")) {
      if (++depth > max_depth)
        lexer_.fail(215, "lists are nested more than " + std::to_string(max_depth) + " deep", lexer_.token());
    } else if (lexer_.is("]")) {
      if (--depth < 0) lexer_.unexpected("a number");
      lexer_.take("]");
      if (depth > 0) lexer_.take(",");
    } else {
      const Token element = lexer_.take_lexeme();
      char buffer[16];
      if (!lexer_.failed() && !read_element(dtype, element.text, buffer)) {
        lexer_.fail(214, "'" + std::string(element.text) + "' is no " + atenon::name_of(dtype), element);
      }
      bytes.append(buffer, size_of(dtype));
      if (depth > 0) lexer_.take(",");
    }
  } while (depth > 0 && !lexer_.at_end());
  if (depth > 0 && !lexer_.failed()) lexer_.unexpected("']' after the elements");
  std::shared_ptr<Storage> storage = Storage::allocate(bytes.size());
  std::memcpy(storage->mutable_data(), bytes.data(), bytes.size());
  return storage;
}

// xxh3:0123456789abcdef0123456789abcdef 12345
std::shared_ptr<Storage> Parser::parse_digest() {
  lexer_.take("xxh3");
  const Token colon = lexer_.token();
  if (!lexer_.is(":")) lexer_.expect(":", "after xxh3");
  // Digits and letters of a digest do not cut into tokens as numbers and words do.
  Token digest = lexer_.take_lexeme();
  digest.text.remove_prefix(std::min<size_t>(digest.text.size(), 1));
  if (!lexer_.failed() && !is_digest(digest.text)) {
    lexer_.fail(214, "a digest is 32 hexadecimal digits in lower case",
                {digest.kind, digest.text, colon.stop, digest.stop});
  }
  const int64_t size = lexer_.expect_integer("the number of bytes behind the digest", 0, max_bytes);
  return Storage::absent(static_cast<size_t>(size), std::string(digest.text));
}

// layout [48,1]:0b16 padded 12288
std::optional<ir::BlockedLayout> Parser::parse_layout() {
  if (!lexer_.take("layout")) return std::nullopt;
  ir::BlockedLayout layout;
  lexer_.expect("[", "before the strides of a layout");
  while (!lexer_.at_end() && !lexer_.is("]")) {
    if (!layout.strides.empty()) lexer_.expect(",", "between strides");
    layout.strides.push_back(lexer_.expect_integer("a stride", 0, max_bytes));
  }
  lexer_.expect("]", "after the strides of a layout");
  lexer_.expect(":", "between strides and blocks of a layout");
  while (!lexer_.at_end() && !lexer_.is("padded")) {
    if (!layout.inner_blocks.empty()) lexer_.expect(",", "between blocks");
    const int64_t axis = lexer_.expect_integer("the axis of a block", 0, max_rank);
    const Token block = lexer_.token();
    const std::string_view text = lexer_.expect(TokenKind::word, "b and a size, as in 0b16,");
    int64_t size = 0;
    const char* end = text.data() + text.size();
    if (lexer_.failed()) break;
    const auto read = std::from_chars(text.data() + 1, end, size);
    if (text[0] != 'b' || read.ec != std::errc() || read.ptr != end)
      lexer_.fail(210, "a block is spelled as in 0b16", block);
    layout.inner_blocks.emplace_back(static_cast<int>(axis), size);
  }
  lexer_.expect("padded", "after the blocks of a layout");
  layout.padded_bytes = lexer_.expect_integer("the number of bytes with padding", 0, max_bytes);
  return layout;
}

}  // namespace atenon::text
