// The producer's scalars are copied in front of what reads them, its loop variables replaced by the read's indices. So
// whatever an operator is decomposed into runs as one pass, and its rounding stays: every scalar keeps its dtype, and a
// result of 16 bits is rounded as if it had been stored.
#include "reference/inline_producers.h"

#include <algorithm>
#include <map>

namespace atenon::reference {

using opset::Meaning;
using opset::Scalar;
using opset::ScalarId;
using opset::ScalarOp;

namespace {

class Inliner {
 public:
  Inliner(const Meaning& consumer, const std::function<Producer(const ir::Value*)>& producer_of)
      : consumer_(consumer), producer_of_(producer_of) {}

  Meaning run() {
    std::vector<ScalarId> place;
    for (const Scalar& scalar : consumer_.scalars) place.push_back(copy(scalar, consumer_, place, nullptr));
    const auto move = [&](ScalarId& id) {
      if (id != opset::no_scalar) id = place[static_cast<size_t>(id)];
    };
    const auto move_all = [&](std::vector<ScalarId>& ids) { std::for_each(ids.begin(), ids.end(), move); };
    made_.reductions = consumer_.reductions;
    for (opset::Reduction& reduction : made_.reductions) {
      for (std::vector<ScalarId>* ids : {&reduction.extents, &reduction.element, &reduction.monoid.identity,
                                         &reduction.monoid.left, &reduction.monoid.right, &reduction.monoid.joined})
        move_all(*ids);
      move(reduction.guard);
    }
    made_.results = consumer_.results;
    for (opset::LoopNest& nest : made_.results) move(nest.value);
    made_.variable_count = consumer_.variable_count;
    made_.is_view = false;
    return std::move(made_);
  }

 private:
  ScalarId add(Scalar scalar) {
    made_.scalars.push_back(std::move(scalar));
    return static_cast<ScalarId>(made_.scalars.size()) - 1;
  }

  // A scalar of `from`, whose scalars so far stand at `place`; `index`: what its loop variables are, of a producer.
  ScalarId copy(const Scalar& scalar, const Meaning& from, const std::vector<ScalarId>& place,
                const std::map<int, ScalarId>* index) {
    if (index && scalar.op == ScalarOp::index) return index->at(scalar.variable);
    Scalar moved = scalar;
    for (ScalarId& id : moved.operands) id = place[static_cast<size_t>(id)];
    if (scalar.op != ScalarOp::read) return add(std::move(moved));
    const ir::Value* tensor = from.tensors[static_cast<size_t>(scalar.tensor)];
    const Producer producer = producer_of_(tensor);
    if (producer.meaning) return inlined(producer, moved.operands);
    const auto known = std::find(made_.tensors.begin(), made_.tensors.end(), tensor);
    moved.tensor = static_cast<int>(known - made_.tensors.begin());
    if (known == made_.tensors.end()) made_.tensors.push_back(const_cast<ir::Value*>(tensor));
    return add(std::move(moved));
  }

  ScalarId inlined(const Producer& producer, const std::vector<ScalarId>& at) {
    const opset::LoopNest& nest = producer.meaning->results[static_cast<size_t>(producer.result)];
    std::map<int, ScalarId> index;
    for (size_t axis = 0; axis < at.size(); ++axis) index[nest.variables[axis]] = at[axis];
    std::vector<ScalarId> place;
    for (const Scalar& scalar : producer.meaning->scalars) {
      // Loop variables of other results are not defined here, and what hangs on them is not asked for.
      const bool foreign = scalar.op == ScalarOp::index && !index.contains(scalar.variable);
      place.push_back(foreign ? add({.op = ScalarOp::constant, .dtype = ScalarType::i64})
                              : copy(scalar, *producer.meaning, place, &index));
    }
    const ScalarId value = place[static_cast<size_t>(nest.value)];
    // Rounded as if it had been stored: the sum of a reduction takes its element as exact as it can have it.
    if (!is_floating(nest.type.dtype) || made_.scalars[static_cast<size_t>(value)].op == ScalarOp::read) return value;
    return add({.op = ScalarOp::cast, .dtype = nest.type.dtype, .operands = {value}});
  }

  const Meaning& consumer_;
  const std::function<Producer(const ir::Value*)>& producer_of_;
  Meaning made_;
};

}  // namespace

Meaning inline_producers(const Meaning& consumer, const std::function<Producer(const ir::Value*)>& producer_of) {
  return Inliner(consumer, producer_of).run();
}

}  // namespace atenon::reference
