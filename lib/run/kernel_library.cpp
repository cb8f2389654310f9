#include "run/kernel_library.h"

#include <cstring>
#include <deque>

#include "run/atenon_kernel.h"

namespace atenon::run {
namespace {

using ir::Argument;
using reference::Datum;

using Function = const char*(atenon_kernel_call*);

// my::squash.Tensor is computed by my__squash__Tensor.
std::string symbol_of(const std::string& target) {
  std::string symbol;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == '.' || target[i] == ':')
      symbol += target[i] == '.' ? "__" : "_";
    else
      symbol += target[i];
  }
  return symbol;
}

atenon_tensor border_of(const Tensor& tensor) {
  return {static_cast<atenon_dtype>(tensor.dtype), static_cast<int>(tensor.sizes.size()), tensor.sizes.data(),
          const_cast<void*>(static_cast<const void*>(tensor.data()))};
}

// One call: the arguments and results as C sees them, and the memory behind them.
class LibraryCall : public atenon_kernel_call {
 public:
  LibraryCall(const ir::Node& node, const opset::Call& call, const reference::Environment& environment)
      : atenon_kernel_call{}, node_(node), call_(call), environment_(environment) {}

  Result<std::vector<Datum>> run(Function* function) {
    if (Result<void> ready = take_arguments(); !ready) return ready.error();
    if (Result<void> ready = take_results(); !ready) return ready.error();
    if (const char* reason = function(this)) return failure("says: " + std::string(reason));
    std::vector<Datum> given;
    for (size_t i = 0; i < returned_.size(); ++i) {
      if (!returned_[i].storage)
        return failure("made no room for result " + std::to_string(i) + ": call->allocate(call, " + std::to_string(i) +
                       ", sizes)");
      given.push_back(datum(*node_.result(i), returned_[i]));
    }
    for (const size_t i : call_.op->schema().updated())
      for (const Tensor* tensor : written_[i]) given.push_back(*tensor);
    return given;
  }

 private:
  Diagnostic failure(const std::string& what) const {
    return error(Status::unsupported, 627, "the kernel of " + node_.target() + " " + what);
  }

  // An argument that is updated is a copy: a program's values never change.
  Result<atenon_argument> border_of_argument(const Argument& argument, size_t parameter) {
    atenon_argument out{};
    if (const ir::Value* value = argument.value()) {
      const Datum& datum = environment_.values.at(value);
      const Tensor rows = std::get<Tensor>(datum).contiguous();
      Tensor& tensor = tensors_.emplace_back(rows);
      if (call_.op->schema().parameters[parameter].type.mutated) {
        tensor = Tensor::empty(rows.dtype, rows.sizes);
        if (rows.nbytes() > 0) std::memcpy(tensor.mutable_data(), rows.data(), rows.nbytes());
        written_[parameter].push_back(&tensor);
      }
      out.kind = ATENON_TENSOR;
      out.tensor = border_of(tensor);
    } else if (argument.is<ir::SymInt>()) {
      out.kind = ATENON_INT;
      out.integer = argument.get<ir::SymInt>().constant().value();
    } else if (argument.is<ir::SymBool>()) {
      out.kind = ATENON_INT;
      out.integer = argument.get<ir::SymBool>().constant().value();
    } else if (argument.is<ScalarType>()) {
      out.kind = ATENON_INT;
      out.integer = static_cast<int64_t>(argument.get<ScalarType>());
    } else if (argument.is<ir::SymFloat>()) {
      out.kind = ATENON_FLOAT;
      out.number = argument.get<ir::SymFloat>().constant().value();
    } else if (argument.is<std::string>()) {
      out.kind = ATENON_TEXT;
      out.text = argument.get<std::string>().c_str();
    } else if (argument.is<ir::ArgumentList>()) {
      out.kind = ATENON_LIST;
      std::vector<atenon_argument>& items = lists_.emplace_back();
      for (const Argument& item : argument.get<ir::ArgumentList>()) {
        Result<atenon_argument> made = border_of_argument(item, parameter);
        if (!made) return made;
        items.push_back(*made);
      }
      out.items = items.data();
      out.count = items.size();
    } else if (!argument.is<ir::None>()) {
      return failure("cannot be given its argument '" + call_.op->schema().parameters[parameter].name +
                     "': kernels take tensors, numbers, texts, dtypes and lists");
    }
    return out;
  }

  Result<void> take_arguments() {
    written_.resize(call_.arguments.size());
    for (size_t i = 0; i < call_.arguments.size(); ++i) {
      Result<atenon_argument> made = border_of_argument(call_.arguments[i], i);
      if (!made) return made.error();
      given_.push_back(*made);
    }
    arguments = given_.data();
    argument_count = given_.size();
    return {};
  }

  // The tensor that a return is, where it is an updated argument.
  const Tensor* updated_argument(const opset::Return& expected) const {
    const auto& parameters = call_.op->schema().parameters;
    for (size_t i = 0; expected.type.mutated && i < parameters.size(); ++i)
      if (parameters[i].type.mutated && parameters[i].type.alias == expected.type.alias && !written_[i].empty())
        return written_[i][0];
    return nullptr;
  }

