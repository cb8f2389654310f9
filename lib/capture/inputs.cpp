#include "capture/inputs.h"

#include <algorithm>
#include <charconv>

#include "arrays/arrays.h"
#include "capture/dimensions.h"
#include "capture/pytree.h"
#include "capture/symbols.h"
#include "capture/tensor_object.h"
#include "text/limits.h"

namespace atenon::capture {
namespace {

// What Python calls the arguments of forward, without self.
struct Parameters {
  std::vector<std::string> names;  // first those that may be given by position
  size_t positional = 0;
  std::string rest = "args";     // further positional arguments: *args
  bool take_any_keyword = true;  // **keywords, or not a function of Python's

  std::string name_at(size_t position) const {
    return position < positional ? names[position] : rest + "_" + std::to_string(position - positional);
  }
};

Parameters parameters_of(PyObject* forward) {
  Ref function = Ref::borrow(forward);
  size_t bound = 0;
  while (function) {
    if (PyMethod_Check(function.get())) {
      bound = 1;
      function = Ref::borrow(PyMethod_GET_FUNCTION(function.get()));
    } else if (const Ref wrapped = attribute(function.get(), "__wrapped__")) {
      function = wrapped;
    } else {
      break;
    }
  }
  const Ref object = attribute(function.get(), "__code__");
  Parameters parameters;
  if (!object || !PyCode_Check(object.get())) return parameters;
  const auto* code = reinterpret_cast<PyCodeObject*>(object.get());
  const Ref variables(PyObject_GetAttrString(object.get(), "co_varnames"));
  const auto count = static_cast<size_t>(code->co_argcount);
  const auto name_of = [&](size_t i) { return text_of(PyTuple_GetItem(variables.get(), static_cast<Py_ssize_t>(i))); };
  const size_t named = count + static_cast<size_t>(code->co_kwonlyargcount);
  for (size_t i = bound; i < named; ++i) parameters.names.push_back(name_of(i));
  parameters.positional = count - std::min(bound, count);
  if (code->co_flags & CO_VARARGS) parameters.rest = name_of(named);
  parameters.take_any_keyword = (code->co_flags & CO_VARKEYWORDS) != 0;
  return parameters;
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
    if (!size || size->constant().value_or(0) < 0) return wrong("'" + sizes.substr(0, comma) + "' is no size");
    given.sizes.push_back(*size);
    sizes = comma == std::string::npos ? "" : sizes.substr(comma + 1);
  }
  return given;
}

// "1..64", or "1.." without an upper bound.
std::optional<shape::Range> range_of(std::string_view text) {
  shape::Range range{0, shape::Range::highest};
  const char* end = text.data() + text.size();
  const auto [dots, no_lower] = std::from_chars(text.data(), end, range.lower);
  if (no_lower != std::errc() || range.lower < 0 || !std::string_view(dots, end).starts_with("..")) return std::nullopt;
  if (dots + 2 == end) return range;
  const auto [rest, no_upper] = std::from_chars(dots + 2, end, range.upper);
  if (no_upper != std::errc() || rest != end) return std::nullopt;
  return range;
}

class InputMaker {
 public:
  InputMaker(Session& session, const Options& options) : session_(session), options_(options), dimensions_(session) {}

  std::optional<Inputs> make(const Example& example, PyObject* model);

 private:
  bool parse_options();
  bool take_example(const Example& example);
  bool make_example(const Example& example);
  bool specify(PyObject* model, PyObject* dynamic_shapes);
  bool trace(Inputs& inputs);
  Ref trace_leaf(Inputs& inputs, const std::string& path, PyObject* object);
  std::optional<Ref> trace_number(Inputs& inputs, const std::string& path, PyObject* object, PyObject* spec);
  Ref add_constant(Inputs& inputs, const std::string& path, PyObject* object);
  // E0305, about what the user typed or forgot.
  std::nullptr_t fail(std::string message, std::string fix) {
    return session_.raise(error(Status::usage, 305, std::move(message)).note("fix: " + std::move(fix)));
  }

