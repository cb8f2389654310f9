// Factorisations of real and complex matrices, each of a stack of them by itself, in double, by Eigen. What is made of
// them (inverses, determinants, solutions, norms) is written in opsets/aten/linalg.ops.
#include <Eigen/Dense>
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>

#include "reference/extern_kernels.h"
#include "support/parallel.h"
#include "tensor/elements.h"

namespace atenon::reference {
namespace {

using Results = Result<std::vector<Datum>>;
using Complex = std::complex<double>;
template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Calls `visit` with what the tensor's elements are computed in.
template <class Visit>
Results visit_double(const Tensor& tensor, Visit visit) {
  return is_complex(tensor.dtype) ? visit(Complex()) : visit(double());
}

// The matrices of a tensor, by number, or vectors as matrices of one row.
template <class T>
class Stack {
 public:
  explicit Stack(const Tensor& tensor, size_t axes = 2)
      : tensor_(cast(tensor, is_complex_type<T> ? ScalarType::c128 : ScalarType::f64).contiguous()) {
    const size_t rank = tensor_.sizes.size();
    columns_ = tensor_.sizes[rank - 1];
    if (axes == 2) rows_ = tensor_.sizes[rank - 2];
    for (size_t i = 0; i + axes < rank; ++i) count_ *= tensor_.sizes[i];
  }
  int64_t count() const { return count_; }
  Matrix<T> get(int64_t number) const {
    return Eigen::Map<const Matrix<T>>(tensor_.as<T>() + number * rows_ * columns_, rows_, columns_);
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

  template <class Values>
  void put(int64_t number, const Eigen::MatrixBase<Values>& values) {
    const Matrix<typename Values::Scalar> rows = values;
    put(number, rows.data(), rows.size());
  }
  void put(int64_t number, const std::vector<int64_t>& values) {
    put(number, values.data(), static_cast<int64_t>(values.size()));
  }

 private:
  template <class Number>
  void put(int64_t number, const Number* values, int64_t count) {
    visit_element_type(tensor_.dtype, [&]<class T>(T) {
      for (int64_t i = 0; i < count; ++i) static_cast<T*>(data_)[number * count + i] = convert<T>(values[i]);
    });
  }

  Tensor tensor_;
  void* data_;
};

// Taylor's series of a matrix that is halved until its rows sum to at most a half, squared as often.
template <class T>
Matrix<T> exponential_of(Matrix<T> a) {
  constexpr int terms = 18;  // 0.5^18 / 18! is below double's precision
  const double norm = a.size() == 0 ? 0 : a.cwiseAbs().rowwise().sum().maxCoeff();
  if (!a.allFinite() || !std::isfinite(norm)) return Matrix<T>::Constant(a.rows(), a.cols(), nan);
  const int halvings = norm > 0.5 ? static_cast<int>(std::ceil(std::log2(norm / 0.5))) : 0;
  a *= std::ldexp(1, -halvings);
  Matrix<T> sum = Matrix<T>::Identity(a.rows(), a.cols()), term = sum;
  for (int n = 1; n <= terms; ++n) {
    term = (term * a / n).eval();
    sum += term;
  }
  for (int i = 0; i < halvings; ++i) sum = (sum * sum).eval();
  return sum;
}

// Of LAPACK's choice of pivots: not the magnitude of a complex number.
double weight(double x) { return std::fabs(x); }
double weight(Complex x) { return std::fabs(x.real()) + std::fabs(x.imag()); }

template <class T>
struct SingularValues {
  Matrix<T> u, v;
  Vector<double> values;
};

// Whether the columns are, by what they make of one vector.
template <class T>
bool are_orthonormal(const Matrix<T>& columns) {
  constexpr double tolerance = 1e-9;
  Vector<T> x(columns.cols());
  for (int64_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i + 1));
  return (columns.adjoint() * (columns * x) - x).norm() <= tolerance * x.norm();
}

template <class T>
SingularValues<T> singular_values_of(const Matrix<T>& a, bool full) {
  const int64_t m = a.rows(), n = a.cols(), k = std::min(m, n);
  if (k == 0 || !a.allFinite()) {
    const double number = k == 0 ? 0 : nan;
    SingularValues<T> none{Matrix<T>::Constant(m, full ? m : k, number), Matrix<T>::Constant(n, full ? n : k, number),
                           Vector<double>::Constant(k, number)};
    if (k == 0) none.u.setIdentity(), none.v.setIdentity();
    return none;
  }
  const auto factored = [&]<class Factors>() {
    const Factors svd(a, full ? Eigen::ComputeFullU | Eigen::ComputeFullV : Eigen::ComputeThinU | Eigen::ComputeThinV);
    return SingularValues<T>{svd.matrixU(), svd.matrixV(), svd.singularValues()};
  };
  // Divide and conquer gives wrong vectors for some matrices of lower rank; rotations take longer, and do not.
  const SingularValues<T> fast = factored.template operator()<Eigen::BDCSVD<Matrix<T>>>();
  if (are_orthonormal(fast.u) && are_orthonormal(fast.v)) return fast;
  return factored.template operator()<Eigen::JacobiSVD<Matrix<T>>>();
}

// Scales eigenvectors of length one as LAPACK does: their largest component becomes real.
void turn_to_real(Matrix<Complex>& vectors) {
  for (int64_t j = 0; j < vectors.cols(); ++j) {
    auto vector = vectors.col(j);
    int64_t largest = 0;
    vector.cwiseAbs2().maxCoeff(&largest);
    const Complex at = vector[largest];
    if (at.imag() == 0) continue;
    vector *= std::conj(at) / std::abs(at);
    vector[largest] = vector[largest].real();
  }
}

}  // namespace

// (A): the lower factor, and for each matrix 0 or the order of the first minor that is not positive.
Results cholesky(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Stack<T> stack(call.tensor(0));
    Output lower(call, 0), info(call, 1);
    parallel_for(stack.count(), [&](int64_t b) {
      Matrix<T> l = stack.get(b);
      int64_t failed = 0;
      for (int64_t i = 0; i < l.rows(); ++i) {
        for (int64_t j = 0; j < i; ++j)
          l(i, j) = (l(i, j) - l.row(j).head(j).dot(l.row(i).head(j))) / std::real(l(j, j));
        const double rest = std::real(l(i, i)) - l.row(i).head(i).squaredNorm();
        if (!(rest > 0) && failed == 0) failed = i + 1;
        l(i, i) = std::sqrt(rest);
        l.row(i).tail(l.cols() - i - 1).setZero();
      }
      lower.put(b, l);
      info.put(b, std::vector<int64_t>{failed});
    });
    return std::vector<Datum>{lower.tensor(), info.tensor()};
  });
}

