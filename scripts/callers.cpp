// Many callers of one loaded program: calls a second from 1, 2, 4, ... threads, each with inputs and outputs of its own.
//
//   g++ -O2 -std=c++20 -Ilib/run scripts/callers.cpp build/lib/libatenon.so -Wl,-rpath,$PWD/build/lib -o /tmp/callers
//   /tmp/callers PROGRAM [MOST CALLERS] [THREADS OF THE POOL]
//
// The program's inputs must have fixed sizes; they are filled with ones.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "atenon.h"

namespace {

constexpr double seconds = 1.0;  // of each measurement

struct Buffers {
  std::vector<std::vector<int64_t>> sizes;
  std::vector<std::vector<float>> data;
  std::vector<atenon_tensor> tensors;
};

// Room for 8 bytes an element, whatever its type is.
void add(Buffers& buffers, atenon_dtype dtype, const int64_t* sizes, int rank, float value) {
  size_t count = 1;
  for (int i = 0; i < rank; ++i) count *= static_cast<size_t>(sizes[i]);
  buffers.sizes.emplace_back(sizes, sizes + rank);
  buffers.data.emplace_back(2 * count, dtype == ATENON_F32 ? value : 0.0f);
  buffers.tensors.push_back({dtype, rank, nullptr, nullptr});
}

void point(Buffers& buffers) {
  for (size_t i = 0; i < buffers.tensors.size(); ++i) {
    buffers.tensors[i].sizes = buffers.sizes[i].data();
    buffers.tensors[i].data = buffers.data[i].data();
  }
}

[[noreturn]] void fail(const char* message) {
  std::fprintf(stderr, "callers: %s\n", message);
  std::exit(1);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) fail("usage: callers PROGRAM [MOST CALLERS] [THREADS OF THE POOL]");
  const int most = count > 2 ? std::atoi(arguments[2]) : static_cast<int>(std::thread::hardware_concurrency());
  if (count > 3) atenon_set_threads(std::atoi(arguments[3]));
  atenon_session* session = nullptr;
  char* message = nullptr;
  if (atenon_load_file(arguments[1], nullptr, &session, &message) != ATENON_OK) fail(message);

  const auto make = [&](Buffers& inputs, Buffers& outputs) {
    int64_t sizes[16];
    atenon_dtype dtype;
    for (size_t i = 0; i < atenon_input_count(session); ++i) {
      const int rank = atenon_input_type(session, i, &dtype, sizes, 16);
      for (int axis = 0; axis < rank; ++axis)
        if (sizes[axis] < 0) sizes[axis] = 1;
      add(inputs, dtype, sizes, rank, 1);
    }
    point(inputs);
    for (size_t i = 0; i < atenon_output_count(session); ++i) {
      int rank = 0;
      atenon_output_type(session, i, &dtype, sizes, 16);
      if (atenon_output_sizes(session, inputs.tensors.data(), inputs.tensors.size(), i, sizes, 16, &rank, &message) != ATENON_OK)
        fail(message);
      add(outputs, dtype, sizes, rank, 0);
    }
    point(outputs);
  };

  double alone = 0;
  std::vector<float> wanted;
  for (int callers = 1; callers <= most; callers *= 2) {
    std::atomic<int64_t> calls = 0;
    std::atomic<int> ready = 0;
    std::atomic<bool> go = false, stop = false;
    std::vector<Buffers> inputs(callers), outputs(callers);
    std::vector<std::thread> threads;
    for (int i = 0; i < callers; ++i)
      threads.emplace_back([&, i] {
        char* why = nullptr;
        make(inputs[i], outputs[i]);
        const auto call = [&] {
          if (atenon_run(session, inputs[i].tensors.data(), inputs[i].tensors.size(), outputs[i].tensors.data(),
                         outputs[i].tensors.size(), &why) != ATENON_OK)
            fail(why);
        };
        call();
        ++ready;
        while (!go) std::this_thread::yield();
        int64_t own = 0;
        for (; !stop.load(std::memory_order_relaxed); ++own) call();
        calls += own;
      });
    while (ready < callers) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    go = true;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    for (std::thread& thread : threads) thread.join();
    const double rate = static_cast<double>(calls) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (callers == 1) alone = rate, wanted = outputs[0].data[0];
    for (const Buffers& buffers : outputs)
      if (std::memcmp(buffers.data[0].data(), wanted.data(), wanted.size() * sizeof(float)) != 0) fail("a caller got other bits");
    std::printf("%3d callers: %10.0f calls/s, %.2f of one caller's\n", callers, rate, rate / alone);
  }
  atenon_free(session);
}
