// Factorisations of matrices, each of a stack of them by itself, in double. What is made of them (inverses,
// determinants, solutions, norms) is written in opsets/aten/linalg.ops.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/extern_kernels.h"

namespace atenon::reference {
namespace {

using Results = Result<std::vector<Datum>>;

struct Matrix {
  int64_t rows, columns;
  std::vector<double> elements;
  Matrix(int64_t m, int64_t n) : rows(m), columns(n), elements(static_cast<size_t>(m * n), 0.0) {}
  double& at(int64_t i, int64_t j) { return elements[static_cast<size_t>(i * columns + j)]; }
  double at(int64_t i, int64_t j) const { return elements[static_cast<size_t>(i * columns + j)]; }
};

Matrix identity(int64_t n) {
  Matrix eye(n, n);
  for (int64_t i = 0; i < n; ++i) eye.at(i, i) = 1;
  return eye;
}

// The matrices of a tensor, by number.
class Stack {
 public:
  explicit Stack(Tensor tensor) : tensor_(tensor.contiguous()) {
    const size_t rank = tensor_.sizes.size();
    rows_ = tensor_.sizes[rank - 2], columns_ = tensor_.sizes[rank - 1];
    for (size_t i = 0; i + 2 < rank; ++i) count_ *= tensor_.sizes[i];
  }
  int64_t count() const { return count_; }
  Matrix get(int64_t number) const {
    Matrix matrix(rows_, columns_);
    const int64_t first = number * rows_ * columns_;
    for (int64_t i = 0; i < rows_ * columns_; ++i)
      matrix.elements[static_cast<size_t>(i)] = tensor_.float_at(first + i);
    return matrix;
  }

 private:
  Tensor tensor_;
  int64_t rows_ = 0, columns_ = 0, count_ = 1;
};

void put(Tensor& tensor, int64_t number, const Matrix& matrix) {
  const auto size = static_cast<int64_t>(matrix.elements.size());
  for (int64_t i = 0; i < size; ++i) tensor.set(number * size + i, matrix.elements[static_cast<size_t>(i)]);
}
template <class Number>
void put(Tensor& tensor, int64_t number, const std::vector<Number>& values) {
  const auto size = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < size; ++i) {
    if constexpr (std::is_integral_v<Number>)
      tensor.set_int(number * size + i, values[static_cast<size_t>(i)]);
    else
      tensor.set(number * size + i, values[static_cast<size_t>(i)]);
  }
}

// Q and R of A, by reflections that make the diagonal of R as LAPACK does. Q has all its columns.
std::pair<Matrix, Matrix> factor_qr(Matrix r) {
  Matrix q = identity(r.rows);
  std::vector<double> v(static_cast<size_t>(r.rows));
  for (int64_t k = 0; k < std::min(r.rows - 1, r.columns); ++k) {
    double rest = 0;
    for (int64_t i = k + 1; i < r.rows; ++i) rest += r.at(i, k) * r.at(i, k);
    if (rest == 0) continue;
    const double length = std::sqrt(r.at(k, k) * r.at(k, k) + rest);
    const double beta = r.at(k, k) > 0 ? -length : length;
    for (int64_t i = k; i < r.rows; ++i) v[static_cast<size_t>(i)] = r.at(i, k);
    v[static_cast<size_t>(k)] -= beta;
    double square = 0;
    for (int64_t i = k; i < r.rows; ++i) square += v[static_cast<size_t>(i)] * v[static_cast<size_t>(i)];
    for (int64_t j = k; j < r.columns; ++j) {
      double dot = 0;
      for (int64_t i = k; i < r.rows; ++i) dot += v[static_cast<size_t>(i)] * r.at(i, j);
      for (int64_t i = k; i < r.rows; ++i) r.at(i, j) -= 2 * dot / square * v[static_cast<size_t>(i)];
    }
    for (int64_t i = 0; i < q.rows; ++i) {
      double dot = 0;
      for (int64_t j = k; j < r.rows; ++j) dot += q.at(i, j) * v[static_cast<size_t>(j)];
      for (int64_t j = k; j < r.rows; ++j) q.at(i, j) -= 2 * dot / square * v[static_cast<size_t>(j)];
    }
    for (int64_t i = k + 1; i < r.rows; ++i) r.at(i, k) = 0;
  }
  return {q, r};
}

// LAPACK's form: R above, and below it the reflectors I - tau v v' (v has 1 on the diagonal), with their tau.
std::vector<double> factor_reflectors(Matrix& a) {
  std::vector<double> tau(static_cast<size_t>(std::min(a.rows, a.columns)), 0.0);
  for (int64_t k = 0; k < static_cast<int64_t>(tau.size()); ++k) {
    double rest = 0;
    for (int64_t i = k + 1; i < a.rows; ++i) rest += a.at(i, k) * a.at(i, k);
    if (rest == 0) continue;
    const double alpha = a.at(k, k), length = std::sqrt(alpha * alpha + rest);
    const double beta = alpha >= 0 ? -length : length;
    const double t = tau[static_cast<size_t>(k)] = (beta - alpha) / beta;
    for (int64_t i = k + 1; i < a.rows; ++i) a.at(i, k) /= alpha - beta;
    a.at(k, k) = beta;
    for (int64_t j = k + 1; j < a.columns; ++j) {
      double dot = a.at(k, j);
      for (int64_t i = k + 1; i < a.rows; ++i) dot += a.at(i, k) * a.at(i, j);
      a.at(k, j) -= t * dot;
      for (int64_t i = k + 1; i < a.rows; ++i) a.at(i, j) -= t * dot * a.at(i, k);
    }
  }
  return tau;
}

// The first columns of the product of reflectors, as many as there are in `a`.
Matrix product_of_reflectors(const Matrix& a, const std::vector<double>& tau) {
  Matrix q(a.rows, a.columns);
  for (int64_t i = 0; i < std::min(a.rows, a.columns); ++i) q.at(i, i) = 1;
  for (auto k = static_cast<int64_t>(tau.size()); k-- > 0;) {
    for (int64_t j = 0; j < q.columns; ++j) {
      double dot = q.at(k, j);
      for (int64_t i = k + 1; i < a.rows; ++i) dot += a.at(i, k) * q.at(i, j);
      dot *= tau[static_cast<size_t>(k)];
      q.at(k, j) -= dot;
      for (int64_t i = k + 1; i < a.rows; ++i) q.at(i, j) -= dot * a.at(i, k);
    }
  }
  return q;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k < a.columns; ++k)
      for (int64_t j = 0; j < b.columns; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}

// Taylor's series of a matrix that is halved until its rows sum to at most a half, squared as often.
Matrix exponential_of(Matrix a) {
  constexpr int terms = 18;  // 0.5^18 / 18! is below double's precision
  double norm = 0;
  for (int64_t i = 0; i < a.rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < a.columns; ++j) sum += std::fabs(a.at(i, j));
    norm = std::max(norm, sum);
  }
  if (!std::isfinite(norm)) {
    std::fill(a.elements.begin(), a.elements.end(), std::nan(""));
    return a;
  }
  const int halvings = norm > 0.5 ? static_cast<int>(std::ceil(std::log2(norm / 0.5))) : 0;
  for (double& x : a.elements) x = std::ldexp(x, -halvings);
  Matrix sum = identity(a.rows), term = sum;
  for (int n = 1; n <= terms; ++n) {
    term = product(term, a);
    for (double& x : term.elements) x /= n;
    for (size_t i = 0; i < sum.elements.size(); ++i) sum.elements[i] += term.elements[i];
  }
  for (int i = 0; i < halvings; ++i) sum = product(sum, sum);
  return sum;
}

