// Leaves of inputs and outputs by name, and numbers as tensors of rank 0.
#pragma once

#include "run/engine.h"

namespace atenon::run {

// By pytree path; a bare number that names no leaf is a position in flattened order.
std::optional<size_t> find_leaf(const std::vector<Leaf>& leaves, const std::string& name);
// `x`, or "0" for a lone leaf without a name.
std::vector<std::string> leaf_names(const std::vector<Leaf>& leaves);

// Whether an int64 can count the bytes of such a tensor, and no size is negative.
bool is_countable(ScalarType dtype, std::span<const int64_t> sizes);

// What kind of number a constant is; None and texts, which are none, count as integers.
ir::ScalarKind kind_of_constant(const ir::Argument& constant);
// The number that an argument is at these sizes; nullopt where that is not known, or it is none.
std::optional<Datum> number_of(const ir::Argument& argument, const shape::Bindings& symbols);
// The same; an error where it is a number beyond 64 bits, or of a division by zero. What is none is 0.
Result<Datum> output_of(const ir::Argument& constant, const shape::Bindings& symbols);
// The number that a tensor holds; nullopt unless it is one element, of a type that says this kind exactly.
std::optional<Datum> number_of(const Tensor& tensor, ir::ScalarKind kind);
void store_number(const Datum& number, Tensor& into);
Tensor tensor_of(const Datum& value);  // a number becomes i64, f64 or bool
// In rows, a complex number as two along a last axis more.
Tensor in_reals(const Tensor& tensor);

}  // namespace atenon::run