// (A, pivot): L below the diagonal of one matrix and U above; with which row each was swapped, from 1 on; info as
// above.
Results lu(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Stack<T> stack(call.tensor(0));
    Output factors(call, 0), pivots(call, 1), info(call, 2);
    const bool has_pivots = call.truth(1);
    parallel_for(stack.count(), [&](int64_t b) {
      Matrix<T> a = stack.get(b);
      std::vector<int64_t> swaps;
      int64_t failed = 0;
      for (int64_t k = 0; k < std::min(a.rows(), a.cols()); ++k) {
        const int64_t below = a.rows() - k - 1, right = a.cols() - k - 1;
        int64_t best = k;
        for (int64_t i = k + 1; has_pivots && i < a.rows(); ++i)
          if (weight(a(i, k)) > weight(a(best, k))) best = i;
        swaps.push_back(best + 1);
        if (best != k) a.row(k).swap(a.row(best));
        if (a(k, k) == T(0)) {
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
  });
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
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Stack<T> left(call.tensor(0)), right(call.tensor(1));
    const bool upper = call.truth(2), unit = call.truth(3);
    Output result(call, 0);
    parallel_for(left.count(), [&](int64_t b) {
      const Matrix<T> a = left.get(b);
      Matrix<T> x = right.get(b);
      if (upper && unit)
        a.template triangularView<Eigen::UnitUpper>().solveInPlace(x);
      else if (upper)
        a.template triangularView<Eigen::Upper>().solveInPlace(x);
      else if (unit)
        a.template triangularView<Eigen::UnitLower>().solveInPlace(x);
      else
        a.template triangularView<Eigen::Lower>().solveInPlace(x);
      result.put(b, x);
    });
    return std::vector<Datum>{result.tensor()};
  });
}

// (A, complete): Q and R.
Results qr(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Stack<T> stack(call.tensor(0));
    Output left(call, 0), right(call, 1);
    const bool complete = call.truth(1);
    parallel_for(stack.count(), [&](int64_t b) {
      const Matrix<T> a = stack.get(b);
      const int64_t k = complete ? a.rows() : std::min(a.rows(), a.cols());
      const Eigen::HouseholderQR<Matrix<T>> factors(a);
      Matrix<T> q = Matrix<T>::Identity(a.rows(), k);
      q.applyOnTheLeft(factors.householderQ());
      left.put(b, q);
      right.put(b, Matrix<T>(factors.matrixQR().template triangularView<Eigen::Upper>()).topRows(k));
    });
    return std::vector<Datum>{left.tensor(), right.tensor()};
  });
}

