// Products of rows with matrices of a stack, where integers say which matrix each row meets: mixtures of experts.
//
// A run sorts the rows by their matrix. The rows of each are a product with panels, as in panels.cpp: rows that follow
// each other are read and written where they lie, others are gathered first and their sums written one by one. So each
// matrix is read once for a few hundred rows, and one that nobody chose not at all. How rows are cut depends on the
// choice alone, never on the number of threads.
#include <algorithm>
#include <cassert>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/product.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_rows = 240;               // of a part
constexpr int64_t serial_products = 512 * 1024;  // less than this is done before a second thread has woken up

struct ChosenProduct {
  Product product;  // b: the axes of one matrix
  int stack = 0;    // the axis of its operand that counts the matrices
  int chosen = -1;  // input of the body
};

std::string read_chosen_product(const ir::Graph& body, const shape::Bindings& symbols, ChosenProduct& found) {
  const ir::Node* anchor = nullptr;
  for (const ir::Node& node : body.forward()) {
    if (is_view_node(node)) continue;
    anchor = &node;
    break;
  }
  if (!anchor || anchor->target() != "atenon::product_by_row") return "no product with chosen matrices in it";
  const Arguments arguments(*anchor, symbols);
  const ir::Value *x = arguments.tensor(0, "input"), *matrices = arguments.tensor(1, "weight"),
                  *chosen = arguments.tensor(2, "chosen");
  if (!x || !matrices || !chosen) return "an operand is missing";
  if (x->meta().dtype != ScalarType::f32 || matrices->meta().dtype != ScalarType::f32) return "only f32 so far";
  if (chosen->meta().dtype != ScalarType::i64 && chosen->meta().dtype != ScalarType::i32)
    return "has no code for choices in " + std::string(name_of(chosen->meta().dtype));
  const View stack = view_of(matrices);
  if (x->producer || chosen->producer || stack.input < 0) return "an operand is computed in the body";
  if (x->meta().rank() != 2 || stack.axes.size() != 3 || chosen->meta().rank() != 1) return "an operand has other axes";
  if (x->meta().sizes[1] == ir::SymInt(0)) return "it sums nothing";
  found.product.a = {x->index, {0, 1}};
  found.product.b = {stack.input, {stack.axes[1], stack.axes[2]}};
  found.stack = stack.axes[0];
  found.chosen = chosen->index;
  if (std::string refusal = read_epilogue(body, anchor->result(), 1, true, symbols, found.product.epilogue);
      !refusal.empty())
    return refusal;
  return lanes_refusal(found.product.epilogue);
}

ir::BlockedLayout panels_of_stack(const std::vector<int64_t>& sizes, const ChosenProduct& chosen, ScalarType dtype) {
  ir::BlockedLayout layout = panel_layout(sizes, chosen.product.b.axes, dtype);
  const auto stack = static_cast<size_t>(chosen.stack);
  layout.strides[stack] = layout.padded_bytes / static_cast<int64_t>(size_of(dtype));
  layout.padded_bytes *= sizes[stack];
  return layout;
}

class ChosenMatricesCall : public PreparedCall {
 public:
  Product product;
  Loops loops;
  Operand chosen;
  int chosen_input = 0;
  size_t result = 0;  // buffer
  int64_t matrices = 0, matrix_step = 0;
  bool in_panels = true;                // else each tile makes its panel
  ScalarType stored = ScalarType::f32;  // or 16 bits, which are widened part by part

  // Rows that meet one matrix: some of `Plan::rows`.
  struct Part {
    int64_t matrix, first, count;
  };

