#include "capture/inputs.h"

#include <algorithm>

#include "arrays/arrays.h"
#include "capture/pytree.h"
#include "capture/symbols.h"

namespace atenon::capture {
namespace {

// Names of forward's positional parameters, without self; `takes_any` is true where it has **keywords, or is not
// Python's.
std::vector<std::string> parameter_names(PyObject* forward, bool& takes_any) {
  Ref function = Ref::borrow(forward);
  bool is_bound = false;
  while (function) {
    if (PyMethod_Check(function.get())) {
      is_bound = true;
      function = Ref::borrow(PyMethod_GET_FUNCTION(function.get()));
    } else if (const Ref wrapped = attribute(function.get(), "__wrapped__")) {
      function = wrapped;
    } else {
      break;
    }
  }
  const Ref code = attribute(function.get(), "__code__");
  std::vector<std::string> names;
  takes_any = true;
  if (!code || !PyCode_Check(code.get())) return names;
  takes_any = (reinterpret_cast<PyCodeObject*>(code.get())->co_flags & CO_VARKEYWORDS) != 0;
  const int count = reinterpret_cast<PyCodeObject*>(code.get())->co_argcount +
                    reinterpret_cast<PyCodeObject*>(code.get())->co_kwonlyargcount;
  const Ref variables(PyObject_GetAttrString(code.get(), "co_varnames"));
  for (int i = is_bound ? 1 : 0; i < count; ++i) names.push_back(text_of(PyTuple_GetItem(variables.get(), i)));
  return names;
}

// One `--input`: an element type with sizes, or a file.
struct Given {
  std::string path;
  ScalarType dtype = ScalarType::f32;
  std::vector<SymInt> sizes;
  bool is_file = false;  // sizes are those of an array: an example, not a demand
  bool used = false;
};

Result<Given> parse_given(const std::string& text) {
  const auto wrong = [&](const std::string& why) {
    return error(Status::usage, 305, "--input '" + text + "': " + why)
        .note("an input is written x=f32[batch,3,224,224]");
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return wrong("there is no '='");
  Given given{.path = text.substr(0, equals)};
  const std::string rest = text.substr(equals + 1);
  if (rest.starts_with('@')) {
    Result<std::vector<arrays::Array>> read = arrays::read(rest.substr(1));
    if (!read) return read.error();
    if (read->size() != 1) return wrong("the file has " + std::to_string(read->size()) + " arrays, not one");
    given.dtype = read->front().tensor.dtype;
    given.sizes = {read->front().tensor.sizes.begin(), read->front().tensor.sizes.end()};
    given.is_file = true;
    return given;
  }
  const size_t open = rest.find('[');
  const std::optional<ScalarType> dtype = scalar_type_named(rest.substr(0, open));
  if (!dtype) return wrong("'" + rest.substr(0, open) + "' is no element type");
  given.dtype = *dtype;
  if (open == std::string::npos) return given;
  if (rest.back() != ']') return wrong("the sizes do not end with ']'");
  std::string sizes = rest.substr(open + 1, rest.size() - open - 2);
  while (sizes.find_first_not_of(" ") != std::string::npos) {
    const size_t comma = sizes.find(',');
    Result<SymInt> size = shape::parse_int(sizes.substr(0, comma));
    if (!size) return wrong("'" + sizes.substr(0, comma) + "' is no size");
    given.sizes.push_back(*size);
    sizes = comma == std::string::npos ? "" : sizes.substr(comma + 1);
  }
  return given;
}

// The attribute of a Dim that holds a bound; nullopt where there is none.
std::optional<int64_t> bound(PyObject* dim, const char* name) {
  const Ref value = attribute(dim, name);
  if (!value || !PyLong_Check(value.get())) return std::nullopt;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.get(), &overflow);
  return overflow ? std::nullopt : std::optional<int64_t>(number);
}

class InputMaker {
 public:
  InputMaker(Session& session, const Options& options) : session_(session), options_(options) {}

  std::optional<Inputs> make(PyObject* file, PyObject* forward);