  bool twice(const std::string& option) {
    session_.raise(error(Status::usage, 5, option + " is given more than once"));
    return false;
  }
  std::string naming(const std::string& name, const shape::Range& range, const Inputs& inputs) const;

  Session& session_;
  const Options& options_;
  std::vector<Given> given_;
  Dimensions dimensions_;
  Parameters parameters_;
  Ref args_, keywords_;
  Ref specs_;  // list: what dynamic_shapes says of each leaf
};

bool InputMaker::parse_options() {
  for (const std::string& text : options_.inputs) {
    Result<Given> given = parse_given(text);
    if (!given) return session_.raise(given.error()), false;
    if (std::ranges::find(given_, given->path, &Given::path) != given_.end()) return twice("--input " + given->path);
    given_.push_back(std::move(*given));
  }
  for (const std::string& text : options_.dynamic) {
    const size_t equals = text.find('=');
    const std::optional<shape::Range> range =
        equals == std::string::npos ? std::nullopt : range_of(std::string_view(text).substr(equals + 1));
    if (!range)
      return session_.raise(error(Status::usage, 305, "--dynamic '" + text + "' is not of the form batch=1..64")),
             false;
    if (range->upper < range->lower)
      return fail("--dynamic '" + text + "': no number is in " + range->to_string(),
                  "--dynamic " + text.substr(0, equals) + "=" + shape::Range{range->upper, range->lower}.to_string()),
             false;
    if (dimensions_.narrowed().contains(text.substr(0, equals))) return twice("--dynamic " + text.substr(0, equals));
    dimensions_.narrow(text.substr(0, equals), *range);
  }
  return true;
}

bool InputMaker::take_example(const Example& example) {
  if (!example.args) return make_example(example);
  args_ = example.args;
  keywords_ = example.keywords;
  return true;
}

// Places for the tensors that --input describes.
bool InputMaker::make_example(const Example& example) {
  const std::vector<std::string>& names = parameters_.names;
  if (given_.empty()) {
    fail("there are no example inputs: " +
             (example.misused.empty() ? "the file has no inputs()"
                                      : "`inputs` in the file is " + example.misused + ", not a function") +
             ", and no --input was given",
         example.misused.empty()
             ? "--input " + (names.empty() ? std::string("x") : names[0]) + "='f32[batch,3,224,224]'"
             : "def inputs(): return ...");
    return false;
  }
  keywords_ = Ref(PyDict_New());
  args_ = Ref(PyTuple_New(0));
  for (Given& given : given_) {
    if (given.path.find('.') != std::string::npos) {
      fail("--input " + given.path + " names a part of an input that nobody made", "an inputs() in the file");
      return false;
    }
    if (!parameters_.take_any_keyword && std::find(names.begin(), names.end(), given.path) == names.end()) {
      const std::string near = nearest(given.path, names);
      fail("forward has no argument '" + given.path + "'",
           near.empty() ? "an --input for each argument of forward" : "--input " + near + "=...");
      return false;
    }
    if (PyDict_SetItemString(keywords_.get(), given.path.c_str(), Py_True) < 0) return false;
  }
  // In forward's order, whatever the order of the options.
  Ref ordered(PyDict_New());
  for (const std::string& name : names)
    if (PyDict_GetItemString(keywords_.get(), name.c_str())) PyDict_SetItemString(ordered.get(), name.c_str(), Py_True);
  if (PyDict_Update(ordered.get(), keywords_.get()) < 0) return false;
  keywords_ = ordered;
  return true;
}

// Of the class of the example, with what hangs on it; a parameter that is passed is a plain tensor.
static Ref wrapped_like(Session& session, PyObject* example, TensorState state) {
  PyTypeObject* type = Py_TYPE(example);
  if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(session.parameter_class.get())))
    return session.wrap(std::move(state));
  Ref made = new_tensor(session, type, std::move(state), false);
  const Ref own = attribute(example, "__dict__"), other = made ? attribute(made.get(), "__dict__") : Ref();
  if (own && other && PyDict_Update(other.get(), own.get()) < 0) return {};
  return made;
}

