// One line on a terminal that says what is going on, once it has gone on for half a second. Private to lib/cli.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace atenon::cli {

class Progress {
 public:
  // Shows `text` and the seconds since now. Nothing happens where standard error is not a terminal.
  explicit Progress(std::string text);
  // Takes the line away.
  ~Progress();

 private:
  void show();

  std::string text_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace atenon::cli