// Eigenvalues, ascending, and eigenvectors, in columns, of a symmetric matrix: Jacobi's rotations.
std::pair<std::vector<double>, Matrix> factor_symmetric(Matrix a) {
  const int64_t n = a.rows;
  Matrix v = identity(n);
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) (i == j ? all : off) += a.at(i, j) * a.at(i, j);
    if (off <= 1e-32 * all || off == 0) break;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (a.at(p, q) == 0) continue;
        const double theta = (a.at(q, q) - a.at(p, p)) / (2 * a.at(p, q));
        const double t = (theta >= 0 ? 1 : -1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int64_t k = 0; k < n; ++k) {
          const double x = a.at(k, p), y = a.at(k, q);
          a.at(k, p) = c * x - s * y, a.at(k, q) = s * x + c * y;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double x = a.at(p, k), y = a.at(q, k);
          a.at(p, k) = c * x - s * y, a.at(q, k) = s * x + c * y;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double x = v.at(k, p), y = v.at(k, q);
          v.at(k, p) = c * x - s * y, v.at(k, q) = s * x + c * y;
        }
      }
    }
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return a.at(i, i) < a.at(j, j); });
  std::vector<double> values;
  Matrix vectors(n, n);
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    values.push_back(a.at(from, from));
    for (int64_t i = 0; i < n; ++i) vectors.at(i, j) = v.at(i, from);
  }
  return {values, vectors};
}

