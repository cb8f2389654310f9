// See leaves.h.
#include "run/leaves.h"

#include <algorithm>
#include <charconv>

#include "tensor/real_parts.h"
#include "text/text.h"

namespace atenon::run {

std::optional<size_t> find_leaf(const std::vector<Leaf>& leaves, const std::string& name) {
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].path == name) return i;
  size_t position = 0;
  auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), position);
  if (failure == std::errc() && end == name.data() + name.size() && position < leaves.size()) return position;
  return std::nullopt;
}

std::vector<std::string> leaf_names(const std::vector<Leaf>& leaves) {
  std::vector<std::string> names;
  for (size_t i = 0; i < leaves.size(); ++i)
    names.push_back(leaves[i].path.empty() ? std::to_string(i) : leaves[i].path);
  return names;
}

bool is_countable(ScalarType dtype, std::span<const int64_t> sizes) {
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  for (const int64_t size : sizes)  // an empty tensor has strides, too
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) return false;
  return true;
}

ir::ScalarKind kind_of_constant(const ir::Argument& constant) {
  return constant.is<ir::SymFloat>()  ? ir::ScalarKind::floating
         : constant.is<ir::SymBool>() ? ir::ScalarKind::boolean
                                      : ir::ScalarKind::integer;
}

std::optional<Datum> number_of(const ir::Argument& argument, const shape::Bindings& symbols) {
  const auto evaluated = [&](const auto& expression) -> std::optional<Datum> {
    const auto number = shape::evaluate(expression, symbols);
    return number ? std::optional<Datum>(*number) : std::nullopt;
  };
  if (argument.is<ir::SymInt>()) return evaluated(argument.get<ir::SymInt>());
  if (argument.is<ir::SymFloat>()) return evaluated(argument.get<ir::SymFloat>());
  if (argument.is<ir::SymBool>()) return evaluated(argument.get<ir::SymBool>());
  return std::nullopt;
}

Result<Datum> output_of(const ir::Argument& constant, const shape::Bindings& symbols) {
  if (std::optional<Datum> number = number_of(constant, symbols)) return std::move(*number);
  if (!constant.is<ir::SymInt>() && !constant.is<ir::SymFloat>() && !constant.is<ir::SymBool>())
    return Datum(int64_t{0});
  return error(Status::violated, 632, "the number " + text::print(constant) + " has no value");
}

std::optional<Datum> number_of(const Tensor& tensor, ir::ScalarKind kind) {
  if (tensor.numel() != 1 || is_complex(tensor.dtype)) return std::nullopt;
  if (kind == ir::ScalarKind::floating) return tensor.float_at(0);
  if (is_floating(tensor.dtype)) return std::nullopt;
  if (kind == ir::ScalarKind::boolean) return tensor.int_at(0) != 0;
  return tensor.int_at(0);
}

void store_number(const Datum& number, Tensor& into) {
  if (const int64_t* integer = std::get_if<int64_t>(&number))
    into.set_int(0, *integer);
  else if (const double* real = std::get_if<double>(&number))
    into.set(0, *real);
  else if (const bool* truth = std::get_if<bool>(&number))
    into.set(0, *truth);
}

Tensor tensor_of(const Datum& value) {
  if (const Tensor* tensor = std::get_if<Tensor>(&value)) return *tensor;
  Tensor made = Tensor::empty(std::holds_alternative<int64_t>(value)  ? ScalarType::i64
                              : std::holds_alternative<double>(value) ? ScalarType::f64
                                                                      : ScalarType::boolean,
                              {});
  store_number(value, made);
  return made;
}

Tensor in_reals(const Tensor& tensor) { return as_parts(tensor.contiguous()); }

}  // namespace atenon::run
