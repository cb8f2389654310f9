// Factorisations of matrices, each of a stack of them by itself, in double, by Eigen. What is made of them (inverses,
// determinants, solutions, norms) is written in opsets/aten/linalg.ops.
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/extern_kernels.h"
#include "support/parallel.h"

namespace atenon::reference {
namespace {

using Results = Result<std::vector<Datum>>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

// The matrices of a tensor, by number, or vectors as matrices of one row.
class Stack {
 public:
  explicit Stack(const Tensor& tensor, size_t axes = 2) : tensor_(cast(tensor, ScalarType::f64).contiguous()) {
    const size_t rank = tensor_.sizes.size();
    columns_ = tensor_.sizes[rank - 1];
    if (axes == 2) rows_ = tensor_.sizes[rank - 2];
    for (size_t i = 0; i + axes < rank; ++i) count_ *= tensor_.sizes[i];
  }
  int64_t count() const { return count_; }
  Matrix get(int64_t number) const {
    return Eigen::Map<const Matrix>(tensor_.as<double>() + number * rows_ * columns_, rows_, columns_);
  }

 private:
  Tensor tensor_;
  int64_t rows_ = 1, columns_ = 0, count_ = 1;
};

// Writes the numbers behind those of the matrices, or vectors, before it.
template <class Numbers>
void put(Tensor& tensor, int64_t number, const Numbers& numbers) {
  const Matrix all = numbers;
  const int64_t size = all.size();
  for (int64_t i = 0; i < size; ++i) {
    if (tensor.dtype == ScalarType::f32)
      tensor.mutable_as<float>()[number * size + i] = static_cast<float>(all.data()[i]);
    else
      tensor.set(number * size + i, all.data()[i]);
  }
}

void put(Tensor& tensor, int64_t number, const std::vector<int64_t>& values) {
  const auto size = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < size; ++i) tensor.set_int(number * size + i, values[static_cast<size_t>(i)]);
}

// Taylor's series of a matrix that is halved until its rows sum to at most a half, squared as often.
Matrix exponential_of(Matrix a) {
  constexpr int terms = 18;  // 0.5^18 / 18! is below double's precision
  const double norm = a.size() == 0 ? 0 : a.cwiseAbs().rowwise().sum().maxCoeff();
  if (!a.allFinite() || !std::isfinite(norm))
    return Matrix::Constant(a.rows(), a.cols(), std::numeric_limits<double>::quiet_NaN());
  const int halvings = norm > 0.5 ? static_cast<int>(std::ceil(std::log2(norm / 0.5))) : 0;
  a *= std::ldexp(1, -halvings);
  Matrix sum = Matrix::Identity(a.rows(), a.cols()), term = sum;
  for (int n = 1; n <= terms; ++n) {
    term = (term * a / n).eval();
    sum += term;
  }
  for (int i = 0; i < halvings; ++i) sum = (sum * sum).eval();
  return sum;
}

struct SingularValues {
  Matrix u, v;
  Vector values;
};

SingularValues singular_values_of(const Matrix& a, bool full) {
  const int64_t m = a.rows(), n = a.cols(), k = std::min(m, n);
  if (k == 0 || !a.allFinite()) {
    const double number = k == 0 ? 0 : std::numeric_limits<double>::quiet_NaN();
    SingularValues none{Matrix::Constant(m, full ? m : k, number), Matrix::Constant(n, full ? n : k, number),
                        Vector::Constant(k, number)};
    if (k == 0) none.u.setIdentity(), none.v.setIdentity();
    return none;
  }
  const Eigen::BDCSVD<Matrix> svd(
      a, full ? Eigen::ComputeFullU | Eigen::ComputeFullV : Eigen::ComputeThinU | Eigen::ComputeThinV);
  return {svd.matrixU(), svd.matrixV(), svd.singularValues()};
}

}  // namespace

// (A): the lower factor, and for each matrix 0 or the order of the first minor that is not positive.
Results cholesky(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor lower = call.result(0), info = call.result(1);
  parallel_for(stack.count(), [&](int64_t b) {
    Matrix l = stack.get(b);
    int64_t failed = 0;
    for (int64_t i = 0; i < l.rows(); ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        const double rest = l(i, j) - l.row(i).head(j).dot(l.row(j).head(j));
        if (i == j && !(rest > 0) && failed == 0) failed = i + 1;
        l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
      }
      l.row(i).tail(l.cols() - i - 1).setZero();
    }
    put(lower, b, l);
    info.set_int(b, failed);
  });
  return std::vector<Datum>{lower, info};
}

// (A, pivot): L below the diagonal of one matrix and U above; with which row each was swapped, from 1 on; info as
// above.
Results lu(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor factors = call.result(0), pivots = call.result(1), info = call.result(2);
  const bool has_pivots = call.truth(1);
  parallel_for(stack.count(), [&](int64_t b) {
    Matrix a = stack.get(b);
    std::vector<int64_t> swaps;
    int64_t failed = 0;
    for (int64_t k = 0; k < std::min(a.rows(), a.cols()); ++k) {
      const int64_t below = a.rows() - k - 1, right = a.cols() - k - 1;
      int64_t best = k;
      for (int64_t i = k + 1; has_pivots && i < a.rows(); ++i)
        if (std::fabs(a(i, k)) > std::fabs(a(best, k))) best = i;
      swaps.push_back(best + 1);
      if (best != k) a.row(k).swap(a.row(best));
      if (a(k, k) == 0) {
        failed = failed ? failed : k + 1;
        continue;
      }
      a.col(k).tail(below) /= a(k, k);
      a.bottomRightCorner(below, right).noalias() -= a.col(k).tail(below) * a.row(k).tail(right);
    }
    put(factors, b, a);
    put(pivots, b, swaps);
    info.set_int(b, failed);
  });
  return std::vector<Datum>{factors, pivots, info};
}