// Singular values, descending, of a matrix with at least as many rows as columns; the columns of `a` become U's, scaled
// by them, and `v` collects V: one-sided rotations.
std::vector<double> factor_tall(Matrix& a, Matrix& v) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool changed = false;
    for (int64_t p = 0; p < a.columns; ++p) {
      for (int64_t q = p + 1; q < a.columns; ++q) {
        double x = 0, y = 0, dot = 0;
        for (int64_t k = 0; k < a.rows; ++k)
          x += a.at(k, p) * a.at(k, p), y += a.at(k, q) * a.at(k, q), dot += a.at(k, p) * a.at(k, q);
        if (std::fabs(dot) <= 1e-16 * std::sqrt(x * y) || dot == 0) continue;
        changed = true;
        const double theta = (y - x) / (2 * dot);
        const double t = (theta >= 0 ? 1 : -1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        const auto rotate = [&](Matrix& m) {
          for (int64_t k = 0; k < m.rows; ++k) {
            const double left = m.at(k, p), right = m.at(k, q);
            m.at(k, p) = c * left - s * right, m.at(k, q) = s * left + c * right;
          }
        };
        rotate(a), rotate(v);
      }
    }
    if (!changed) break;
  }
  std::vector<std::pair<double, int64_t>> order;
  for (int64_t j = 0; j < a.columns; ++j) {
    double square = 0;
    for (int64_t i = 0; i < a.rows; ++i) square += a.at(i, j) * a.at(i, j);
    order.push_back({-std::sqrt(square), j});
  }
  std::stable_sort(order.begin(), order.end());
  const Matrix columns = a, turned = v;
  std::vector<double> values;
  for (int64_t j = 0; j < a.columns; ++j) {
    const auto [length, from] = order[static_cast<size_t>(j)];
    values.push_back(-length);
    for (int64_t i = 0; i < a.rows; ++i) a.at(i, j) = columns.at(i, from);
    for (int64_t i = 0; i < v.rows; ++i) v.at(i, j) = turned.at(i, from);
  }
  return values;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) t.at(j, i) = a.at(i, j);
  return t;
}

// U with all its columns: those of positive length, the rest whatever is orthogonal to them.
Matrix completed(const Matrix& scaled, const std::vector<double>& values) {
  Matrix u(scaled.rows, scaled.rows);
  int64_t next = 0;
  const auto take = [&](std::vector<double> x) {
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < next; ++j) {
        double dot = 0;
        for (int64_t i = 0; i < u.rows; ++i) dot += u.at(i, j) * x[static_cast<size_t>(i)];
        for (int64_t i = 0; i < u.rows; ++i) x[static_cast<size_t>(i)] -= dot * u.at(i, j);
      }
    }
    const double length = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
    if (length < 1e-8) return;
    for (int64_t i = 0; i < u.rows; ++i) u.at(i, next) = x[static_cast<size_t>(i)] / length;
    ++next;
  };
  std::vector<double> x(static_cast<size_t>(u.rows));
  for (int64_t j = 0; j < scaled.columns; ++j) {
    if (values[static_cast<size_t>(j)] == 0) continue;
    for (int64_t i = 0; i < u.rows; ++i) x[static_cast<size_t>(i)] = scaled.at(i, j) / values[static_cast<size_t>(j)];
    take(x);
  }
  for (int64_t axis = 0; axis < u.rows && next < u.rows; ++axis) {
    std::fill(x.begin(), x.end(), 0.0);
    x[static_cast<size_t>(axis)] = 1;
    take(x);
  }
  return u;
}

Matrix leading(const Matrix& a, int64_t rows, int64_t columns) {
  Matrix part(rows, columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) part.at(i, j) = a.at(i, j);
  return part;
}

}  // namespace

// (A): the lower factor, and for each matrix 0 or the order of the first minor that is not positive.
Results cholesky(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor lower = call.result(0), info = call.result(1);
  for (int64_t b = 0; b < stack.count(); ++b) {
    Matrix l = stack.get(b);
    int64_t failed = 0;
    for (int64_t j = 0; j < l.rows; ++j) {
      for (int64_t k = 0; k < j; ++k)
        for (int64_t i = j; i < l.rows; ++i) l.at(i, j) -= l.at(i, k) * l.at(j, k);
      if (!(l.at(j, j) > 0) && failed == 0) failed = j + 1;
      const double root = std::sqrt(l.at(j, j));
      for (int64_t i = j; i < l.rows; ++i) l.at(i, j) /= root;
      for (int64_t i = 0; i < j; ++i) l.at(i, j) = 0;
    }
    put(lower, b, l);
    info.set_int(b, failed);
  }
  return std::vector<Datum>{lower, info};
}

