// The Python types of symbolic numbers, and numbers of Python as symbolic ones.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "capture/python.h"
#include "reference/reference.h"
#include "shape/facts.h"
#include "shape/symint.h"

namespace atenon::capture {

class Session;

bool add_symbol_types(Session& session);  // false with a Python exception

// int, SymInt, or anything with __index__ that is no tensor; nullopt, without an exception, for all else.
std::optional<shape::SymInt> integer_of(PyObject* object);
// The same for numbers that may be floating.
std::optional<shape::SymFloat> float_of(PyObject* object);

// What an integer of this type can be.
shape::Range range_of(ScalarType type);

// A computed number as Python's own.
Ref number_object(const reference::Datum& number);

// What the user would write so that sizes are numbers: "x[0] static, which is 3 in the example". Empty where data
// decide.
std::string static_specification(const Session& session, const std::set<std::string>& symbols);
// What to write in place of a loop of Python's whose rounds a symbolic size counts.
inline constexpr const char* instead_of_loop =
    "torch.vmap(f)(x) computes f of every row at once, torch._higher_order_ops.scan(step, state, x) hands a state from "
    "row to row";

// torch.sym_min and its like: min, max, float, int, sqrt, exp, log, log2.
PyObject* symbolic_function(Session& session, const std::string& name, PyObject* const* args, size_t count);

}  // namespace atenon::capture
