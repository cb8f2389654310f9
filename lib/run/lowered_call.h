// What lower wrote on a call, as numbers: the same for calls that are planned once and for those that the interpreter
// prepares as sizes become known.
#pragma once

#include "ir/program.h"
#include "kernels/kernel.h"

namespace atenon::run {

// Item i of a list annotation; null where the annotation or the item is absent.
const ir::Argument* item(const ir::Node& node, const char* name, size_t i);

std::optional<int64_t> integer(const ir::Argument& argument, const shape::Bindings& symbols);

// The bytes from the first element to the last, both included; nullopt for strides that no tensor has.
std::optional<int64_t> extent(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, ScalarType dtype);

// Sizes and strides of result i by its type and lower's annotations, without a storage; nullopt where they do not
// follow from `symbols`.
std::optional<Tensor> geometry_of(const ir::Node& node, size_t i, const shape::Bindings& symbols);

// A tensor in rows that has no elements: for who looks at its type alone.
Tensor outline(ScalarType dtype, std::vector<int64_t> sizes);

// How many of its own elements into `whole` an alias of it begins; nullopt where it reaches beyond, or sees elements of
// another type, other than complex numbers as their parts and back. Of both only the geometry counts.
std::optional<int64_t> offset_of_alias(const ir::Node& node, const Tensor& whole, const Tensor& view,
                                       const shape::Bindings& symbols);

// The file may say anything: kernels rely on a body that they take, with operands of the types that it names. E0617,
// E0619.
Result<void> check_call(const kernels::Kernel& kernel, const kernels::CallSite& site, const ir::Node& node);

// An operand whose elements are indices: each lies in [lowest, end).
struct Indices {
  size_t operand = 0;
  int64_t lowest = 0, end = 0;
  Tensor geometry;                               // of the operand, or of its one element looked at, without a storage
  const ir::Node* reader = nullptr;              // the node of the call's body that looks up; null if it is not said
  const ir::ExportedProgram* program = nullptr;  // that has it
};

// What the call's annotation `indices` says (lower/find_indices.cpp). E0617.
Result<std::vector<Indices>> indices_of(const ir::ExportedProgram& program, const ir::Node& call,
                                        const kernels::CallSite& site);

// E0611 where an index is out of range.
Result<void> check_indices(const std::vector<Indices>& all, std::span<void* const> buffers);

}  // namespace atenon::run