 private:
  bool parse_options();
  bool take_example(PyObject* file, PyObject* forward);
  bool take_dynamic_shapes(PyObject* file);
  bool trace(Inputs& inputs);
  Ref trace_leaf(Inputs& inputs, const std::string& path, PyObject* object);
  bool declare(const std::string& name, shape::Range range, int64_t hint, const std::string& source);
  std::optional<SymInt> size_from(PyObject* dim, int64_t example, const std::string& source);
  bool sizes_from(PyObject* spec, std::vector<SymInt>& sizes, const std::vector<int64_t>& example,
                  const std::string& path);
  bool match(const SymInt& size, int64_t example, const std::string& source);
  PyObject* spec_for(const std::string& path);
  std::optional<int64_t> example_of(const SymInt& size);
  // E0305, about what the user typed or forgot.
  std::nullptr_t fail(std::string message, std::string fix) {
    return session_.raise(error(Status::usage, 305, std::move(message)).note("fix: " + std::move(fix)));
  }

  Session& session_;
  const Options& options_;
  std::vector<Given> given_;
  std::map<std::string, shape::Range> ranges_;  // from --dynamic
  std::vector<std::string> names_;
  bool takes_any_keyword_ = true;
  Ref args_, keywords_, dynamic_;
};

bool InputMaker::parse_options() {
  for (const std::string& text : options_.inputs) {
    Result<Given> given = parse_given(text);
    if (!given) return session_.raise(given.error()), false;
    given_.push_back(std::move(*given));
  }
  for (const std::string& text : options_.dynamic) {
    const size_t equals = text.find('='), dots = text.find("..");
    if (equals == std::string::npos || dots == std::string::npos)
      return session_.raise(error(Status::usage, 305, "--dynamic '" + text + "' is not of the form batch=1..64")),
             false;
    ranges_[text.substr(0, equals)] = {std::stoll(text.substr(equals + 1)), dots + 2 < text.size()
                                                                                ? std::stoll(text.substr(dots + 2))
                                                                                : shape::Range::highest};
  }
  return true;
}

// The file's inputs(), or tensors made for --input.
bool InputMaker::take_example(PyObject* file, PyObject* forward) {
  names_ = parameter_names(forward, takes_any_keyword_);
  keywords_ = Ref(PyDict_New());
  if (const Ref function = attribute(file, "inputs"); function && PyCallable_Check(function.get())) {
    const Ref made(PyObject_CallNoArgs(function.get()));
    if (!made) return false;
    if (PyDict_Check(made.get())) {
      args_ = Ref(PyTuple_New(0));
      keywords_ = made;
    } else {
      args_ = PyTuple_CheckExact(made.get())  ? made
              : PyList_CheckExact(made.get()) ? Ref(PyList_AsTuple(made.get()))
                                              : Ref(PyTuple_Pack(1, made.get()));
    }
    return static_cast<bool>(args_);
  }
  if (given_.empty()) {
    fail("there are no example inputs: the file has no inputs(), and no --input was given",
         "--input " + (names_.empty() ? std::string("x") : names_[0]) + "='f32[batch,3,224,224]'");
    return false;
  }
  args_ = Ref(PyTuple_New(0));
  for (Given& given : given_) {
    if (given.path.find('.') != std::string::npos) {
      fail("--input " + given.path + " names a part of an input that nobody made", "an inputs() in the file");
      return false;
    }
    if (!takes_any_keyword_ && std::find(names_.begin(), names_.end(), given.path) == names_.end()) {
      const std::string near = nearest(given.path, names_);
      fail("forward has no argument '" + given.path + "'",
           near.empty() ? "an --input for each argument of forward" : "--input " + near + "=...");
      return false;
    }
    if (PyDict_SetItemString(keywords_.get(), given.path.c_str(), Py_True) < 0) return false;
  }
  // In forward's order, whatever the order of the options.
  Ref ordered(PyDict_New());
  for (const std::string& name : names_)
    if (PyDict_GetItemString(keywords_.get(), name.c_str())) PyDict_SetItemString(ordered.get(), name.c_str(), Py_True);
  if (PyDict_Update(ordered.get(), keywords_.get()) < 0) return false;
  keywords_ = ordered;
  return true;
}

bool InputMaker::take_dynamic_shapes(PyObject* file) {
  const Ref function = attribute(file, "dynamic_shapes");
  if (!function) return true;
  dynamic_ = PyCallable_Check(function.get()) ? Ref(PyObject_CallNoArgs(function.get())) : function;
  return static_cast<bool>(dynamic_);
}

// What dynamic_shapes() says of the leaf at `path`; borrowed, null if nothing.
PyObject* InputMaker::spec_for(const std::string& path) {
  PyObject* spec = dynamic_.get();
  std::string rest = path;
  bool is_top = true;
  while (spec && spec != Py_None && !rest.empty()) {
    const size_t dot = rest.find('.');
    const std::string key = rest.substr(0, dot);
    PyObject* next = nullptr;
    if (PyDict_Check(spec)) {
      next = PyDict_GetItemString(spec, key.c_str());
      if (!next && is_top && PyDict_GET_SIZE(spec) == 1) {  // torch.export: {"args": (...)} for *args
        next = PyDict_GetItemString(spec, "args");
        if (next) {
          spec = next;
          is_top = false;
          continue;
        }
      }
    } else if (PyTuple_Check(spec) || PyList_Check(spec)) {
      size_t position = is_top ? static_cast<size_t>(std::find(names_.begin(), names_.end(), key) - names_.begin())
                               : static_cast<size_t>(std::atoll(key.c_str()));
      if (position < static_cast<size_t>(PySequence_Fast_GET_SIZE(spec)))
        next = PySequence_Fast_GET_ITEM(spec, static_cast<Py_ssize_t>(position));
    }
    spec = next;
    rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
    is_top = false;
  }
  return spec;
}

bool InputMaker::declare(const std::string& name, shape::Range range, int64_t hint, const std::string& source) {
  const auto known = std::find_if(session_.symbols.begin(), session_.symbols.end(),
                                  [&](const ir::Symbol& s) { return s.name == name; });
  if (known != session_.symbols.end()) {
    if (known->hint == hint) return true;
    session_.raise(306,
                   "dimension `" + name + "` is " + std::to_string(*known->hint) + " in " + known->source + " but " +
                       std::to_string(hint) + " in " + source,
                   "example inputs in which both are equal, or two dimensions of different names");
    return false;
  }
  if (const auto given = ranges_.find(name); given != ranges_.end()) range = given->second;
  if (!range.contains(hint)) {
    session_.raise(306,
                   "dimension `" + name + "` is " + std::to_string(hint) + " in the example, outside of " +
                       std::to_string(range.lower) + ".." +
                       (range.upper == shape::Range::highest ? "" : std::to_string(range.upper)),
                   "an example inside the range, or a wider range");
    return false;
  }
  session_.facts.declare(name, range);
  session_.symbols.push_back({.name = name, .range = range, .hint = hint, .source = source});
  session_.hints[name] = hint;
  return true;
}

// A size of an --input in terms of symbols, whose hints follow from the example where the size is one symbol.
bool InputMaker::match(const SymInt& size, int64_t example, const std::string& source) {
  if (const auto symbol = size.as_symbol()) return declare(*symbol, {1, shape::Range::highest}, example, source);
  for (const std::string& symbol : size.symbols())
    if (!session_.hints.contains(symbol)) {
      session_.raise(306, "dimension `" + symbol + "` appears only inside `" + size.to_string() + "`",
                     "an input one of whose sizes is `" + symbol + "` itself, before it");
      return false;
    }
  if (shape::evaluate(size, session_.hints) == example) return true;
  session_.raise(306, source + " is " + std::to_string(example) + " in the example, not " + size.to_string(),
                 "an example of that size");
  return false;
}

std::optional<SymInt> InputMaker::size_from(PyObject* dim, int64_t example, const std::string& source) {
  if (dim == Py_None) return SymInt(example);
  if (const auto number = integer_of(dim)) {
    if (*number == SymInt(example)) return *number;
    session_.raise(306, source + " is " + std::to_string(example) + " in the example, not " + number->to_string(),
                   "an example of that size");
    return std::nullopt;
  }
  const Ref name = attribute(dim, "__name__");
  const Ref root = attribute(dim, "root");
  if (root && root.get() != Py_None) {  // a derived dimension: 2 * batch + 1
    const std::string root_name = text_of(attribute(root.get(), "__name__").get());
    const Ref symbol = session_.wrap(SymInt::symbol(root_name));
    const Ref function = attribute(dim, "fn");
    const Ref derived(function && symbol ? PyObject_CallOneArg(function.get(), symbol.get()) : nullptr);
    const std::optional<SymInt> size = derived ? integer_of(derived.get()) : std::nullopt;
    if (!size || !match(*size, example, source)) {
      if (!PyErr_Occurred())
        session_.raise(306, "the derived dimension of " + source + " is not understood", "a plain torch.export.Dim");
      return std::nullopt;
    }
    return size;
  }
  std::string text = name ? text_of(name.get()) : "";
  shape::Range range{bound(dim, "min").value_or(1), bound(dim, "max").value_or(shape::Range::highest)};
  if (text.empty() || text == "AUTO" || text == "DYNAMIC" || text == "STATIC") {
    const std::string hint_kind = text.empty() ? str_of(dim) : text;
    if (hint_kind.find("STATIC") != std::string::npos) return SymInt(example);
    text = "s" + std::to_string(session_.symbols.size());
  }
  if (!declare(text, range, example, source)) return std::nullopt;
  return SymInt::symbol(text);
}

bool InputMaker::sizes_from(PyObject* spec, std::vector<SymInt>& sizes, const std::vector<int64_t>& example,
                            const std::string& path) {
  if (!spec || spec == Py_None) return true;
  const auto source = [&](size_t axis) { return path + "[" + std::to_string(axis) + "]"; };
  if (PyDict_Check(spec)) {
    PyObject *key = nullptr, *dim = nullptr;
    for (Py_ssize_t position = 0; PyDict_Next(spec, &position, &key, &dim);) {
      const long axis = PyLong_AsLong(key);
      if (axis < 0 || static_cast<size_t>(axis) >= sizes.size()) {
        PyErr_Clear();
        session_.raise(306,
                       "dynamic_shapes() names axis " + str_of(key) + " of " + path + ", which has " +
                           std::to_string(sizes.size()),
                       "an axis that is there");
        return false;
      }
      const auto at = static_cast<size_t>(axis);
      const std::optional<SymInt> size = size_from(dim, example[at], source(at));
      if (!size) return false;
      sizes[at] = *size;
    }
    return true;
  }
  if (!PyTuple_Check(spec) && !PyList_Check(spec)) {
    session_.raise(306, "dynamic_shapes() gives " + str_of(spec) + " for " + path,
                   "a dict from axes to dimensions, such as {0: batch}");
    return false;
  }
  for (size_t axis = 0; axis < sizes.size() && axis < static_cast<size_t>(PySequence_Fast_GET_SIZE(spec)); ++axis) {
    const std::optional<SymInt> size =
        size_from(PySequence_Fast_GET_ITEM(spec, static_cast<Py_ssize_t>(axis)), example[axis], source(axis));
    if (!size) return false;
    sizes[axis] = *size;
  }
  return true;
}

// A value for a size of --input that no example gives: 2 for a new symbol, where its range allows.
std::optional<int64_t> InputMaker::example_of(const SymInt& size) {
  const auto symbol = size.as_symbol();
  if (!symbol || session_.hints.contains(*symbol)) return shape::evaluate(size, session_.hints).value_or(0);
  const auto range = ranges_.find(*symbol);
  return range == ranges_.end() ? 2 : std::clamp<int64_t>(2, range->second.lower, range->second.upper);
}

// An argument as a graph input's name: "cache.0.1" is %cache_0_1.
std::string value_name(const std::string& path) {
  std::string name;
  for (const char c : path) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  return name;
}

Ref InputMaker::trace_leaf(Inputs& inputs, const std::string& path, PyObject* object) {
  const auto given = std::find_if(given_.begin(), given_.end(), [&](const Given& g) { return g.path == path; });
  TensorObject* tensor = as_tensor(object);
  if (!tensor && given == given_.end()) {
    // Not a tensor: what forward does with it is fixed, and a caller must pass the same.
    ir::InputSpec spec{.target = path};
    if (object == Py_None)
      spec.constant = Argument(ir::None{});
    else if (PyBool_Check(object))
      spec.constant = Argument(object == Py_True);
    else if (const auto integer = integer_of(object))
      spec.constant = Argument(*integer);
    else if (PyFloat_Check(object))
      spec.constant = Argument(PyFloat_AS_DOUBLE(object));
    else if (PyUnicode_Check(object))
      spec.constant = Argument(text_of(object));
    else {
      session_.raise(305, "input " + path + " is a " + Py_TYPE(object)->tp_name + ", which no program can take",
                     "tensors, numbers, texts, and containers of them");
      return {};
    }
    inputs.specs.push_back(std::move(spec));
    inputs.bases.push_back(nullptr);
    return Ref::borrow(object);
  }
  ir::TensorMeta meta;
  const bool is_demanded = given != given_.end() && !given->is_file;
  if (tensor) meta = session_.meta(*tensor);
  if (given != given_.end()) {
    if (tensor && given->sizes.size() != meta.sizes.size()) {
      session_.raise(305,
                     "--input " + path + " has " + std::to_string(given->sizes.size()) + " sizes, the example " +
                         std::to_string(meta.sizes.size()),
                     "the same rank");
      return {};
    }
    meta.dtype = given->dtype;
  }
  if (is_demanded) {
    for (size_t axis = 0; axis < given->sizes.size(); ++axis) {
      const SymInt& size = given->sizes[axis];
      const std::string source = path + "[" + std::to_string(axis) + "]";
      const std::optional<int64_t> example = size.is_constant() ? size.constant()
                                             : tensor           ? meta.sizes[axis].constant()
                                                                : example_of(size);
      if (!example || !match(size, *example, source)) return {};
    }
    meta.sizes = given->sizes;
  } else {
    if (given != given_.end()) meta.sizes = given->sizes;
    std::vector<int64_t> example;
    for (const SymInt& size : meta.sizes) example.push_back(*size.constant());
    if (!sizes_from(spec_for(path), meta.sizes, example, path)) return {};
  }
  if (given != given_.end()) given->used = true;
  ir::Value* input = session_.graph.add_input(value_name(path), std::move(meta));
  TensorState state = session_.fresh(input);
  state.base->input = input;
  inputs.specs.push_back({.kind = ir::InputKind::user_input, .value = input->name, .target = path});
  inputs.bases.push_back(state.base);
  return session_.wrap(std::move(state));
}

bool InputMaker::trace(Inputs& inputs) {
  const auto replace = [&](const std::string& path, PyObject* object) { return trace_leaf(inputs, path, object); };
  const auto add = [&](PyObject* object, const std::string& name) -> Ref {
    std::vector<Leaf> leaves;
    inputs.tree.keys.push_back(name);
    if (!flatten(session_, object, name, inputs.tree.children.emplace_back(), leaves)) return {};
    return rebuild(session_, object, name, replace);
  };
  inputs.tree.kind = ir::TreeSpec::Kind::tuple;
  const Py_ssize_t count = PyTuple_GET_SIZE(args_.get());
  inputs.args = Ref(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    Ref traced = add(PyTuple_GET_ITEM(args_.get(), i), at < names_.size() ? names_[at] : "args_" + std::to_string(i));
    if (!traced) return false;
    PyTuple_SET_ITEM(inputs.args.get(), i, traced.release());
  }
  inputs.keywords = Ref(PyDict_New());
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(keywords_.get(), &position, &key, &value);) {
    inputs.tree.kind = ir::TreeSpec::Kind::dict;
    const Ref traced = add(value, text_of(key));
    if (!traced || PyDict_SetItem(inputs.keywords.get(), key, traced.get()) < 0) return false;
  }
  for (const Given& given : given_)
    if (!given.used) {
      std::string names;
      for (const ir::InputSpec& spec : inputs.specs) names += (names.empty() ? "" : ", ") + spec.target;
      session_.raise(error(Status::usage, 305, "--input " + given.path + " is none of the inputs: " + names));
      return false;
    }
  return true;
}

std::optional<Inputs> InputMaker::make(PyObject* file, PyObject* forward) {
  Inputs inputs;
  if (!parse_options() || !take_example(file, forward) || !take_dynamic_shapes(file) || !trace(inputs))
    return std::nullopt;
  return inputs;
}

}  // namespace

std::optional<Inputs> make_inputs(Session& session, PyObject* file, PyObject* forward, const Options& options) {
  return InputMaker(session, options).make(file, forward);
}

}  // namespace atenon::capture
