// A value or a Diagnostic: how every function reports what a user can cause. (GCC 12 has no std::expected.)
//
//   Result<Graph> graph = parse(text);
//   if (!graph) return graph.error();
//   use(*graph);
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <utility>

#include "support/diagnostic.h"

namespace atenon {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Diagnostic diagnostic) : error_(std::make_unique<Diagnostic>(std::move(diagnostic))) {}

  explicit operator bool() const { return !error_; }
  T& operator*() & { return assert(!error_), *value_; }
  const T& operator*() const& { return assert(!error_), *value_; }
  T&& operator*() && { return assert(!error_), std::move(*value_); }
  T* operator->() { return assert(!error_), &*value_; }
  const T* operator->() const { return assert(!error_), &*value_; }

  // The failure, moved out, so that `return r.error();` passes it on in a Result of any type.
  Diagnostic error() { return assert(error_), std::move(*error_); }
  const Diagnostic& failure() const { return assert(error_), *error_; }

 private:
  std::optional<T> value_;
  std::unique_ptr<Diagnostic> error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Diagnostic diagnostic) : error_(std::make_unique<Diagnostic>(std::move(diagnostic))) {}

  explicit operator bool() const { return !error_; }
  Diagnostic error() { return assert(error_), std::move(*error_); }
  const Diagnostic& failure() const { return assert(error_), *error_; }

 private:
  std::unique_ptr<Diagnostic> error_;
};

}  // namespace atenon
