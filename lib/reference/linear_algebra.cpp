// Factorisations of matrices, each of a stack of them by itself, in double, by Eigen. What is made of them (inverses,
// determinants, solutions, norms) is written in opsets/aten/linalg.ops.
#include <Eigen/Dense>
#include <algorithm>
#include <cassert>
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

// A result, into which matrices, or vectors, are put by number, by any thread.
class Output {
 public:
  Output(const ExternCall& call, size_t i) : tensor_(call.result(i)), data_(tensor_.mutable_data()) {}
  const Tensor& tensor() const { return tensor_; }

  void put(int64_t number, const Matrix& matrix) { put(number, matrix.data(), matrix.size()); }
  void put(int64_t number, const std::vector<int64_t>& values) {
    put(number, values.data(), static_cast<int64_t>(values.size()));
  }

 private:
  template <class Number>
  void put(int64_t number, const Number* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) write(number * count + i, values[i]);
  }
  template <class Number>
  void write(int64_t at, Number value) {
    switch (tensor_.dtype) {
      case ScalarType::f32:
        static_cast<float*>(data_)[at] = static_cast<float>(value);
        break;
      case ScalarType::f64:
        static_cast<double*>(data_)[at] = static_cast<double>(value);
        break;
      case ScalarType::i32:
        static_cast<int32_t*>(data_)[at] = static_cast<int32_t>(value);
        break;
      case ScalarType::i64:
        static_cast<int64_t*>(data_)[at] = static_cast<int64_t>(value);
        break;
      default:
        assert(false);
    }
  }

  Tensor tensor_;
  void* data_;
};

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

// Whether the columns are, by what they make of one vector.
bool are_orthonormal(const Matrix& columns) {
  constexpr double tolerance = 1e-9;
  Vector x(columns.cols());
  for (int64_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i + 1));
  return (columns.transpose() * (columns * x) - x).norm() <= tolerance * x.norm();
}

SingularValues singular_values_of(const Matrix& a, bool full) {
  const int64_t m = a.rows(), n = a.cols(), k = std::min(m, n);
  if (k == 0 || !a.allFinite()) {
    const double number = k == 0 ? 0 : std::numeric_limits<double>::quiet_NaN();
    SingularValues none{Matrix::Constant(m, full ? m : k, number), Matrix::Constant(n, full ? n : k, number),
                        Vector::Constant(k, number)};
    if (k == 0) none.u.setIdentity(), none.v.setIdentity();
    return none;
  }
  const auto factored = [&]<class Factors>() {
    const Factors svd(a, full ? Eigen::ComputeFullU | Eigen::ComputeFullV : Eigen::ComputeThinU | Eigen::ComputeThinV);
    return SingularValues{svd.matrixU(), svd.matrixV(), svd.singularValues()};
  };
  // Divide and conquer gives wrong vectors for some matrices of lower rank; rotations take longer, and do not.
  const SingularValues fast = factored.operator()<Eigen::BDCSVD<Matrix>>();
  if (are_orthonormal(fast.u) && are_orthonormal(fast.v)) return fast;
  return factored.operator()<Eigen::JacobiSVD<Matrix>>();
}

}  // namespace

// (A): the lower factor, and for each matrix 0 or the order of the first minor that is not positive.
Results cholesky(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Output lower(call, 0), info(call, 1);
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
    lower.put(b, l);
    info.put(b, std::vector<int64_t>{failed});
  });
  return std::vector<Datum>{lower.tensor(), info.tensor()};
}

// (A, pivot): L below the diagonal of one matrix and U above; with which row each was swapped, from 1 on; info as
// above.
Results lu(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Output factors(call, 0), pivots(call, 1), info(call, 2);
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
    factors.put(b, a);
    pivots.put(b, swaps);
    info.put(b, std::vector<int64_t>{failed});
  });
  return std::vector<Datum>{factors.tensor(), pivots.tensor(), info.tensor()};
}