  int64_t most_parts() const { return std::min(matrices, loops.m()) + loops.m() / most_rows; }
  size_t plan_bytes() const {
    return in_lines(static_cast<size_t>(loops.m() + matrices + 1) * sizeof(int64_t)) +
           in_lines(static_cast<size_t>(most_parts()) * sizeof(Part));
  }
  int64_t part_rows() const { return std::min(loops.m(), most_rows); }
  int64_t made_rows() const {  // of a panel
    return stored != ScalarType::f32 ? std::min(loops.k(), panel_depth) : in_panels ? 0 : loops.k();
  }
  size_t worker_bytes() const {
    const int64_t floats = (part_rows() + made_rows()) * panel_columns + part_rows() * loops.k();
    return in_lines(static_cast<size_t>(floats) * sizeof(float));
  }
  int64_t workers() const { return loops.m() * loops.n() * loops.k() < serial_products ? 1 : threads(); }
  size_t scratch_bytes() const override { return plan_bytes() + worker_bytes() * static_cast<size_t>(workers()); }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    auto* rows = static_cast<int64_t*>(scratch);
    auto* parts = reinterpret_cast<Part*>(static_cast<char*>(scratch) +
                                          in_lines(static_cast<size_t>(loops.m() + matrices + 1) * sizeof(int64_t)));
    const int64_t count = plan(buffers, rows, parts);
    const int64_t panels = divide_up(loops.n(), panel_columns);
    const int64_t team = std::min(workers(), count * panels);
    const auto run_tiles = [&](Worker& worker, int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t at = i / panels, panel = i - at * panels;
        run_tile(buffers, rows, parts[at], panel, at + 1 < count ? &parts[at + 1] : nullptr, worker);
      }
    };
    char* const own = static_cast<char*>(scratch) + plan_bytes();
    if (team <= 1) {
      Worker worker(*this, own);
      run_tiles(worker, 0, count * panels);
      return {};
    }
    // Neighbouring panels, so that what is gathered or fetched ahead serves several; fewer towards the end, so that all
    // finish together.
    Tiles tiles(count * panels, team, 2);
    parallel_for(team, [&](int64_t member) {
      Worker worker(*this, own + static_cast<size_t>(member) * worker_bytes());
      tiles.for_each_run(member, [&](int64_t first, int64_t last) { run_tiles(worker, first, last); });
    });
    return {};
  }

 private:
  // A thread's memory.
  struct Worker {
    Worker(const ChosenMatricesCall& call, char* memory)
        : sums(reinterpret_cast<float*>(memory)),
          panel(sums + call.part_rows() * panel_columns),
          gathered(panel + call.made_rows() * panel_columns) {}
    float *sums, *panel, *gathered;
    const Part* holds = nullptr;  // the part whose rows are gathered
  };

  int64_t choice(const void* choices, int64_t row) const {
    const int64_t at = row * chosen.strides[0];
    const int64_t matrix = chosen.dtype == ScalarType::i64 ? static_cast<const int64_t*>(choices)[at]
                                                           : static_cast<const int32_t*>(choices)[at];
    return std::clamp<int64_t>(matrix, 0, matrices - 1);  // what data say must not lead outside
  }

  // Orders the rows by their matrix, and cuts those of each into parts; gives how many.
  int64_t plan(std::span<void* const> buffers, int64_t* rows, Part* parts) const {
    const void* choices = buffers[static_cast<size_t>(chosen_input)];
    int64_t* const begins = rows + loops.m();  // of each matrix's rows, then where the next one goes
    std::fill(begins, begins + matrices + 1, 0);
    for (int64_t row = 0; row < loops.m(); ++row) ++begins[choice(choices, row) + 1];
    int64_t count = 0;
    for (int64_t matrix = 0; matrix < matrices; ++matrix) {
      const int64_t first = begins[matrix], mine = begins[matrix + 1], cuts = divide_up(mine, most_rows);
      for (int64_t cut = 0; cut < cuts; ++cut) {
        const int64_t from = first + mine * cut / cuts;
        parts[count++] = {matrix, from, first + mine * (cut + 1) / cuts - from};
      }
      begins[matrix + 1] += first;
    }
    for (int64_t row = 0; row < loops.m(); ++row) rows[begins[choice(choices, row)]++] = row;
    return count;
  }

  void run_tile(std::span<void* const> buffers, const int64_t* rows, const Part& part, int64_t number,
                const Part* behind, Worker& worker) const {
    const int64_t *const first = rows + part.first, column = number * panel_columns;
    const bool is_run = first[part.count - 1] - *first + 1 == part.count;
    PanelTile tile{};
    tile.k = loops.k();
    tile.rows = part.count;
    tile.columns = std::min(panel_columns, loops.n() - column);
    tile.scratch = worker.sums;
    place_panel(buffers, part, number, behind, worker, tile);
    const float* x = static_cast<const float*>(buffers[static_cast<size_t>(product.a.input)]);
    if (is_run && (loops.a.stride(1) == 1 || loops.k() == 1)) {
      tile.a = x + *first * loops.a.stride(2);
      tile.a_row = loops.a.stride(2);
    } else {
      if (worker.holds != &part) gather(x, first, part.count, worker.gathered);
      worker.holds = &part;
      tile.a = worker.gathered;
      tile.a_row = loops.k();
    }
    if (is_run) {
      Step steps[most_steps];
      place_result(buffers, *first, column, steps, tile);
      lanes().panel(tile);
      return;
    }
    tile.y = worker.sums;
    tile.y_row = panel_columns;
    lanes().panel(tile);
    for (int64_t from = 0, to; from < part.count; from = to) {
      for (to = from + 1; to < part.count && first[to] == first[to - 1] + 1;) ++to;
      Step steps[most_steps];
      tile.rows = to - from;
      tile.scratch = worker.sums + from * panel_columns;
      place_result(buffers, first[from], column, steps, tile);
      lanes().finish(tile);
    }
  }

  void place_panel(std::span<void* const> buffers, const Part& part, int64_t number, const Part* behind, Worker& worker,
                   PanelTile& tile) const {
    const void* const stack = buffers[static_cast<size_t>(product.b.input)];
    const int64_t at = part.matrix * matrix_step + number * panel_columns * loops.k();
    if (stored != ScalarType::f32) {
      tile.halves = {static_cast<const uint16_t*>(stack) + at, stored == ScalarType::bf16, worker.panel};
    } else if (in_panels) {
      tile.b = static_cast<const float*>(stack) + at;
      tile.next = (number + 1) * panel_columns < loops.n() ? tile.b + panel_columns * loops.k()
                  : behind ? static_cast<const float*>(stack) + behind->matrix * matrix_step
                           : nullptr;
    } else {
      make_panel(
          static_cast<const float*>(stack) + part.matrix * matrix_step + number * panel_columns * loops.b.stride(1),
          tile.columns, worker.panel);
      tile.b = worker.panel;
      tile.is_made = true;
    }
  }

  void make_panel(const float* b, int64_t columns, float* panel) const {
    if (loops.b.stride(2) == 1)
      return lanes().make_panel(b, loops.b.stride(1), loops.k(), columns, panel, panel_columns);
    for (int64_t k = 0; k < loops.k(); ++k, b += loops.b.stride(2), panel += panel_columns) {
      for (int64_t j = 0; j < columns; ++j) panel[j] = b[j * loops.b.stride(1)];
      std::fill(panel + columns, panel + panel_columns, 0.0f);
    }
  }

  void gather(const float* x, const int64_t* rows, int64_t count, float* to) const {
    for (int64_t i = 0; i < count; ++i, to += loops.k()) {
      const float* from = x + rows[i] * loops.a.stride(2);
      for (int64_t k = 0; k < loops.k(); ++k) to[k] = from[k * loops.a.stride(1)];
    }
  }

  void place_result(std::span<void* const> buffers, int64_t row, int64_t column, Step* steps, PanelTile& tile) const {
    write_steps(product, loops, buffers, row, column, steps);
    tile.steps = steps;
    tile.step_count = static_cast<int64_t>(product.epilogue.size());
    tile.y = static_cast<float*>(buffers[result]) + row * loops.y.stride(2) + column;
    tile.y_row = loops.y.stride(2);
  }
};

