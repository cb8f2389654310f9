// Operators whose meaning no loop says: C++ kernels, by the name after `extern` in a block.
#pragma once

#include <string>
#include <vector>

#include "reference/reference.h"

namespace atenon::reference {

// One call of a kernel: its arguments at concrete sizes, and the types of its results (sizes that depend on data are
// left open).
struct ExternCall {
  const std::vector<ir::Argument>& arguments;
  const std::map<const ir::Value*, Datum>& values;
  const std::vector<ir::Type>& types;
  Generator* generator = nullptr;

  bool has(size_t i) const { return i < arguments.size() && !arguments[i].is<ir::None>(); }
  const Tensor& tensor(size_t i) const { return std::get<Tensor>(values.at(arguments[i].value())); }
  std::vector<Tensor> tensors(size_t i) const;
  int64_t integer(size_t i) const;
  double number(size_t i) const;
  bool truth(size_t i) const;
  std::string text(size_t i) const;
  ScalarType dtype(size_t i) const { return arguments[i].get<ScalarType>(); }
  // The type of result i, whose sizes must be known.
  Tensor result(size_t i) const;
};

using ExternKernel = Result<std::vector<Datum>> (*)(const ExternCall& call);

// Null if there is none of that name.
ExternKernel find_extern_kernel(const std::string& name);

// By subject, one file each.
Result<std::vector<Datum>> lstm(const ExternCall& call);
Result<std::vector<Datum>> gru(const ExternCall& call);
Result<std::vector<Datum>> rnn_tanh(const ExternCall& call);
Result<std::vector<Datum>> rnn_relu(const ExternCall& call);
Result<std::vector<Datum>> ctc_loss(const ExternCall& call);
Result<std::vector<Datum>> fourier(const ExternCall& call);
Result<std::vector<Datum>> real_fourier(const ExternCall& call);
Result<std::vector<Datum>> cholesky(const ExternCall& call);
Result<std::vector<Datum>> lu(const ExternCall& call);
Result<std::vector<Datum>> lu_order(const ExternCall& call);
Result<std::vector<Datum>> solve_triangular(const ExternCall& call);
Result<std::vector<Datum>> qr(const ExternCall& call);
Result<std::vector<Datum>> matrix_exp(const ExternCall& call);
Result<std::vector<Datum>> geqrf(const ExternCall& call);
Result<std::vector<Datum>> householder_product(const ExternCall& call);
Result<std::vector<Datum>> eigh(const ExternCall& call);
Result<std::vector<Datum>> eig(const ExternCall& call);
Result<std::vector<Datum>> svd(const ExternCall& call);
Result<std::vector<Datum>> uniform(const ExternCall& call);
Result<std::vector<Datum>> normal(const ExternCall& call);
Result<std::vector<Datum>> exponential(const ExternCall& call);
Result<std::vector<Datum>> randint(const ExternCall& call);
Result<std::vector<Datum>> random_all(const ExternCall& call);
Result<std::vector<Datum>> bernoulli(const ExternCall& call);
Result<std::vector<Datum>> randperm(const ExternCall& call);

}  // namespace atenon::reference
