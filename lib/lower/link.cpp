// The O3 pipeline, object emission and the call of lld behind link.h.
#include "lower/link.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>

#include <lld/Common/Driver.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include "lower/generate.h"
#include "support/parallel.h"

LLD_HAS_DRIVER(elf)

namespace atenon::lower {

namespace {

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  std::string failure;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(target.triple, failure);
  if (!found) return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // only where an instruction says so
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(
      target.triple, target.cpu, "", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

void prepare(llvm::Module& module, const Target& target, llvm::TargetMachine& machine) {
  module.setTargetTriple(target.triple);
  module.setDataLayout(machine.createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
}

void optimise(llvm::Module& module, const Target& target, llvm::TargetMachine& machine) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", target.cpu);
    function.addFnAttr("prefer-vector-width", std::to_string(target.vector_bits));
    function.addFnAttr("min-legal-vector-width", "0");
    // There is no libc to call: loops must not become memcpy.
    function.addFnAttr("no-builtins");
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.LoopInterleaving = true;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::TargetLibraryInfoImpl library(llvm::Triple(module.getTargetTriple()));
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

std::string emit(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, kind)) return "";
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

// A folder of our own for the linker's files, gone at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code failure;
    std::filesystem::path place = std::filesystem::temp_directory_path(failure);
    std::string pattern = (failure ? "/tmp" : place.string()) + "/atenon-lower-XXXXXX";
    if (mkdtemp(pattern.data())) path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Diagnostic failed(std::string what) { return error(Status::bug, 503, std::move(what)); }

Result<std::shared_ptr<Storage>> link(const std::vector<std::string>& objects) {
  TemporaryFolder folder;
  if (folder.path().empty()) return error(Status::usage, 503, "cannot create a temporary folder for the linker");
  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "-s",
                                        "--build-id=none",
                                        "--no-undefined",
                                        "-z",
                                        "relro",
                                        "-z",
                                        "now",
                                        "--hash-style=gnu",
                                        "--threads=1",
                                        "--gc-sections",
                                        "-o",
                                        folder.path() + "/code.so"};
  for (size_t i = 0; i < objects.size(); ++i) {
    const std::string path = folder.path() + "/" + std::to_string(i) + ".o";
    std::ofstream file(path, std::ios::binary);
    if (!file.write(objects[i].data(), static_cast<std::streamsize>(objects[i].size())).flush())
      return error(Status::usage, 503, "cannot write a temporary file for the linker: is the disk full?");
    arguments.push_back(path);
  }
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::string output;
  llvm::raw_string_ostream stream(output);
  static std::mutex one_at_a_time;  // lld has state of its own
  {
    std::lock_guard<std::mutex> lock(one_at_a_time);
    const lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
    if (result.retCode != 0) return failed("generated code does not link: " + output);
  }
  std::ifstream file(folder.path() + "/code.so", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.empty()) return failed("the linker wrote nothing");
  std::shared_ptr<Storage> storage = Storage::allocate(bytes.size());
  std::memcpy(storage->mutable_data(), bytes.data(), bytes.size());
  return storage;
}

}  // namespace

Result<Compiled> compile(const std::vector<KernelSource>& kernels, const Target& target) {
  Compiled compiled;
  compiled.scratch.resize(kernels.size(), SymInt(0));
  compiled.refusals.resize(kernels.size());
  // One module a kernel, so that the bytes do not depend on the number of threads.
  std::vector<std::string> objects(kernels.size());
  std::vector<std::string> failures(kernels.size());
  make_machine(target);
  parallel_for(static_cast<int64_t>(kernels.size()), [&](int64_t i) {
    std::unique_ptr<llvm::TargetMachine> machine = make_machine(target);
    if (!machine) {
      failures[i] = "LLVM does not know " + target.triple;
      return;
    }
    llvm::LLVMContext context;
    llvm::Module module("kernels", context);
    prepare(module, target, *machine);
    Result<SymInt> scratch = generate(module, *kernels[i].loops, kernels[i].symbol);
    if (!scratch) {
      compiled.refusals[i] = scratch.failure().message;
      return;
    }
    compiled.scratch[i] = *scratch;
    std::string problem;
    llvm::raw_string_ostream stream(problem);
    if (llvm::verifyModule(module, &stream)) {
      failures[i] = "generated code is malformed: " + problem;
      return;
    }
    optimise(module, target, *machine);
    objects[i] = emit(module, *machine, llvm::CodeGenFileType::ObjectFile);
  });
  for (const std::string& failure : failures)
    if (!failure.empty()) return failed(failure);
  std::erase(objects, "");
  if (objects.empty()) return compiled;
  Result<std::shared_ptr<Storage>> code = link(objects);
  if (!code) return code.error();
  compiled.code = *code;
  return compiled;
}

std::string disassemble(const Loops& loops, const Target& target) {
  std::unique_ptr<llvm::TargetMachine> machine = make_machine(target);
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  prepare(module, target, *machine);
  Result<SymInt> scratch = generate(module, loops, "kernel");
  if (!scratch) return scratch.failure().message + "\n";
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  optimise(module, target, *machine);
  module.print(stream, nullptr);
  text += emit(module, *machine, llvm::CodeGenFileType::AssemblyFile);
  return text;
}

}  // namespace atenon::lower