// (pivots): where each row of the swapped matrix came from.
Results lu_order(const ExternCall& call) {
  const Tensor pivots = call.tensor(0).contiguous();
  Output result(call, 0);
  const int64_t k = pivots.sizes.back(), n = result.tensor().sizes.back();
  const int64_t count = n == 0 ? 0 : result.tensor().numel() / n;
  for (int64_t b = 0; b < count; ++b) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = 0; i < k; ++i) {
      const int64_t with = pivots.int_at(b * k + i) - 1;
      if (with < 0 || with >= n)
        return error(Status::violated, 611, "pivot " + std::to_string(with + 1) + " names no row");
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(with)]);
    }
    result.put(b, order);
  }
  return std::vector<Datum>{result.tensor()};
}

// (A, B, upper, unitriangular): X with AX = B.
Results solve_triangular(const ExternCall& call) {
  const Stack left(call.tensor(0)), right(call.tensor(1));
  const bool upper = call.truth(2), unit = call.truth(3);
  Output result(call, 0);
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
    result.put(b, x);
  });
  return std::vector<Datum>{result.tensor()};
}

// (A, complete): Q and R.
Results qr(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Output left(call, 0), right(call, 1);
  const bool complete = call.truth(1);
  parallel_for(stack.count(), [&](int64_t b) {
    const Matrix a = stack.get(b);
    const int64_t k = complete ? a.rows() : std::min(a.rows(), a.cols());
    const Eigen::HouseholderQR<Matrix> factors(a);
    Matrix q = Matrix::Identity(a.rows(), k);
    q.applyOnTheLeft(factors.householderQ());
    left.put(b, q);
    right.put(b, Matrix(factors.matrixQR().triangularView<Eigen::Upper>()).topRows(k));
  });
  return std::vector<Datum>{left.tensor(), right.tensor()};
}

Results matrix_exp(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Output result(call, 0);
  parallel_for(stack.count(), [&](int64_t b) { result.put(b, exponential_of(stack.get(b))); });
  return std::vector<Datum>{result.tensor()};
}

// LAPACK's form: R above, and below it the reflectors I - tau v v' (v has 1 on the diagonal), with their tau.
Results geqrf(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Output factors(call, 0), scales(call, 1);
  parallel_for(stack.count(), [&](int64_t b) {
    const Eigen::HouseholderQR<Matrix> found(stack.get(b));
    factors.put(b, found.matrixQR());
    scales.put(b, found.hCoeffs());
  });
  return std::vector<Datum>{factors.tensor(), scales.tensor()};
}

// (A, tau): the first columns of the product of reflectors, as many as there are in A.
Results householder_product(const ExternCall& call) {
  const Stack stack(call.tensor(0)), scales(call.tensor(1), 1);
  Output result(call, 0);
  parallel_for(stack.count(), [&](int64_t b) {
    const Matrix a = stack.get(b);
    const Vector tau = scales.get(b).row(0);
    Matrix q = Matrix::Identity(a.rows(), a.cols());
    q.applyOnTheLeft(Eigen::householderSequence(a.leftCols(tau.size()), tau));
    result.put(b, q);
  });
  return std::vector<Datum>{result.tensor()};
}

// (A, lower): eigenvalues, ascending, and eigenvectors, in columns, by one triangle.
Results eigh(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Output values(call, 0), vectors(call, 1);
  const bool lower = call.truth(1);
  parallel_for(stack.count(), [&](int64_t b) {
    Matrix a = stack.get(b);
    if (!lower) a.transposeInPlace();
    if (a.size() == 0) return;
    const Matrix seen = a.triangularView<Eigen::Lower>();
    if (!seen.allFinite()) {
      values.put(b, Vector::Constant(a.rows(), std::numeric_limits<double>::quiet_NaN()));
      vectors.put(b, Matrix::Constant(a.rows(), a.cols(), std::numeric_limits<double>::quiet_NaN()));
      return;
    }
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(seen);
    values.put(b, solver.eigenvalues());
    vectors.put(b, solver.eigenvectors());
  });
  return std::vector<Datum>{values.tensor(), vectors.tensor()};
}

// (A, full): U, S, descending, and V transposed.
Results svd(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Output u(call, 0), s(call, 1), v(call, 2);
  const bool full = call.truth(1);
  parallel_for(stack.count(), [&](int64_t b) {
    const SingularValues found = singular_values_of(stack.get(b), full);
    u.put(b, found.u);
    s.put(b, found.values);
    v.put(b, found.v.transpose());
  });
  return std::vector<Datum>{u.tensor(), s.tensor(), v.tensor()};
}

}  // namespace atenon::reference
