// A product with one matrix in panels of 64 columns, as panels.cpp prepares it.
#pragma once

#include <memory>
#include <vector>

#include "kernels/lanes.h"
#include "kernels/product.h"

namespace atenon::kernels {

constexpr int64_t most_panel_rows = 240;  // of a tile
// Less than this is done before a second thread has woken up.
constexpr int64_t serial_products = 512 * 1024;

class PanelsCall : public PreparedCall {
 public:
  Product product;
  Loops loops;
  size_t result = 0;      // buffer
  bool in_panels = true;  // else the matrix lies column by column or row by row, and each tile makes its panel
  ScalarType stored = ScalarType::f32;  // or 16 bits, which are widened part by part
  int64_t panels = 0, row_tiles = 0;
  PanelTile common{};  // what all tiles share

  int64_t workers() const;
  size_t scratch_bytes() const override { return worker_bytes() * static_cast<size_t>(workers()); }
  Result<void> run(std::span<void* const> buffers, void* scratch) override;

 protected:
  int64_t tile_rows() const { return row_tiles == 0 ? 0 : divide_up(loops.m(), row_tiles); }  // at most
  int64_t first_row(int64_t tile) const { return row_tiles == 1 ? tile * loops.m() : loops.m() * tile / row_tiles; }
  bool in_halves() const { return stored != ScalarType::f32; }
  size_t worker_bytes() const;

  // Rows [k, k + count) of a panel of a matrix that is not in panels.
  void make_panel(std::span<void* const> buffers, int64_t number, int64_t k, int64_t count, float* panel) const;
  void make_panel(std::span<void* const> buffers, int64_t number, float* scratch) const {
    make_panel(buffers, number, 0, loops.k(), made_panel(scratch));
  }
  // The tile of a panel and rows from `row` on. What of it is made or widened lies behind the sums in `scratch`;
  // `steps` has room for most_steps.
  PanelTile tile_of(std::span<void* const> buffers, int64_t number, int64_t row, int64_t rows, Step* steps,
                    float* scratch) const;
  // The product of a panel, which is made, and some rows, by vectors.
  void multiply(std::span<void* const> buffers, int64_t number, int64_t row, int64_t rows, float* scratch) const;

 private:
  float* made_panel(float* scratch) const { return scratch + tile_rows() * panel_columns; }
};

// One that goes through the matrix unit (amx.h), its rows cut; null where there is none, or vectors are as fast.
std::unique_ptr<PanelsCall> make_amx_panels(const Product& product, const Loops& loops, ScalarType stored,
                                            bool in_panels, int threads);

}  // namespace atenon::kernels
