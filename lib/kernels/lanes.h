// Inner loops of our own, compiled once for each vector width and chosen by the CPU at hand.
//
// The loops are in lanes_loops.h; lanes_avx512.cpp, lanes_avx2.cpp and lanes_portable.cpp give them vectors. Those
// files are compiled for their instruction set, so they must not instantiate anything of the standard library that
// others could share.
#pragma once

#include <cstdint>

namespace atenon::kernels {

// Distances count elements: between queries and between keys.
template <class T>
struct AttentionMask {
  const T* first;
  int64_t row, column;
};

// Attention of some queries of one head: softmax(scale * q k^T + masks) v. Distances count elements.
struct AttentionTile {
  const float *q, *k, *v;
  float* y;
  int64_t q_row, q_column, k_row, k_column, v_row, v_column, y_row, y_column;
  int64_t first_query, queries;  // of the tile; positions count for `causal`
  int64_t keys, depth, value_depth;
  float scale;
  bool causal;         // query i sees keys 0 to i
  bool empty_is_zero;  // a query that sees nothing gives zeros, not NaN
  // Masks, from the tile's first query on, or null.
  AttentionMask<float> added[3];
  AttentionMask<unsigned char> truths;
  bool truths_hide;  // true: not seen
  float hidden;      // the score of what the truths do not let see
  float* scratch;
};

// What an epilogue does to a value x: f(x), or x op operand.
enum class StepKind {
  relu,
  clamp /* to [alpha, beta] */,
  gelu_erf,
  gelu_tanh,
  silu,
  sigmoid,
  tanh,
  hardswish,
  hardsigmoid,
  leaky_relu /* alpha */,
  elu /* alpha */,
  exp,
  abs,
  sqrt,
  affine /* alpha * x + beta */,
  add,
  subtract,
  multiply,
  divide
};

struct Step {
  StepKind kind;
  float alpha, beta;
  const float* operand;  // at the tile's first element; null for f(x)
  int64_t row, column;   // its distances
};

// A matrix is stored in panels of this many columns: panel p is k rows of columns [64 p, 64 p + 64), the last one
// padded with zeros.
constexpr int64_t panel_columns = 64;
// It as a type, by which loops over a panel's rows are told from others.
struct RowsOfPanel {
  constexpr operator int64_t() const { return panel_columns; }  // NOLINT(google-explicit-constructor)
};
// Rows of such a product are computed in blocks of at most this many. A tile of more has blocks of at least four rows,
// whose sums are added up alike, however many there are.
constexpr int64_t tallest_block = 12;
constexpr int64_t widest_vector = 16;  // floats

// How many rows of a panel are used at once, and widened before: they, the next ones and what they are multiplied by
// stay in the second-level cache, of 512 KB or more.
constexpr int64_t panel_depth = 512;

// Floats of 16 bits that stand for f32, and room for the widened ones.
struct Halves {
  const uint16_t* first;
  bool is_bfloat;  // else float16
  float* room;
};

// Rows that lie evenly, and take a part of the panel: columns [first, last) of runs [first_run, last_run); where a line
// is several runs, of each line those between the first one's place in its line and the last one's.
struct Stretch {
  int64_t rows, a, a_row;  // where the first row lies, from the tile's a on, and how far apart they are
  int64_t place, step;     // the same, in rows of the result
  int64_t first_run, last_run, first, last;
};

// Some rows of a product with one panel: y = epilogue(a * b + bias).
struct PanelTile {
  const float* a;  // columns side by side
  int64_t a_row, rows, k;
  // Where each `run` columns of a row begin in it, if they are not all side by side; or null. Some of them are a line.
  const int64_t* runs;
  int64_t run, runs_of_line;
  // The rows, if they do not all lie evenly and take all columns; or null. Only with runs.
  const Stretch* stretches;
  int64_t stretch_count;
  const float* b;
  const float* next;  // what this thread reads next, as many bytes as a panel, to be fetched; null: nothing is fetched
  bool is_made;       // b was made just now: none of it has to be fetched
  Halves halves;      // instead of b, if there; room for panel_depth rows of the panel, or k
  int64_t columns;    // of the panel that are there
  const float* bias;  // or null
  const Step* steps;
  int64_t step_count;
  float* y;  // columns side by side; may be an operand of the epilogue
  int64_t y_row;
  float* scratch;  // rows * panel_columns; may be y, where y_row is panel_columns
};

constexpr int64_t most_depthwise_outputs = 64;  // of a line of a DepthwiseTile

// Some outputs, side by side in some lines, of up to panel_columns channels of a depthwise convolution. Weights lie tap
// by tap, panel_columns channels each.
struct DepthwiseTile {
  const float* x;  // where the first output's window begins; taps outside of the image are not read
  const float* w;
  int64_t x_step, x_tap;  // in x, between outputs, and between taps of a row of the window
  int64_t x_vector;       // and between vectors of channels, if the pixels of each lie apart; else 0: side by side
  int64_t taps;           // of a row of the window
  int64_t filters;        // of each channel of x: 1, or 2 or 4, but not of three taps, nor in runs
  const int64_t* rows_x;  // the rows of the window that lie in the image: where they begin in x and in w
  const int64_t* rows_w;
  int64_t rows;
  int64_t first, stride, dilation, width;  // the first output's window begins at `first` of the image's `width` columns
  int64_t lines, x_line, y_line;           // more than one only where the epilogue has no operands
  PanelTile out;  // of the first line: rows are outputs, columns channels; only what follows a product is used
};

// Whether such windows may be computed in runs, for several outputs at once: then the pixels of a vector of channels
// lie side by side, as x_step and x_tap say.
constexpr bool in_runs(int64_t taps, int64_t stride, int64_t dilation) {
  return (taps == 5 || taps == 7) && stride == 1 && dilation == 1;
}

constexpr int64_t most_line_results = 4;

// Up to panel_columns columns of some results of a convolution whose image lies in lines. A result is the sum over
// planes (channels and depths), rows of the window and taps of such a row.
struct LineFilterTile {
  const float* x;              // where the first result's window begins; whole vectors are read
  int64_t x_plane, x_row;      // between planes, and between rows of the window
  const int64_t* columns;      // where the taps of a row lie
  int64_t planes, rows, taps;  // rows: at least as many as results, where these are lines
  const float* w;              // plane by plane, row by row, tap by tap
  int64_t w_result;            // between filters of results; 0: result i is the same filter's, i lines below
  int64_t results;             // at most most_line_results
  const float* start;          // what is added to each of them
  int64_t count;               // columns
  float* y;                    // results are panel_columns apart; whole vectors are written
};

// Some outputs, side by side, of a convolution whose sums have few terms: term i of an output is x[taps[i]] times row i
// of the weights, of which whole vectors are read.
struct TapsTile {
  const float* x;  // of the first output
  int64_t x_step;  // between outputs
  const int64_t* taps;
  int64_t tap_count;
  const float* w;
  int64_t w_row;
  PanelTile out;  // as in DepthwiseTile
};

// Some lines of outputs of a convolution in groups: of `groups` groups that fill a vector together (2 or 4), or of one.
// Numbers of several groups lie in turn: the first of each, then the second of each.
struct GroupsTile {
  int64_t groups, channels;  // and how many each group reads of a tap: an even number
  const float* x;            // of the first output
  int64_t x_step, x_line;    // between outputs, and between lines of them
  int64_t line_rows;         // outputs of a line
  const int64_t* taps;       // where the pixels of a window begin; of one group, also several that lie side by side
  int64_t tap_count;
  const float* w;  // for each tap and channel w_row floats, of which whole vectors are read; a vector of several groups
  int64_t w_row;
  PanelTile out;  // as in DepthwiseTile; columns are the groups' one behind the other
};

// Makes pixels as GroupsTile reads them of pixels whose groups lie one behind the other.
struct LineInTurn {
  const float* from;              // the first pixel's groups, of which `present` are there; the others are 0
  int64_t step;                   // between pixels
  int64_t before, pixels, after;  // pixels that are 0, that are read, and that are 0
  int64_t groups, present, channels;
  float* to;
};

// The sums of one tile of a Winograd convolution and up to panel_columns of its channels, on the way to the image.
struct WinogradOutputs {
  const float* sums;   // of the first point; whole vectors of them are read
  int64_t point;       // distance between points
  const float* bias;   // or null
  const float* added;  // what is added to the outputs, channels side by side, or null
  int64_t added_row, added_column;
  bool is_rectified;      // negative outputs become 0
  int64_t channels;       // that are there
  int64_t rows, columns;  // of the tile that lie in the image
  float* y;               // channels side by side; may be `added`
  int64_t y_row, y_column;
};

// Some lines of outputs of windows that slide over planes in rows: some lines of one plane, or all of several.
struct PoolTile {
  const float* x;
  int64_t planes, x_plane, y_plane;  // how many, and how far apart
  int64_t width, x_row;              // of a plane's rows, and how far apart those of a window are
  const int32_t *rows, *row_counts;  // of each line: the first row of its windows that lies in the image, and how many
  int64_t lines;
  int64_t padding, dilation, window;  // of columns
  int64_t step, outputs;              // between windows in a line, and how many
  const int32_t* places;              // i * step; whole vectors are read
  // For averages, by how many rows and columns of its window an output is divided, as factors: of each line, and of
  // each output in a line, of which whole vectors are read. Null: the largest is wanted.
  const float *row_shares, *shares;
  float* y;
  float* scratch;  // line_floats for each line: a row of x between what pads it, and vectors behind them
  int64_t line_floats;
};

// Some outputs, side by side, of windows that slide over pixels whose channels lie side by side.
struct WindowsTile {
  const float* x;       // the image's first pixel
  const int64_t* rows;  // the rows of the windows that lie in the image: where they begin, from x on
  int64_t row_count;
  const int64_t* columns;        // of each output: where the first column of its window in the image lies in a row
  const int32_t* column_counts;  // and how many lie there
  int64_t x_tap;                 // between columns of a window
  int64_t outputs, channels;
  float* y;
};

// Lines of `length` complex numbers that are transformed side by side, as each step works on neighbours. Number r of
// line l lies at [r * fourier_lines + l]; complex ones are two numbers, the real part first.
constexpr int64_t fourier_lines = widest_vector;
template <class T>
struct FourierLines {
  int64_t length;
  const int64_t* factors;  // of it, in Stockham's order: each step writes as the next one reads
  int64_t factor_count;
  T turn;                    // 1 or -1
  const T *cosines, *sines;  // of turn * 2 pi k / length, for k < length
  T scale;                   // of what comes out
  T *from, *to;              // `to` is as large
  const T* turns = nullptr;  // instead of by the scale, what comes out is multiplied by these, which lie as it does
};

// Of n = 2 * length real numbers, neighbours are the parts of one complex one. Frequencies up to n / 2 are made of what
// these become, or it of the frequencies.
template <class T>
struct FourierPairs {
  int64_t length;
  bool are_given;            // real numbers are transformed, else frequencies
  bool is_whole;             // all frequencies are wanted: the others are the conjugates of those
  const T *cosines, *sines;  // of turn * 2 pi k / n
  T scale;                   // of frequencies
  const T* from;
  T* to;
};

// Such lines, and where they lie in memory. Distances count numbers.
template <class T>
struct FourierCopy {
  T* side_by_side;
  int64_t row;  // from a number of a line to the next
  T* memory;
  const int64_t* begins;  // of each line
  int64_t lines;          // at most fourier_lines
  int64_t elements, step;
  int64_t parts;  // numbers of an element, side by side: 1 or 2
  bool is_given;  // copied from the memory, else to it
};

// Some rows of a product of f64 with a panel of some of its terms: k rows of double_columns numbers, 0 where there is
// none.
constexpr int64_t double_columns = 32;
struct DoubleTile {
  const double* a;
  int64_t a_row, a_column, rows, k;
  const double* b;
  int64_t columns;  // of the panel that are there
  bool adds;        // to what the sums are, else they begin
  double* sums;     // rows of double_columns
};

struct Lanes {
  const char* name;
  int64_t width;  // of a vector, in floats
  // Whether one row meets a panel that comes from memory in several streams, which is as fast as by rows of the matrix.
  bool has_streams;
  // Floats of scratch that attention needs for one tile.
  int64_t (*attention_scratch)(int64_t keys, int64_t depth, int64_t value_depth);
  void (*attention)(const AttentionTile& tile);
  // y[i * y_row + j] = sum over k of x[i * x_row + k] * w[j * w_row + k], for i < m and j < n. Where w comes from
  // memory, what follows is fetched; in a cache that would only take time.
  void (*dots)(const float* x, int64_t x_row, int64_t m, const float* w, int64_t w_row, int64_t n, int64_t k, float* y,
               int64_t y_row, bool is_far);
  // One step of an LSTM for `units` units. The gates input, forget, cell and output are sums of what comes from the
  // step's input and from the state before. c and h are overwritten.
  void (*lstm_cell)(const float* const of_input[4], const float* const of_state[4], float* c, float* h, int64_t units);
  void (*panel)(const PanelTile& tile);
  void (*double_panel)(const DoubleTile& tile);
  // c = a * b: m x depth times depth x n, the columns of each side by side. Distances are those between rows.
  void (*product)(int64_t m, int64_t n, int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_row,
                  float* c, int64_t c_row);
  // y := a row of k numbers by `panels` whole panels that lie one behind the other.
  void (*row_by_panels)(const float* a, int64_t k, const float* b, int64_t panels, float* y);
  // What follows a product: bias and epilogue. The sums lie in the tile's scratch.
  void (*finish)(const PanelTile& tile);
  // Makes a panel of `columns` columns of a matrix that lies column by column: column j is k floats at b + j *
  // b_column. Its rows lie panel_row apart, a multiple of widest_vector, with zeros behind the last column.
  void (*make_panel)(const float* b, int64_t b_column, int64_t k, int64_t columns, float* panel, int64_t panel_row);
  // to[j * to_row + i] = from[i * from_row + j] for i < rows, of which there are at least widest_vector, and j <
  // columns.
  void (*turn)(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row);
  // y[i] = start + sum over lines of lines[k][i], for i < n.
  void (*add_lines)(const float* const* lines, int64_t count, float start, int64_t n, float* y);
  void (*filter_lines)(const LineFilterTile& tile);
  void (*depthwise)(const DepthwiseTile& tile);
  // Pixels as depthwise runs read them: to[v * to_vector + p * width + i] = x[p * x_step + v * width + i] for the
  // vectors that hold `channels` channels; those that are not there are 0.
  void (*set_apart)(const float* x, int64_t x_step, int64_t pixels, int64_t channels, float* to, int64_t to_vector);
  void (*taps)(const TapsTile& tile);
  void (*grouped)(const GroupsTile& tile);
  void (*in_turn)(const LineInTurn& line);
  // Tiles of Winograd's convolution, `outputs` a side (2 or 4). The (outputs + 2)^2 pixels, row by row, become points
  // of `channels` numbers each; what lies `ahead` of the pixels is fetched.
  void (*winograd_in)(int64_t outputs, const float* const* pixels, int64_t ahead, int64_t channels, float* points);
  void (*winograd_out)(int64_t outputs, const WinogradOutputs& tile);
  // y[i] = (1 - weight) * a[i] + weight * b[i]
  void (*blend)(const float* a, const float* b, float weight, int64_t count, float* y);
  // y[i] = (1 - weights[i]) * line[places[i]] + weights[i] * line[places[i] + 1]. Places ascend; whole vectors of them,
  // of weights and of the line behind the last place are read.
  void (*blend_places)(const float* line, const int32_t* places, const float* weights, int64_t count, float* y);
  void (*pool)(const PoolTile& tile);
  // y[j] = sum over i < rows of x[i * x_row + j], for j < n.
  void (*add_rows)(const float* x, int64_t x_row, int64_t rows, int64_t n, float* y);
  void (*largest_of_windows)(const WindowsTile& tile);
  // Give where the transforms lie: in `from` or `to`.
  float* (*transform_lines)(const FourierLines<float>& lines);
  double* (*transform_double_lines)(const FourierLines<double>& lines);
  void (*mix_pairs)(const FourierPairs<float>& pairs);
  void (*mix_double_pairs)(const FourierPairs<double>& pairs);
  // The same of a single line, whose number r lies at [r].
  void (*mix_line)(const FourierPairs<float>& pairs);
  void (*mix_double_line)(const FourierPairs<double>& pairs);
  void (*copy_lines)(const FourierCopy<float>& copy);
  void (*copy_double_lines)(const FourierCopy<double>& copy);
};

// Whether panel() does such a step.
constexpr bool has_lanes(StepKind kind) { return kind != StepKind::exp && kind != StepKind::sqrt; }

extern const Lanes lanes_portable;
extern const Lanes lanes_avx2;    // AVX2 and FMA
extern const Lanes lanes_avx512;  // AVX-512 F, BW, DQ, VL

// The widest that this CPU has, and that oneDNN is allowed to use: ONEDNN_MAX_CPU_ISA=AVX2 holds for both.
const Lanes& lanes();

}  // namespace atenon::kernels
