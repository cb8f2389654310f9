// A Python interpreter that behaves the same everywhere, and the files it reads.
#pragma once

#include <string>
#include <vector>

#include "capture/python.h"
#include "support/result.h"

namespace atenon::capture {

struct Interpreter {
  std::string python_folder;        // first on sys.path: our torch
  std::string model_folder;         // second
  std::string virtual_environment;  // its site-packages come last; "" for the system's
};

// Starts CPython once, with the native module known as `_atenon`. E0302 if it does not start.
Result<void> start(const Interpreter& options);

// Runs a file as a module named after it, which is returned; null with a Python exception.
Ref run_file(const std::string& path, const std::string& text);

// Python files of all imported modules but ours and the standard library, sorted.
std::vector<std::string> imported_files(const std::string& python_folder);

}  // namespace atenon::capture
