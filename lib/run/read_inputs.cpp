// Inputs from the command line: files, numbers, and values made on the spot.
#include <charconv>
#include <filesystem>
#include <set>

#include "arrays/arrays.h"
#include "run/leaves.h"
#include "run/run.h"
#include "text/text.h"

namespace atenon::run {
namespace {

std::string type_of(const Leaf& leaf) { return ir::to_string(leaf.type); }

Diagnostic no_such_input(const Session& session, const std::string& name) {
  Diagnostic unknown = error(Status::usage, 620, "the program has no input '" + name + "'");
  std::vector<std::string> names = leaf_names(session.inputs());
  std::string near = nearest(name, names);
  if (!near.empty()) unknown.notes.push_back({"did you mean '" + near + "'?"});
  for (size_t i = 0; i < names.size(); ++i)
    unknown.notes.push_back({"input " + names[i] + ": " + type_of(session.inputs()[i])});
  return unknown;
}

// Sizes that were not given: the example's, or the least that are allowed.
std::optional<std::vector<int64_t>> example_sizes(const Session& session, size_t leaf) {
  shape::Bindings bindings;
  for (const ir::Symbol& symbol : session.entry().symbols)
    bindings[symbol.name] = symbol.hint.value_or(symbol.range.lower);
  return session.input_sizes(leaf, bindings);
}

// A hash of the position, the finaliser of MurmurHash3: the same values on every machine, in every run.
uint32_t hash(uint64_t position) {
  uint64_t x = position + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  return static_cast<uint32_t>((x ^ (x >> 33)) >> 32);
}

Tensor made(ScalarType dtype, const std::vector<int64_t>& sizes, bool random) {
  Tensor tensor = Tensor::zeros(dtype, sizes);
  for (int64_t i = 0, n = random ? tensor.numel() : 0; i < n; ++i) {
    uint32_t bits = hash(static_cast<uint64_t>(i));
    // Floats in -1..1; of integers only 0 and 1 are sure to be valid for whatever they index.
    if (is_floating(dtype))
      tensor.set(i, static_cast<double>(bits) / 2147483648.0 - 1.0);
    else
      tensor.set_int(i, bits & 1);
  }
  return tensor;
}

// "random", "zeros", each perhaps with sizes: "random[4,64]".
Result<std::optional<Datum>> make(const Session& session, size_t index, const std::string& value) {
  const Leaf& leaf = session.inputs()[index];
  std::string word = value.substr(0, value.find('['));
  if ((word != "random" && word != "zeros") || !std::holds_alternative<ir::TensorMeta>(leaf.type))
    return std::optional<Datum>();
  const auto& meta = std::get<ir::TensorMeta>(leaf.type);
  std::vector<int64_t> sizes;
  if (word == value) {
    std::optional<std::vector<int64_t>> example = example_sizes(session, index);
    if (!example)
      return error(Status::usage, 621, "'" + value + "' needs the sizes of '" + leaf.path + "', " + type_of(leaf))
          .note("write " + word + "[4,64]");
    sizes = std::move(*example);
  } else {
    const char* at = value.data() + word.size() + 1;
    const char* end = value.data() + value.size();
    bool is_read = value.ends_with(']');
    while (is_read && *at != ']') {
      int64_t size = 0;
      const auto [rest, problem] = std::from_chars(at, end, size);
      is_read = problem == std::errc() && size >= 0 && (*rest == ',' || *rest == ']');
      sizes.push_back(size);
      at = is_read && *rest == ',' ? rest + 1 : rest;
    }
    if (!is_read || at + 1 != end)
      return error(Status::usage, 621, "cannot read the sizes in '" + value + "'").note("write random[4,64]");
  }
  if (!is_countable(meta.dtype, sizes)) return error(Status::usage, 621, "there are no such sizes: '" + value + "'");
  return std::optional<Datum>(made(meta.dtype, sizes, word == "random"));
}

std::optional<Datum> number(const Leaf& leaf, const std::string& text) {
  const auto* kind = std::get_if<ir::ScalarKind>(&leaf.type);
  if (!kind) return std::nullopt;
  if (*kind == ir::ScalarKind::boolean && (text == "true" || text == "false")) return Datum(text == "true");
  const char* end = text.data() + text.size();
  if (*kind == ir::ScalarKind::integer) {
    int64_t value = 0;
    auto [rest, problem] = std::from_chars(text.data(), end, value);
    return problem == std::errc() && rest == end ? std::optional<Datum>(value) : std::nullopt;
  }
  double value = 0;
  auto [rest, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && rest == end ? std::optional<Datum>(value) : std::nullopt;
}

std::string example_number(const Leaf& leaf) {
  const ir::ScalarKind kind = std::get<ir::ScalarKind>(leaf.type);
  return kind == ir::ScalarKind::integer ? "3" : kind == ir::ScalarKind::boolean ? "true" : "0.5";
}

// NumPy has no bfloat16: its files hold uint16, which arrays reads as bf16. Other types must be the declared ones;
// floats become narrower ones and integers int64 where that is asked for, as NumPy's defaults are wide and its types
// few.
Result<Datum> fitted(const Leaf& leaf, Tensor tensor, const std::string& name) {
  if (const auto* kind = std::get_if<ir::ScalarKind>(&leaf.type)) {
    if (std::optional<Datum> number = number_of(tensor, *kind)) return std::move(*number);
    return error(Status::usage, 622,
                 "the input '" + name + "' is one number, " + type_of(leaf) + ", and the file holds " +
                     ir::to_string(ir::TensorMeta{tensor.dtype, {tensor.sizes.begin(), tensor.sizes.end()}}));
  }
  ScalarType wanted = std::get<ir::TensorMeta>(leaf.type).dtype;
  if (tensor.dtype == wanted) return Datum(std::move(tensor));
  const bool is_converted =
      (is_floating(tensor.dtype) && is_floating(wanted) && size_of(wanted) < size_of(tensor.dtype)) ||
      (is_integral(tensor.dtype) && wanted == ScalarType::i64);
  if (is_converted) return Datum(cast(tensor, wanted));
  return error(Status::usage, 622,
               "the input '" + name + "' is " + type_of(leaf) + ", but the file holds " + name_of(tensor.dtype))
      .note("convert it: numpy.save(file, x.astype('" +
            std::string(torch_name_of(wanted == ScalarType::bf16 ? ScalarType::f32 : wanted)) + "'))");
}

}  // namespace

Result<std::vector<std::optional<Datum>>> read_inputs(const Session& session, const std::vector<std::string>& inputs,
                                                      const std::vector<std::string>& files) {
  std::vector<std::optional<Datum>> values(session.inputs().size());
  std::set<size_t> given;
  const auto find = [&](const std::string& name) -> Result<size_t> {
    std::optional<size_t> leaf = find_leaf(session.inputs(), name);
    if (!leaf) return no_such_input(session, name);
    if (const auto& constant = session.inputs()[*leaf].constant; constant && constant->is<ir::None>())
      return error(Status::usage, 622, "the input '" + name + "' is None, and takes neither a file nor a number")
          .note("leave it out");
    if (!given.insert(*leaf).second)
      return error(Status::usage, 621, "the input '" + session.inputs()[*leaf].path + "' is given twice");
    return *leaf;
  };
  const auto put = [&](size_t leaf, const std::string& name, Tensor tensor) -> Result<void> {
    Result<Datum> value = fitted(session.inputs()[leaf], std::move(tensor), name);
    if (!value) return value.error();
    values[leaf] = std::move(*value);
    return {};
  };
  for (const std::string& file : files) {
    Result<std::vector<arrays::Array>> content = arrays::read(file);
    if (!content) return content.error();
    for (arrays::Array& array : *content) {
      Result<size_t> leaf = find(array.name);
      if (!leaf) return leaf.error();
      if (Result<void> done = put(*leaf, array.name, std::move(array.tensor)); !done) return done.error();
    }
  }
  given.clear();  // --input may replace what a file gives
  for (const std::string& word : inputs) {
    size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return error(Status::usage, 621, "cannot read the input '" + word + "'")
          .note("write NAME=FILE.npy, NAME=random, NAME=zeros or NAME=3");
    }
    std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    Result<size_t> leaf = find(name);
    if (!leaf) return leaf.error();
    Result<std::optional<Datum>> here = make(session, *leaf, value);
    if (!here) return here.error();
    if (!*here) *here = number(session.inputs()[*leaf], value);
    if (*here) {
      values[*leaf] = std::move(**here);
      continue;
    }
    const std::string file = value.starts_with('@') ? value.substr(1) : value;
    const bool is_number = std::holds_alternative<ir::ScalarKind>(session.inputs()[*leaf].type);
    if (std::error_code unknown; is_number && file != "-" && !std::filesystem::exists(file, unknown))
      return error(Status::usage, 621,
                   "the input '" + name + "' is one number, " + type_of(session.inputs()[*leaf]) + ", not '" + value +
                       "', and there is no such file")
          .note("write " + name + "=" + example_number(session.inputs()[*leaf]));
    Result<std::vector<arrays::Array>> content = arrays::read(file);
    if (!content) return content.error();
    if (content->size() != 1)
      return error(Status::usage, 621, value + " holds " + std::to_string(content->size()) + " arrays, not one")
          .note("--inputs " + value + " takes them by their names");
    if (Result<void> done = put(*leaf, name, std::move((*content)[0].tensor)); !done) return done.error();
  }
  std::vector<std::string> names = leaf_names(session.inputs());
  Diagnostic missing = error(Status::usage, 623, "an input is missing");
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] || session.inputs()[i].constant) continue;
    missing.notes.push_back({names[i] + ": " + type_of(session.inputs()[i]) + ", give it by --input " + names[i] +
                             "=FILE.npy (or =random)"});
  }
  if (!missing.notes.empty()) return missing;
  return values;
}

}  // namespace atenon::run
