/* Running Atenon programs from C.
 *
 * A session is one entry point of one program, loaded once. Sessions may be used from any number of threads at the same
 * time. Inputs and outputs are the leaves of the entry point's arguments and results, flattened, in order; each has a
 * name (`cache.0.1`). Tensors are dense and row-major, and belong to the caller; an output overlaps no input and no
 * other output.
 *
 *   atenon_session* session;
 *   char* message = NULL;
 *   if (atenon_load_file("mlp.atn", NULL, &session, &message) != ATENON_OK) { fputs(message, stderr); return 1; }
 *   int64_t x_sizes[] = {1, 64}, y_sizes[] = {1, 10};
 *   atenon_tensor x = {ATENON_F32, 2, x_sizes, x_data}, y = {ATENON_F32, 2, y_sizes, y_data};
 *   atenon_run(session, &x, 1, &y, 1, &message);
 *   atenon_free(session);
 *
 * Every function that can fail returns a status and, where `message` is not NULL, a text that atenon_free_message()
 * frees. */
#ifndef ATENON_H
#define ATENON_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ATENON_EXPORT __attribute__((visibility("default")))
#else
#define ATENON_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The exit statuses of the tools. */
typedef enum {
  ATENON_OK = 0,
  ATENON_USAGE = 2,       /* a name or file that is not there, too few inputs */
  ATENON_BAD_INPUT = 3,   /* the program is damaged */
  ATENON_UNSUPPORTED = 4, /* the program needs what this machine or library lacks */
  ATENON_VIOLATED = 5,    /* an input violates the program's assumptions */
  ATENON_BUG = 70
} atenon_status;

typedef enum {
  ATENON_F16,
  ATENON_BF16,
  ATENON_F32,
  ATENON_F64,
  ATENON_U8,
  ATENON_I8,
  ATENON_I16,
  ATENON_I32,
  ATENON_I64,
  ATENON_BOOL,
  ATENON_C64,
  ATENON_C128
} atenon_dtype;

typedef struct {
  atenon_dtype dtype;
  int rank;
  const int64_t* sizes; /* elements; `rank` of them */
  void* data;           /* outputs are written here; an input is only read */
} atenon_tensor;

typedef struct atenon_session atenon_session;

/* All fields may be zero. */
typedef struct {
  const char* entry;  /* entry point; NULL: the first */
  const char* opsets; /* folder of operator definitions, which only programs need that are not lowered throughout;
                         NULL: share/atenon/opsets of this library's installation, if it is there */
} atenon_options;

ATENON_EXPORT const char* atenon_version(void);

/* Threads that one run uses, for the whole process; 0: what affinity and cgroup allow. Not while a run is under way. */
ATENON_EXPORT void atenon_set_threads(int threads);

ATENON_EXPORT atenon_status atenon_load_file(const char* path, const atenon_options* options, atenon_session** session,
                                             char** message);
/* `bytes` are read in place and must stay as they are until atenon_free. */
ATENON_EXPORT atenon_status atenon_load_memory(const void* bytes, size_t size, const atenon_options* options,
                                               atenon_session** session, char** message);
ATENON_EXPORT void atenon_free(atenon_session* session);
ATENON_EXPORT void atenon_free_message(char* message);

ATENON_EXPORT size_t atenon_input_count(const atenon_session* session);
ATENON_EXPORT size_t atenon_output_count(const atenon_session* session);
/* Names live as long as the session. */
ATENON_EXPORT const char* atenon_input_name(const atenon_session* session, size_t index);
ATENON_EXPORT const char* atenon_output_name(const atenon_session* session, size_t index);
/* By name, or by position written as a number; -1 if there is none. */
ATENON_EXPORT int64_t atenon_find_input(const atenon_session* session, const char* name);
ATENON_EXPORT int64_t atenon_find_output(const atenon_session* session, const char* name);
/* The type of a leaf. `sizes` takes up to `capacity` numbers, -1 for a dynamic dimension. Returns the rank; a number
 * (int, float, bool) is passed as a tensor of rank 0. */
ATENON_EXPORT int atenon_input_type(const atenon_session* session, size_t index, atenon_dtype* dtype, int64_t* sizes,
                                    int capacity);
ATENON_EXPORT int atenon_output_type(const atenon_session* session, size_t index, atenon_dtype* dtype, int64_t* sizes,
                                     int capacity);

/* The sizes of output `index` for these inputs; only the data of numbers is read. Writes up to `capacity` sizes, and
 * the rank to `rank`. */
ATENON_EXPORT atenon_status atenon_output_sizes(atenon_session* session, const atenon_tensor* inputs,
                                                size_t input_count, size_t index, int64_t* sizes, int capacity,
                                                int* rank, char** message);

/* Runs once. A run that fails leaves the session's buffers and its draws as they were. The first run with new sizes
 * makes a plan, which takes milliseconds; later ones allocate nothing, once as many runs at a time have had the largest
 * sizes. Not so after atenon_seed, where a number is passed in another type than its own, and of calls without a kernel
 * of their own ("reference" in `atenon show`; all, where sizes depend on data); and what oneDNN takes in a few of its
 * primitives is its own. Runs of a session whose buffers change wait for each other; it holds each such buffer twice
 * that is not written in place. */
ATENON_EXPORT atenon_status atenon_run(atenon_session* session, const atenon_tensor* inputs, size_t input_count,
                                       atenon_tensor* outputs, size_t output_count, char** message);

/* Random operators draw from now on what PyTorch draws after torch.manual_seed(seed), going on from run to run; without
 * a seed they are ATENON_UNSUPPORTED. Not while a run of this session is under way; runs that draw wait for each other.
 */
ATENON_EXPORT void atenon_seed(atenon_session* session, uint64_t seed);

/* Buffers that the program writes, such as a cache, are kept from run to run, by each session for itself. Copies those
 * that both sessions have, by name, from another session of the same program: from a prefill to its decode, or to go on
 * twice from one place; ATENON_USAGE where there are none. NULL: as they were at first. Not while a run of either is
 * under way. */
ATENON_EXPORT atenon_status atenon_copy_state(atenon_session* to, const atenon_session* from, char** message);

#ifdef __cplusplus
}
#endif

#endif