  Result<void> take_results() {
    size_t updates = 0;
    for (const size_t i : call_.op->schema().updated()) updates += written_[i].size();
    if (node_.results().size() < updates) return failure("has fewer results than arguments that it updates");
    const size_t count = node_.results().size() - updates;
    const auto& returns = call_.op->schema().returns;
    for (size_t i = 0; i < count; ++i) {
      const Tensor* updated = returns.size() == count ? updated_argument(returns[i]) : nullptr;
      returned_.push_back(updated ? *updated : room_for(*node_.result(i)));
    }
    for (const Tensor& tensor : returned_)
      results_.push_back(tensor.storage
                             ? border_of(tensor)
                             : atenon_tensor{static_cast<atenon_dtype>(tensor.dtype),
                                             static_cast<int>(tensor.sizes.size()), tensor.sizes.data(), nullptr});
    results = results_.data();
    result_count = results_.size();
    allocate = [](atenon_kernel_call* call, size_t i, const int64_t* sizes) {
      return static_cast<LibraryCall*>(call)->make_room(i, sizes);
    };
    return {};
  }

  // Without storage, and of size -1, where only the kernel knows.
  Tensor room_for(const ir::Value& value) const {
    if (!value.is_tensor()) {
      const auto kind = std::get<ir::ScalarKind>(value.type);
      return Tensor::zeros(kind == ir::ScalarKind::integer    ? ScalarType::i64
                           : kind == ir::ScalarKind::floating ? ScalarType::f64
                                                              : ScalarType::boolean,
                           {});
    }
    Tensor tensor{value.meta().dtype, {}, {}, 0, nullptr};
    bool is_known = true;
    for (const ir::SymInt& size : value.meta().sizes) {
      tensor.sizes.push_back(shape::evaluate(size, environment_.symbols).value_or(-1));
      is_known = is_known && tensor.sizes.back() >= 0;
    }
    return is_known ? Tensor::zeros(tensor.dtype, tensor.sizes) : tensor;
  }

  void* make_room(size_t i, const int64_t* sizes) {
    if (i >= returned_.size()) return nullptr;
    Tensor& tensor = returned_[i];
    for (size_t axis = 0; axis < tensor.sizes.size(); ++axis)
      if (sizes[axis] < 0 || (tensor.sizes[axis] >= 0 && tensor.sizes[axis] != sizes[axis])) return nullptr;
    tensor = Tensor::zeros(tensor.dtype, {sizes, sizes + tensor.sizes.size()});
    results_[i] = border_of(tensor);
    return results_[i].data;
  }

  static Datum datum(const ir::Value& value, const Tensor& tensor) {
    if (value.is_tensor()) return tensor;
    const auto kind = std::get<ir::ScalarKind>(value.type);
    if (kind == ir::ScalarKind::integer) return *static_cast<const int64_t*>(tensor.data());
    if (kind == ir::ScalarKind::floating) return *static_cast<const double*>(tensor.data());
    return *static_cast<const uint8_t*>(tensor.data()) != 0;
  }

  const ir::Node& node_;
  const opset::Call& call_;
  const reference::Environment& environment_;
  std::deque<Tensor> tensors_;                      // that arguments point to
  std::deque<std::vector<atenon_argument>> lists_;  // likewise
  std::vector<atenon_argument> given_;
  std::vector<std::vector<const Tensor*>> written_;  // by parameter
  std::vector<Tensor> returned_;
  std::vector<atenon_tensor> results_;
};

}  // namespace

Result<std::unique_ptr<KernelLibraries>> KernelLibraries::open(const std::vector<ir::CodeSegment>& segments) {
  auto libraries = std::make_unique<KernelLibraries>();
  for (const ir::CodeSegment& segment : segments) {
    if (!segment.is_library) continue;
    const auto refuse = [&](const std::string& why) {
      return error(Status::unsupported, 626, "the library of kernels '" + segment.name + "': " + why);
    };
    const void* bytes = segment.bytes ? segment.bytes->data() : nullptr;
    if (!bytes) return refuse("its bytes are absent");
    auto object = SharedObject::open(segment.name, bytes, segment.bytes->size());
    if (!object) return refuse(object.failure().message);
    const auto* version = static_cast<const int*>((*object)->find("atenon_kernel_version"));
    if (!version)
      return refuse("it does not export atenon_kernel_version")
          .note("fix: #include <atenon_kernel.h>, and ATENON_KERNEL_LIBRARY in one file");
    if (*version != ATENON_KERNEL_VERSION)
      return refuse("it was built for version " + std::to_string(*version) +
                    " of atenon_kernel.h, and this is version " + std::to_string(ATENON_KERNEL_VERSION))
          .note("fix: build it again with the header of this version");
    libraries->libraries_.push_back({segment.name, *object});
  }
  return libraries;
}

Result<std::optional<std::vector<Datum>>> KernelLibraries::call(const ir::Node& node, const opset::Call& call,
                                                                const reference::Environment& environment) const {
  const std::string symbol = symbol_of(node.target());
  for (const Library& library : libraries_)
    if (auto* function = reinterpret_cast<Function*>(library.object->find(symbol))) {
      Result<std::vector<Datum>> results = LibraryCall(node, call, environment).run(function);
      if (!results) return std::move(results.error()).note("it is " + symbol + " in " + library.name);
      return std::optional(std::move(*results));
    }
  if (libraries_.empty()) return std::optional<std::vector<Datum>>();
  Diagnostic missing = error(Status::unsupported, 626, "no library of kernels computes " + node.target());
  for (const Library& library : libraries_) missing.notes.push_back({library.name + " exports no " + symbol});
  return missing;
}

}  // namespace atenon::run