// (pivots): where each row of the swapped matrix came from.
Results lu_order(const ExternCall& call) {
  const Tensor pivots = call.tensor(0).contiguous();
  Tensor result = call.result(0);
  const int64_t k = pivots.sizes.back(), n = result.sizes.back();
  const int64_t count = n == 0 ? 0 : result.numel() / n;
  for (int64_t b = 0; b < count; ++b) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = 0; i < k; ++i) {
      const int64_t with = pivots.int_at(b * k + i) - 1;
      if (with < 0 || with >= n)
        return error(Status::violated, 611, "pivot " + std::to_string(with + 1) + " names no row");
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(with)]);
    }
    put(result, b, order);
  }
  return std::vector<Datum>{result};
}

// (A, B, upper, unitriangular): X with AX = B.
Results solve_triangular(const ExternCall& call) {
  const Stack left(call.tensor(0)), right(call.tensor(1));
  const bool upper = call.truth(2), unit = call.truth(3);
  Tensor result = call.result(0);
  parallel_for(left.count(), [&](int64_t b) {
    const Matrix a = left.get(b);
    Matrix x = right.get(b);
    if (upper && unit)
      a.triangularView<Eigen::UnitUpper>().solveInPlace(x);
    else if (upper)
      a.triangularView<Eigen::Upper>().solveInPlace(x);
    else if (unit)
      a.triangularView<Eigen::UnitLower>().solveInPlace(x);
    else
      a.triangularView<Eigen::Lower>().solveInPlace(x);
    put(result, b, x);
  });
  return std::vector<Datum>{result};
}

// (A, complete): Q and R.
Results qr(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor left = call.result(0), right = call.result(1);
  const bool complete = call.truth(1);
  parallel_for(stack.count(), [&](int64_t b) {
    const Matrix a = stack.get(b);
    const int64_t k = complete ? a.rows() : std::min(a.rows(), a.cols());
    const Eigen::HouseholderQR<Matrix> factors(a);
    Matrix q = Matrix::Identity(a.rows(), k);
    q.applyOnTheLeft(factors.householderQ());
    put(left, b, q);
    put(right, b, Matrix(factors.matrixQR().triangularView<Eigen::Upper>()).topRows(k));
  });
  return std::vector<Datum>{left, right};
}

Results matrix_exp(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor result = call.result(0);
  parallel_for(stack.count(), [&](int64_t b) { put(result, b, exponential_of(stack.get(b))); });
  return std::vector<Datum>{result};
}

// LAPACK's form: R above, and below it the reflectors I - tau v v' (v has 1 on the diagonal), with their tau.
Results geqrf(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor factors = call.result(0), scales = call.result(1);
  parallel_for(stack.count(), [&](int64_t b) {
    const Eigen::HouseholderQR<Matrix> found(stack.get(b));
    put(factors, b, found.matrixQR());
    put(scales, b, found.hCoeffs());
  });
  return std::vector<Datum>{factors, scales};
}

// (A, tau): the first columns of the product of reflectors, as many as there are in A.
Results householder_product(const ExternCall& call) {
  const Stack stack(call.tensor(0)), scales(call.tensor(1), 1);
  Tensor result = call.result(0);
  parallel_for(stack.count(), [&](int64_t b) {
    const Matrix a = stack.get(b);
    const Vector tau = scales.get(b).row(0);
    Matrix q = Matrix::Identity(a.rows(), a.cols());
    q.applyOnTheLeft(Eigen::householderSequence(a.leftCols(tau.size()), tau));
    put(result, b, q);
  });
  return std::vector<Datum>{result};
}

// (A, lower): eigenvalues, ascending, and eigenvectors, in columns, by one triangle.
Results eigh(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor values = call.result(0), vectors = call.result(1);
  const bool lower = call.truth(1);
  parallel_for(stack.count(), [&](int64_t b) {
    Matrix a = stack.get(b);
    if (!lower) a.transposeInPlace();
    if (a.size() == 0) return;
    const Matrix seen = a.triangularView<Eigen::Lower>();
    if (!seen.allFinite()) {
      put(values, b, Vector::Constant(a.rows(), std::numeric_limits<double>::quiet_NaN()));
      put(vectors, b, Matrix::Constant(a.rows(), a.cols(), std::numeric_limits<double>::quiet_NaN()));
      return;
    }
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(seen);
    put(values, b, solver.eigenvalues());
    put(vectors, b, solver.eigenvectors());
  });
  return std::vector<Datum>{values, vectors};
}

// (A, full): U, S, descending, and V transposed.
Results svd(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor u = call.result(0), s = call.result(1), v = call.result(2);
  const bool full = call.truth(1);
  parallel_for(stack.count(), [&](int64_t b) {
    const SingularValues found = singular_values_of(stack.get(b), full);
    put(u, b, found.u);
    put(s, b, found.values);
    put(v, b, found.v.transpose());
  });
  return std::vector<Datum>{u, s, v};
}

}  // namespace atenon::reference