// An integer that dynamic_shapes names: a symbol. Nullopt where it turns out to be a constant.
std::optional<Ref> InputMaker::trace_number(Inputs& inputs, const std::string& path, PyObject* object, PyObject* spec) {
  const std::string name = value_name(path);  // of the symbol, too
  ir::Value* input = session_.graph.add_input(text::is_symbol_name(name) ? name : name + "_", ir::ScalarKind::integer);
  const std::optional<SymInt> number = dimensions_.number(spec, PyLong_AsLongLong(object), input->name, path);
  if (!number) return Ref();
  if (number->is_constant()) {
    session_.graph.erase_input(input);
    return std::nullopt;
  }
  inputs.specs.push_back({.kind = ir::InputKind::user_input, .value = input->name, .target = path});
  inputs.bases.push_back(nullptr);
  return session_.wrap(*number);
}

// Not a tensor: what forward does with it is fixed, and a caller must pass the same.
Ref InputMaker::add_constant(Inputs& inputs, const std::string& path, PyObject* object) {
  ir::InputSpec constant{.target = path};
  if (object == Py_None) {
    constant.constant = Argument(ir::None{});
  } else if (PyBool_Check(object)) {
    constant.constant = Argument(object == Py_True);
  } else if (const auto integer = integer_of(object)) {
    constant.constant = Argument(*integer);
  } else if (PyFloat_Check(object)) {
    constant.constant = Argument(PyFloat_AS_DOUBLE(object));
  } else if (PyUnicode_Check(object)) {
    constant.constant = Argument(text_of(object));
  } else {
    const std::string kind =
        PyLong_Check(object) ? "an int of more than 64 bits" : std::string("a ") + Py_TYPE(object)->tp_name;
    session_.raise(305, "input " + path + " is " + kind + ", which no program can take",
                   "tensors, numbers, texts, and containers of them");
    return {};
  }
  inputs.specs.push_back(std::move(constant));
  inputs.bases.push_back(nullptr);
  return Ref::borrow(object);
}

