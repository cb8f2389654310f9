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

// A copy of the tensor in what its elements are computed in, in rows.
template <class T>
Tensor computed_in(const Tensor& tensor) {
  return cast(tensor, is_complex_type<T> ? ScalarType::c128 : ScalarType::f64);
}

// How many matrices of `numel` elements there are in a tensor.
int64_t count_of(const Tensor& tensor, int64_t numel) { return numel == 0 ? 0 : tensor.numel() / numel; }

// Calls `visit` with the number of each matrix of a stack, which takes so many steps; small ones share a tile.
template <class Visit>
void each_of(int64_t count, int64_t steps, Visit visit) {
  constexpr int64_t tile_steps = 4096;
  const int64_t grain = 1 + tile_steps / std::max<int64_t>(steps, 1);
  parallel_for((count + grain - 1) / grain, [&](int64_t tile) {
    for (int64_t b = tile * grain; b < std::min(count, (tile + 1) * grain); ++b) visit(b);
  });
}

// to -= factor * from
template <class T>
void subtract_row(T* to, T factor, const T* from, int64_t n) {
  Eigen::Map<Vector<T>>(to, n) -= factor * Eigen::Map<const Vector<T>>(from, n);
}

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
    const Tensor& self = call.tensor(0);
    Tensor lower = computed_in<T>(self), info = call.result(1);
    const int64_t n = self.sizes.back();
    T* const first = lower.mutable_as<T>();
    auto* const fails = info.mutable_as<int32_t>();
    each_of(info.numel(), n * n * n, [&](int64_t b) {
      const auto row = [a = first + b * n * n, n](int64_t i) { return a + i * n; };
      const auto head = [&](int64_t i, int64_t size) { return Eigen::Map<const Vector<T>>(row(i), size); };
      fails[b] = 0;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < i; ++j) row(i)[j] = (row(i)[j] - head(j, j).dot(head(i, j))) / std::real(row(j)[j]);
        const double rest = std::real(row(i)[i]) - head(i, i).squaredNorm();
        if (!(rest > 0) && fails[b] == 0) fails[b] = static_cast<int32_t>(i + 1);
        row(i)[i] = std::sqrt(rest);
        std::fill(row(i) + i + 1, row(i) + n, T(0));
      }
    });
    return std::vector<Datum>{cast(lower, self.dtype), info};
  });
}

// (A, pivot): L below the diagonal of one matrix and U above; with which row each was swapped, from 1 on; info as
// above.
Results lu(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Tensor& self = call.tensor(0);
    Tensor factors = computed_in<T>(self), pivots = call.result(1), info = call.result(2);
    const int64_t rows = self.sizes[self.sizes.size() - 2], columns = self.sizes.back(), k = std::min(rows, columns);
    T* const first = factors.mutable_as<T>();
    auto* const swaps = pivots.mutable_as<int32_t>();
    auto* const fails = info.mutable_as<int32_t>();
    const bool has_pivots = call.truth(1);
    each_of(info.numel(), rows * columns * k, [&](int64_t b) {
      T* const a = first + b * rows * columns;
      fails[b] = 0;
      for (int64_t i = 0; i < k; ++i) {
        T* const row = a + i * columns;
        int64_t best = i;
        for (int64_t j = i + 1; has_pivots && j < rows; ++j)
          if (weight(a[j * columns + i]) > weight(a[best * columns + i])) best = j;
        swaps[b * k + i] = static_cast<int32_t>(best + 1);
        if (best != i) std::swap_ranges(row, row + columns, a + best * columns);
        if (row[i] == T(0)) {
          if (fails[b] == 0) fails[b] = static_cast<int32_t>(i + 1);
          continue;
        }
        for (int64_t j = i + 1; j < rows; ++j) {
          T* const below = a + j * columns;
          below[i] /= row[i];
          subtract_row(below + i + 1, below[i], row + i + 1, columns - i - 1);
        }
      }
    });
    return std::vector<Datum>{cast(factors, self.dtype), pivots, info};
  });
}

// (pivots): where each row of the swapped matrix came from.
Results lu_order(const ExternCall& call) {
  const Tensor pivots = cast(call.tensor(0), ScalarType::i64);
  Tensor result = call.result(0);
  const int64_t k = pivots.sizes.back(), n = result.sizes.back();
  const int64_t* with = pivots.as<int64_t>();
  auto* order = result.mutable_as<int64_t>();
  for (int64_t b = 0; b < count_of(result, n); ++b, with += k, order += n) {
    std::iota(order, order + n, 0);
    for (int64_t i = 0; i < k; ++i) {
      if (with[i] < 1 || with[i] > n)
        return error(Status::violated, 611, "pivot " + std::to_string(with[i]) + " names no row");
      std::swap(order[i], order[with[i] - 1]);
    }
  }
  return std::vector<Datum>{result};
}

// (A, B, upper, unitriangular): X with AX = B.
Results solve_triangular(const ExternCall& call) {
  return visit_double(call.tensor(0), [&]<class T>(T) -> Results {
    const Tensor left = computed_in<T>(call.tensor(0));
    Tensor result = computed_in<T>(call.tensor(1));
    const int64_t n = left.sizes.back(), columns = result.sizes.back();
    const bool upper = call.truth(2), unit = call.truth(3);
    const T* const first_left = left.as<T>();
    T* const first = result.mutable_as<T>();
    constexpr int64_t few = 16;  // rows: the solver for blocks takes longer to begin
    each_of(count_of(result, n * columns), n * n * columns, [&](int64_t b) {
      const T* const a = first_left + b * n * n;
      T* const x = first + b * n * columns;
      if (n <= few) {
        for (int64_t turn = 0; turn < n; ++turn) {
          const int64_t i = upper ? n - 1 - turn : turn;
          T* const row = x + i * columns;
          for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j)
            subtract_row(row, a[i * n + j], x + j * columns, columns);
          for (int64_t c = 0; !unit && c < columns; ++c) row[c] /= a[i * n + i];
        }
        return;
      }
      const Eigen::Map<const Matrix<T>> known(a, n, n);
      Eigen::Map<Matrix<T>> solved(x, n, columns);
      if (upper && unit)
        known.template triangularView<Eigen::UnitUpper>().solveInPlace(solved);
      else if (upper)
        known.template triangularView<Eigen::Upper>().solveInPlace(solved);
      else if (unit)
        known.template triangularView<Eigen::UnitLower>().solveInPlace(solved);
      else
        known.template triangularView<Eigen::Lower>().solveInPlace(solved);
    });
    return std::vector<Datum>{cast(result, call.tensor(1).dtype)};
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
