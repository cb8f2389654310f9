// A thread of its own, since the tool is busy; it sleeps until there is something to show.
#include "cli/progress.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <system_error>

namespace atenon::cli {

using namespace std::chrono_literals;

Progress::Progress(std::string text) : text_(std::move(text)) {
  try {
    if (isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { show(); });
  } catch (const std::system_error&) {}  // no more threads for this process: nothing is shown
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Progress::show() {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return over_; };
  if (ended_.wait_for(lock, 500ms, over)) return;
  for (int tenths = 5; !over_; ++tenths) {
    std::cerr << "\r" + text_ + " " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s"
              << std::flush;
    ended_.wait_for(lock, 100ms, over);
  }
  std::cerr << "\r\033[K" << std::flush;
}

}  // namespace atenon::cli