Ref InputMaker::trace_leaf(Inputs& inputs, const std::string& path, PyObject* object) {
  const auto given = std::find_if(given_.begin(), given_.end(), [&](const Given& g) { return g.path == path; });
  PyObject* spec = specs_ ? PyList_GetItem(specs_.get(), static_cast<Py_ssize_t>(inputs.specs.size())) : nullptr;
  TensorObject* tensor = as_tensor(object);
  if (PyLong_CheckExact(object) && given == given_.end() && spec && spec != Py_None)
    if (std::optional<Ref> number = trace_number(inputs, path, object, spec)) return *number;
  if (!tensor && given == given_.end()) return add_constant(inputs, path, object);
  ir::TensorMeta meta;
  const bool is_demanded = given != given_.end() && !given->is_file;
  if (tensor) meta = session_.meta(*tensor);
  if (given != given_.end()) {
    if (tensor && given->sizes.size() != meta.sizes.size()) {
      fail("--input " + path + " has " + std::to_string(given->sizes.size()) + " sizes, the example " +
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
                                                                : dimensions_.example_of(size);
      if (!example || !dimensions_.match(size, *example, source)) return {};
    }
    meta.sizes = given->sizes;
  } else {
    if (given != given_.end()) meta.sizes = given->sizes;
    if (!dimensions_.apply(spec, meta.sizes, path)) return {};
  }
  if (given != given_.end()) given->used = true;
  ir::Value* input = session_.graph.add_input(value_name(path), std::move(meta));
  TensorState state = session_.fresh(input);
  state.base->input = input;
  if (tensor) session_.examples.emplace(input, tensor->state->real);
  inputs.specs.push_back({.kind = ir::InputKind::user_input, .value = input->name, .target = path});
  inputs.bases.push_back(state.base);
  return tensor ? wrapped_like(session_, object, std::move(state)) : session_.wrap(std::move(state));
}

// Options that give a size the name of a dimension: the size that `x.1` or `x[1]` means, else the first.
std::string InputMaker::naming(const std::string& name, const shape::Range& range, const Inputs& inputs) const {
  const std::string symbol = value_name(name);
  std::string options;
  for (const ir::InputSpec& spec : inputs.specs) {
    const ir::Value* input = session_.graph.find(spec.value);
    const auto* meta = input ? std::get_if<ir::TensorMeta>(&input->type) : nullptr;
    for (size_t axis = 0; meta && axis < meta->sizes.size(); ++axis) {
      const bool is_meant = symbol == input->name + "_" + std::to_string(axis);
      if (!is_meant && !options.empty()) continue;
      ir::TensorMeta named{.dtype = meta->dtype, .sizes = meta->sizes};
      named.sizes[axis] = SymInt::symbol(symbol);
      options = "--input '" + spec.target + "=" + to_string(named) + "' --dynamic " + symbol + "=" + range.to_string();
      if (is_meant) return options;
    }
  }
  return options + (options.empty() ? "" : ", or ") + "a Dim of that name in dynamic_shapes()";
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
    Ref traced = add(PyTuple_GET_ITEM(args_.get(), i), parameters_.name_at(at));
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
  for (const auto& [name, range] : dimensions_.narrowed()) {
    if (session_.hints.contains(name)) continue;
    std::vector<std::string> known;
    for (const ir::Symbol& symbol : session_.symbols) known.push_back(symbol.name);
    const std::string near = nearest(name, known);
    fail("--dynamic " + name + ": no dimension of the inputs has that name",
         near.empty() ? naming(name, range, inputs) : "--dynamic " + near + "=" + range.to_string());
    return false;
  }
  dimensions_.solve_derived();
  return true;
}

// Which leaf has which dynamic dimensions: torch.export.dynamic_shapes matches the two trees.
bool InputMaker::specify(PyObject* model, PyObject* dynamic_shapes) {
  if (!dynamic_shapes || dynamic_shapes == Py_None) return true;
  const Ref module(PyImport_ImportModule("torch.export.dynamic_shapes"));
  specs_ = Ref(module ? PyObject_CallMethod(module.get(), "specs_of_leaves", "OOOO", model, args_.get(),
                                            keywords_.get(), dynamic_shapes)
                      : nullptr);
  return static_cast<bool>(specs_);
}

std::optional<Inputs> InputMaker::make(const Example& example, PyObject* model) {
  const Ref forward = attribute(model, "forward");
  parameters_ = parameters_of(forward ? forward.get() : model);
  Inputs inputs;
  if (!parse_options()) return std::nullopt;
  dimensions_.fix(example.sizes);
  if (!take_example(example) || !specify(model, example.dynamic_shapes.get()) || !trace(inputs)) return std::nullopt;
  for (const shape::SymBool& truth : example.known) {
    if (shape::evaluate(truth, session_.hints) != true)
      return session_.raise(306, "no example is such that " + truth.to_string()), std::nullopt;
    session_.assume({.truth = truth, .reason = "given"});
  }
  return inputs;
}

}  // namespace

std::optional<Example> example_of_file(PyObject* file) {
  Example example;
  if (const Ref function = attribute(file, "inputs"); function && PyCallable_Check(function.get())) {
    const Ref made(PyObject_CallNoArgs(function.get()));
    if (!made) return std::nullopt;
    const bool is_by_name = PyDict_Check(made.get());
    example.keywords = is_by_name ? made : Ref(PyDict_New());
    example.args = is_by_name                       ? Ref(PyTuple_New(0))
                   : PyTuple_CheckExact(made.get()) ? made
                   : PyList_CheckExact(made.get())  ? Ref(PyList_AsTuple(made.get()))
                                                    : Ref(PyTuple_Pack(1, made.get()));
  } else if (function) {
    example.misused = std::string("of type ") + Py_TYPE(function.get())->tp_name;
  }
  if (const Ref shapes = attribute(file, "dynamic_shapes")) {
    example.dynamic_shapes = PyCallable_Check(shapes.get()) ? Ref(PyObject_CallNoArgs(shapes.get())) : shapes;
    if (!example.dynamic_shapes) return std::nullopt;
  }
  return example;
}

std::optional<Inputs> make_inputs(Session& session, const Example& example, PyObject* model, const Options& options) {
  return InputMaker(session, options).make(example, model);
}

}  // namespace atenon::capture