class ChosenMatrices : public Kernel {
 public:
  const char* name() const override { return "chosen_matrices"; }

  std::string refusal(const ir::Graph& body) const override {
    ChosenProduct ignored;
    return read_chosen_product(body, {}, ignored);
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    return layout(site, operand, ScalarType::f32);
  }
  std::optional<ir::BlockedLayout> half_layout(const CallSite& site, size_t operand) const override {
    return layout(site, operand, ScalarType::bf16);
  }
  bool reads_rows(const ir::Graph&, size_t) const override { return true; }
  bool writes_along(size_t axis, size_t rank) const override { return axis + 1 == rank; }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    ChosenProduct read;
    [[maybe_unused]] std::string refusal = read_chosen_product(*site.body, site.symbols, read);
    assert(refusal.empty());
    auto call = std::make_unique<ChosenMatricesCall>();
    call->loops = make_loops(read.product, site);
    const Loops& loops = call->loops;
    const Operand& stack = site.operands[static_cast<size_t>(read.product.b.input)];
    call->in_panels = stack.weight && stack.weight->layout;
    if (call->in_panels) call->stored = stack.weight->tensor.dtype;
    const auto refuse = [&](const char* why) {
      return error(Status::unsupported, 613, name() + std::string(": ") + why);
    };
    if (call->in_panels && *stack.weight->layout != panels_of_stack(stack.sizes, read, call->stored))
      return refuse("the matrices lie in a layout that is not known");
    if (loops.n() > 1 && loops.y.stride(1) != 1) return refuse("the result does not lie row by row");
    call->matrices = stack.sizes[static_cast<size_t>(read.stack)];
    if (call->matrices == 0) return refuse("there is no matrix to choose");
    call->matrix_step = call->in_panels ? stack.weight->layout->strides[static_cast<size_t>(read.stack)]
                                        : stack.strides[static_cast<size_t>(read.stack)];
    call->chosen_input = read.chosen;
    call->chosen = site.operands[static_cast<size_t>(read.chosen)];
    call->result = site.operands.size();
    const auto rows = static_cast<double>(loops.m()), matrix = static_cast<double>(loops.n() * loops.k());
    call->flops = 2 * rows * matrix;
    call->bytes =
        static_cast<double>(size_of(call->stored)) * std::min(rows, static_cast<double>(call->matrices)) * matrix +
        4 * rows * static_cast<double>(loops.n() + loops.k());
    call->detail = lanes().name;
    call->product = std::move(read.product);
    return std::unique_ptr<PreparedCall>(std::move(call));
  }

 private:
  static std::optional<ir::BlockedLayout> layout(const CallSite& site, size_t operand, ScalarType dtype) {
    ChosenProduct read;
    if (!read_chosen_product(*site.body, site.symbols, read).empty() ||
        static_cast<int>(operand) != read.product.b.input)
      return std::nullopt;
    return panels_of_stack(site.operands[operand].sizes, read, dtype);
  }
};

}  // namespace

const Kernel& chosen_matrices() {
  static const ChosenMatrices kernel;
  return kernel;
}

}  // namespace atenon::kernels
