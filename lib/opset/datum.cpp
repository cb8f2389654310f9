#include "opset/datum.h"

namespace atenon::opset {

Datum list(std::vector<Datum> items) { return std::make_shared<const Sequence>(Sequence{std::move(items), false}); }
Datum tuple(std::vector<Datum> items) { return std::make_shared<const Sequence>(Sequence{std::move(items), true}); }
Datum list(const std::vector<ir::SymInt>& sizes) { return list(std::vector<Datum>(sizes.begin(), sizes.end())); }

Datum from_argument(const ir::Argument& argument) {
  return std::visit(
      [](const auto& value) -> Datum {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, ir::ArgumentList>) {
          std::vector<Datum> items;
          items.reserve(value.size());
          for (const ir::Argument& item : value) items.push_back(from_argument(item));
          return list(std::move(items));
        } else if constexpr (std::is_same_v<T, ir::SubgraphRef>) {
          return ir::Word{value.name};
        } else if constexpr (std::is_same_v<T, ir::Value*>) {
          const auto* scalar = std::get_if<ir::ScalarKind>(&value->type);
          return scalar && *scalar == ir::ScalarKind::integer ? Datum(ir::SymInt::symbol(value->name)) : Datum(value);
        } else {
          return value;
        }
      },
      static_cast<const ir::Argument::variant&>(argument));
}

std::optional<ir::Argument> to_argument(const Datum& datum) {
  return std::visit(
      [](const auto& value) -> std::optional<ir::Argument> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, List>) {
          ir::ArgumentList items;
          items.reserve(value->items.size());
          for (const Datum& item : value->items) {
            std::optional<ir::Argument> argument = to_argument(item);
            if (!argument) return std::nullopt;
            items.push_back(std::move(*argument));
          }
          return ir::Argument(std::move(items));
        } else if constexpr (std::is_same_v<T, Element> || std::is_same_v<T, TypeOf> || std::is_same_v<T, Extreme>) {
          return std::nullopt;
        } else {
          return ir::Argument(value);
        }
      },
      static_cast<const Datum::variant&>(datum));
}

std::string to_string(const Datum& datum) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, ir::None>) {
          return "none";
        } else if constexpr (std::is_same_v<T, List>) {
          std::string text;
          for (const Datum& item : value->items) text += (text.empty() ? "" : ", ") + to_string(item);
          return value->is_tuple ? '(' + text + ')' : '[' + text + ']';
        } else if constexpr (std::is_same_v<T, ScalarType>) {
          return name_of(value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return value;
        } else if constexpr (std::is_same_v<T, ir::Word>) {
          return value.text;
        } else if constexpr (std::is_same_v<T, ir::Value*>) {
          return ir::to_string(value->type);
        } else if constexpr (std::is_same_v<T, TypeOf>) {
          return ir::to_string(value->type);
        } else if constexpr (std::is_same_v<T, Element>) {
          return "an element";
        } else if constexpr (std::is_same_v<T, Extreme>) {
          return "an extreme";
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return ir::SymFloat(value.real()).to_string() + " + " + ir::SymFloat(value.imag()).to_string() + "j";
        } else {
          return value.to_string();
        }
      },
      static_cast<const Datum::variant&>(datum));
}

}  // namespace atenon::opset