Results matrix_exp(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Stack<T> stack(call.tensor(0));
    Output result(call, 0);
    parallel_for(stack.count(), [&](int64_t b) { result.put(b, exponential_of(stack.get(b))); });
    return std::vector<Datum>{result.tensor()};
  });
}

// LAPACK's form: R above, and below it the reflectors I - tau v v^H (v has 1 on the diagonal), with their tau.
Results geqrf(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Stack<T> stack(call.tensor(0));
    Output factors(call, 0), scales(call, 1);
    parallel_for(stack.count(), [&](int64_t b) {
      const Eigen::HouseholderQR<Matrix<T>> found(stack.get(b));
      factors.put(b, found.matrixQR());
      scales.put(b, found.hCoeffs().conjugate());  // Eigen's apply to A, LAPACK's to Q
    });
    return std::vector<Datum>{factors.tensor(), scales.tensor()};
  });
}

// (A, tau): the first columns of the product of reflectors, as many as there are in A.
Results householder_product(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Stack<T> stack(call.tensor(0)), scales(call.tensor(1), 1);
    Output result(call, 0);
    parallel_for(stack.count(), [&](int64_t b) {
      const Matrix<T> a = stack.get(b);
      const Vector<T> tau = scales.get(b).row(0);
      Matrix<T> q = Matrix<T>::Identity(a.rows(), a.cols());
      q.applyOnTheLeft(Eigen::householderSequence(a.leftCols(tau.size()), tau));
      result.put(b, q);
    });
    return std::vector<Datum>{result.tensor()};
  });
}

// (A, lower): eigenvalues, ascending, and eigenvectors, in columns, by one triangle.
Results eigh(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Stack<T> stack(call.tensor(0));
    Output values(call, 0), vectors(call, 1);
    const bool lower = call.truth(1);
    parallel_for(stack.count(), [&](int64_t b) {
      Matrix<T> a = stack.get(b);
      if (!lower) a.adjointInPlace();
      if (a.size() == 0) return;
      const Matrix<T> seen = a.template triangularView<Eigen::Lower>();
      if (!seen.allFinite()) {
        values.put(b, Vector<double>::Constant(a.rows(), nan));
        vectors.put(b, Matrix<T>::Constant(a.rows(), a.cols(), nan));
        return;
      }
      const Eigen::SelfAdjointEigenSolver<Matrix<T>> solver(seen);
      values.put(b, solver.eigenvalues());
      vectors.put(b, solver.eigenvectors());
    });
    return std::vector<Datum>{values.tensor(), vectors.tensor()};
  });
}

// (A): complex eigenvalues and eigenvectors, in columns, of any square matrix.
Results eig(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    using Solver =
        std::conditional_t<is_complex_type<T>, Eigen::ComplexEigenSolver<Matrix<T>>, Eigen::EigenSolver<Matrix<T>>>;
    const Stack<T> stack(call.tensor(0));
    Output values(call, 0), vectors(call, 1);
    std::atomic<bool> has_all = true;
    parallel_for(stack.count(), [&](int64_t b) {
      const Matrix<T> a = stack.get(b);
      if (a.size() == 0) return;
      const bool is_finite = a.allFinite();
      const Solver solver = is_finite ? Solver(a) : Solver();
      if (!is_finite || solver.info() != Eigen::Success) {
        has_all = false;
        return;
      }
      Matrix<Complex> columns = solver.eigenvectors();
      columns.colwise().normalize();
      turn_to_real(columns);
      values.put(b, solver.eigenvalues().template cast<Complex>());
      vectors.put(b, columns);
    });
    if (!has_all) return error(Status::violated, 639, "no eigenvalues are found of a matrix");
    return std::vector<Datum>{values.tensor(), vectors.tensor()};
  });
}

// (A, full): U, S, descending, and the adjoint of V.
Results svd(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Stack<T> stack(call.tensor(0));
    Output u(call, 0), s(call, 1), v(call, 2);
    const bool full = call.truth(1);
    parallel_for(stack.count(), [&](int64_t b) {
      const SingularValues<T> found = singular_values_of(stack.get(b), full);
      u.put(b, found.u);
      s.put(b, found.values);
      v.put(b, found.v.adjoint());
    });
    return std::vector<Datum>{u.tensor(), s.tensor(), v.tensor()};
  });
}

}  // namespace atenon::reference
