// Where nodes come from, as torch.export notes it in their metadata: Python's tracebacks and stacks of modules, as
// text. Private to lib/pt2.
//
// Programs hold no absolute paths: files of installed packages are named from their package on, the user's own files
// from the deepest folder that they all share. Frames inside of PyTorch are dropped.
#pragma once

#include <set>
#include <string>

#include "ir/program.h"

namespace atenon::pt2 {

class CallStacks {
 public:
  // First all tracebacks of the archive are noted, so that the shared folder is known; then stacks are asked for.
  void note(const std::string& traceback);
  // `modules`: entries `key,path,class` separated by semicolons.
  ir::CallStack stack(const std::string& traceback, const std::string& modules) const;

 private:
  std::string relative(const std::string& file) const;
  std::set<std::string> folders_;  // of the user's files
};

}  // namespace atenon::pt2
