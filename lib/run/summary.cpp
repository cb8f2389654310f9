#include "run/summary.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "run/leaves.h"
#include "support/json.h"
#include "text/numbers.h"
#include "text/text.h"

namespace atenon::run {
namespace {

std::string shortest(double x) { return text::rounded(x, 6); }

struct Summary {
  std::string name;
  ScalarType dtype;
  std::vector<int64_t> sizes;
  std::optional<std::pair<double, double>> range;
  std::vector<std::complex<double>> first;
  bool is_whole = true;  // there are no more elements

  Summary(std::string output, const Datum& value) : name(std::move(output)) {
    const Tensor tensor = tensor_of(value), reals = in_reals(tensor);
    dtype = tensor.dtype;
    sizes = tensor.sizes;
    const int64_t count = tensor.numel(), parts = is_complex(dtype) ? 2 : 1;
    if (count > 1 && parts == 1) {
      double lowest = INFINITY, highest = -INFINITY;
      for (int64_t i = 0; i < count && !std::isnan(lowest); ++i) {
        const double element = reals.float_at(i);
        lowest = std::isnan(element) ? element : std::min(lowest, element);
        highest = std::isnan(element) ? element : std::max(highest, element);
      }
      range = {lowest, highest};
    }
    for (int64_t i = 0; i < std::min<int64_t>(count, 5); ++i)
      first.emplace_back(reals.float_at(parts * i), parts == 2 ? reals.float_at(2 * i + 1) : 0);
    is_whole = count <= 5;
  }

  // `0: f32[1, 10]  -0.12 .. 0.34  [0.01, -0.12, ...]`, `1: c64[1]  [0.5-2j]`
  std::string to_text() const {
    std::string line = name + ": " + ir::to_string(ir::TensorMeta{dtype, {sizes.begin(), sizes.end()}});
    if (range) line += "  " + shortest(range->first) + " .. " + shortest(range->second);
    line += "  [";
    for (const std::complex<double>& element : first) {
      line += (&element == first.data() ? "" : ", ") + shortest(element.real());
      if (is_complex(dtype)) line += (std::signbit(element.imag()) ? "" : "+") + shortest(element.imag()) + "j";
    }
    return line + (is_whole ? "]" : ", ...]");
  }

  // JSON has no NaN and no infinity: they are null.
  nlohmann::ordered_json to_json() const {
    nlohmann::ordered_json elements = nlohmann::ordered_json::array(), json;
    for (const std::complex<double>& element : first) {
      if (is_complex(dtype))
        elements.push_back({element.real(), element.imag()});
      else
        elements.push_back(element.real());
    }
    json = {{"name", name}, {"dtype", name_of(dtype)}, {"sizes", sizes}};
    if (range) json["range"] = {range->first, range->second};
    json["first"] = elements;
    return json;
  }
};

}  // namespace

bool is_word(const Leaf& leaf) {
  return leaf.constant && (leaf.constant->is<ir::None>() || leaf.constant->is<std::string>());
}

std::string describe_outputs(const Session& session, const std::vector<Datum>& outputs, bool json) {
  std::string text;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const std::vector<std::string> names = leaf_names(session.outputs());
  for (size_t i = 0; i < names.size(); ++i) {
    const Leaf& leaf = session.outputs()[i];
    const std::string word = is_word(leaf) ? text::print(*leaf.constant) : "";
    if (json)
      list.push_back(word.empty() ? Summary(names[i], outputs[i]).to_json()
                                  : nlohmann::ordered_json{{"name", names[i]}, {"constant", word}});
    else
      text += (word.empty() ? Summary(names[i], outputs[i]).to_text() : names[i] + ": " + word) + "\n";
  }
  return json ? json_text({{"schema", 1}, {"outputs", list}}, 1) + "\n" : text;
}

}  // namespace atenon::run
