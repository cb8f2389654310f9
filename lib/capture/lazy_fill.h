// Contents that are not made before somebody reads them: random draws, zeros, ones.
//
// A draw takes a snapshot of its generator and moves the generator on as far as the draw will go; the numbers are made
// when the storage is read, on whatever thread reads it. Initialisation that is overwritten unread costs nearly
// nothing.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

bool add_generator_type(Session& session);  // Generator, and the default one; false with a Python exception

// A tensor all of whose elements are `value`.
Tensor lazy_tensor(ScalarType dtype, std::vector<int64_t> sizes, double value);

// While tracing, random operators are recorded, and the run's generator is the only one. False with E0314 where the
// call names another.
bool draws_with_the_run(Session& session, PyObject* generator);

// What a call draws from: `generator`, or the default one where that is None. Null with a Python exception.
Generator* chosen(Session& session, PyObject* generator);
// A random operator that draws from one distribution over a real tensor (uniform_, normal_, ...); nullopt of all
// others, false with a Python exception.
std::optional<bool> draw_over(Session& session, const opset::Call& call, TensorObject& target, PyObject* generator);
// uniform_, normal_, bernoulli_, exponential_ with their two numbers, over all of a tensor.
bool draw_distribution(Session& session, PyObject* target, const std::string& distribution, double a, double b,
                       PyObject* generator);
// random_(low, high); high may be None.
bool draw_integers(Session& session, PyObject* target, PyObject* low, PyObject* high, PyObject* generator);

// A constant content for zeros, ones, full and their like, and on the meta device for all; nullopt for other operators.
std::optional<Tensor> filled(const opset::Call& call, const std::vector<ir::Type>& types, bool is_meta);
// fill_, zero_ and copy_ over a real tensor; false for all other operators, and where the reference must explain why
// not.
bool fill_over(TensorObject& target, const opset::Call& call, const reference::Environment& environment);

}  // namespace atenon::capture
