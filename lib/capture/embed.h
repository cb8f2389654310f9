// A Python interpreter that behaves the same everywhere, and the files it reads.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "capture/python.h"
#include "support/result.h"

namespace atenon::capture {

struct Interpreter {
  std::string python_folder;        // first on sys.path: our torch
  std::string model_folder;         // second
  std::string virtual_environment;  // its site-packages come last; "" for the system's
  bool keeps_output = false;        // what Python prints goes to standard output, which no program needs
};

// Starts CPython once, with the native module known as `_atenon`. E0302 if it does not start.
Result<void> start(const Interpreter& options);

// Runs a file as a module named after it, which is returned; null with a Python exception.
Ref run_file(const std::string& path, const std::string& text);

// Runs a file as Python runs a script: __main__, with sys.argv; false with a Python exception. sys.exit() without a
// failure ends it well.
bool run_as_main(const std::string& path, const std::string& text, const std::vector<std::string>& arguments);

// Names of all modules that are imported now.
std::set<std::string> imported_modules();
// Python files of the modules imported since `before`, without ours and the standard library's, and what torch.load has
// read; sorted.
std::vector<std::string> imported_files(const std::string& python_folder, const std::set<std::string>& before);

}  // namespace atenon::capture
