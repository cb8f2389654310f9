// The O3 pipeline, object emission and the call of lld behind link.h.
#include "lower/link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include <lld/Common/Driver.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ArchiveWriter.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include "lower/generate.h"
#include "support/parallel.h"
#include "support/streams.h"

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

// Chooses between 16-bit floats by their bits: where such a choice is a maximum, LLVM calls fmaxf, which nobody links.
void choose_by_bits(llvm::Module& module) {
  for (llvm::Function& function : module)
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
      auto* select = llvm::dyn_cast<llvm::SelectInst>(&instruction);
      if (!select || !select->getType()->getScalarType()->is16bitFPTy()) continue;
      llvm::IRBuilder<> builder(select);
      llvm::Type* bits = select->getType()->getWithNewType(builder.getInt16Ty());
      llvm::Value* chosen =
          builder.CreateSelect(select->getCondition(), builder.CreateBitCast(select->getTrueValue(), bits),
                               builder.CreateBitCast(select->getFalseValue(), bits));
      select->replaceAllUsesWith(builder.CreateBitCast(chosen, select->getType()));
      select->eraseFromParent();
    }
}

// What LLVM reports: an error is ours to give, remarks and warnings about our loops are nobody's. By itself it prints
// all of them, and an error ends the process.
class Reports : public llvm::DiagnosticHandler {
 public:
  explicit Reports(std::string& failure) : failure_(failure) {}

  bool handleDiagnostics(const llvm::DiagnosticInfo& report) override {
    if (report.getSeverity() != llvm::DS_Error || !failure_.empty()) return true;
    llvm::raw_string_ostream stream(failure_);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    stream << "generated code is refused: ";
    report.print(printer);
    return true;
  }

 private:
  std::string& failure_;
};

// An object file; "" where the machine cannot make one.
std::string emit(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) return "";
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

// What the linker opens by a path, closed at the end. Nothing of it is on a disk, where it would outlive a process that
// is killed.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close_now(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void close_now() {
    if (number_ >= 0) close(std::exchange(number_, -1));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(number_); }

 private:
  int number_;
};

Diagnostic failed(std::string what) { return error(Status::bug, 503, std::move(what)); }

Result<std::shared_ptr<Storage>> link(const std::vector<std::string>& objects) {
  // One archive of all: files may be fewer than a large model has kernels.
  std::vector<llvm::NewArchiveMember> members;
  for (const std::string& object : objects) members.emplace_back(llvm::MemoryBufferRef(object, "kernel.o"));
  auto archive = llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NoSymtab, llvm::object::Archive::K_GNU,
                                            /*Deterministic=*/true, /*Thin=*/false);
  if (!archive) return failed("generated code makes no archive: " + llvm::toString(archive.takeError()));
  const Descriptor input(memfd_create("kernels.a", MFD_CLOEXEC));
  std::ofstream file(input.path(), std::ios::binary);
  int ends[2] = {-1, -1};
  if (!file.write((*archive)->getBufferStart(), static_cast<std::streamsize>((*archive)->getBufferSize())).flush() ||
      pipe2(ends, O_CLOEXEC) != 0)
    return error(Status::unsupported, 503, std::string("the linker gets no files: ") + std::strerror(errno));
  // Into a file, the linker would write by another one beside it, which it renames.
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  const std::vector<std::string> arguments = {"ld.lld",
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
                                              write_end.path(),
                                              "--whole-archive",
                                              input.path()};
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::string output;
  llvm::raw_string_ostream stream(output);
  Result<Contents> code = Contents();
  std::thread reader([&] { code = read_contents(read_end.path()); });
  static std::mutex one_at_a_time;  // lld has state of its own
  int failures = 0;
  {
    std::lock_guard<std::mutex> lock(one_at_a_time);
    failures = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}}).retCode;
  }
  write_end.close_now();
  reader.join();
  if (failures != 0) return failed("generated code does not link: " + output);
  if (!code) return code.error();
  return Storage::view(code->bytes, code->size, code->keep_alive, true);
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
    context.setDiagnosticHandler(std::make_unique<Reports>(failures[i]));
    llvm::Module module("kernels", context);
    prepare(module, target, *machine);
    Result<SymInt> scratch = generate(module, *kernels[i].loops, kernels[i].symbol, target.vector_bits / 32);
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
    choose_by_bits(module);
    objects[i] = emit(module, *machine);
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

}  // namespace atenon::lower
