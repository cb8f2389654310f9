// Puts the expression that makes an element in the place of the read of that element.
#pragma once

#include <functional>

#include "opset/meaning.h"

namespace atenon::reference {

// A Meaning without reductions and scatter, and which of its results is read.
struct Producer {
  const opset::Meaning* meaning = nullptr;
  int result = 0;
};
// `producer_of` is asked for every tensor that the consumer reads; with null meaning, the tensor is read as before.
opset::Meaning inline_producers(const opset::Meaning& consumer,
                                const std::function<Producer(const ir::Value*)>& producer_of);

}  // namespace atenon::reference