// (A, pivot): L below the diagonal of one matrix and U above; with which row each was swapped, from 1 on; info as
// above.
Results lu(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor factors = call.result(0), pivots = call.result(1), info = call.result(2);
  for (int64_t b = 0; b < stack.count(); ++b) {
    Matrix a = stack.get(b);
    std::vector<int64_t> swaps;
    int64_t failed = 0;
    for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
      int64_t best = k;
      for (int64_t i = k + 1; call.truth(1) && i < a.rows; ++i)
        if (std::fabs(a.at(i, k)) > std::fabs(a.at(best, k))) best = i;
      swaps.push_back(best + 1);
      for (int64_t j = 0; j < a.columns; ++j) std::swap(a.at(k, j), a.at(best, j));
      if (a.at(k, k) == 0) {
        failed = failed ? failed : k + 1;
        continue;
      }
      for (int64_t i = k + 1; i < a.rows; ++i) {
        a.at(i, k) /= a.at(k, k);
        for (int64_t j = k + 1; j < a.columns; ++j) a.at(i, j) -= a.at(i, k) * a.at(k, j);
      }
    }
    put(factors, b, a);
    put(pivots, b, swaps);
    info.set_int(b, failed);
  }
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
  for (int64_t b = 0; b < left.count(); ++b) {
    const Matrix a = left.get(b);
    Matrix x = right.get(b);
    for (int64_t step = 0; step < a.rows; ++step) {
      const int64_t i = upper ? a.rows - 1 - step : step;
      for (int64_t j = 0; j < x.columns; ++j) {
        for (int64_t k = upper ? i + 1 : 0; k < (upper ? a.rows : i); ++k) x.at(i, j) -= a.at(i, k) * x.at(k, j);
        if (!unit) x.at(i, j) /= a.at(i, i);
      }
    }
    put(result, b, x);
  }
  return std::vector<Datum>{result};
}

// (A, complete): Q and R.
Results qr(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor left = call.result(0), right = call.result(1);
  for (int64_t b = 0; b < stack.count(); ++b) {
    const auto [q, r] = factor_qr(stack.get(b));
    const int64_t k = call.truth(1) ? r.rows : std::min(r.rows, r.columns);
    put(left, b, leading(q, q.rows, k));
    put(right, b, leading(r, k, r.columns));
  }
  return std::vector<Datum>{left, right};
}

Results matrix_exp(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor result = call.result(0);
  for (int64_t b = 0; b < stack.count(); ++b) put(result, b, exponential_of(stack.get(b)));
  return std::vector<Datum>{result};
}

Results geqrf(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor factors = call.result(0), scales = call.result(1);
  for (int64_t b = 0; b < stack.count(); ++b) {
    Matrix a = stack.get(b);
    const std::vector<double> tau = factor_reflectors(a);
    put(factors, b, a);
    put(scales, b, tau);
  }
  return std::vector<Datum>{factors, scales};
}

// (A, tau)
Results householder_product(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  const Tensor scales = call.tensor(1).contiguous();
  const int64_t each = scales.sizes.back();
  Tensor result = call.result(0);
  for (int64_t b = 0; b < stack.count(); ++b) {
    std::vector<double> tau;
    for (int64_t i = 0; i < each; ++i) tau.push_back(scales.float_at(b * each + i));
    put(result, b, product_of_reflectors(stack.get(b), tau));
  }
  return std::vector<Datum>{result};
}

// (A, lower): eigenvalues and eigenvectors by one triangle.
Results eigh(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor values = call.result(0), vectors = call.result(1);
  for (int64_t b = 0; b < stack.count(); ++b) {
    Matrix a = stack.get(b);
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = 0; j < i; ++j)
        (call.truth(1) ? a.at(j, i) : a.at(i, j)) = call.truth(1) ? a.at(i, j) : a.at(j, i);
    const auto [each, matrix] = factor_symmetric(std::move(a));
    put(values, b, each);
    put(vectors, b, matrix);
  }
  return std::vector<Datum>{values, vectors};
}

// (A, full): U, S and V transposed.
Results svd(const ExternCall& call) {
  const Stack stack(call.tensor(0));
  Tensor u = call.result(0), s = call.result(1), v = call.result(2);
  for (int64_t b = 0; b < stack.count(); ++b) {
    Matrix a = stack.get(b);
    const int64_t k = std::min(a.rows, a.columns);
    const bool wide = a.columns > a.rows, full = call.truth(1);
    Matrix tall = wide ? transposed(a) : a;
    Matrix turned = identity(k);
    const std::vector<double> values = factor_tall(tall, turned);
    Matrix all = completed(tall, values);
    Matrix& left = wide ? turned : all;
    Matrix& right = wide ? all : turned;
    put(u, b, leading(left, a.rows, full ? a.rows : k));
    put(s, b, values);
    put(v, b, transposed(leading(right, a.columns, full ? a.columns : k)));
  }
  return std::vector<Datum>{u, s, v};
}

}  // namespace atenon::reference
