//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "assemble/Ptxas.h"

#include "assemble/AssemblerVersions.h"

#include "system/File.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern char **environ;

namespace tesela {

static std::mutex chosenMutex;
static std::string chosenPath; ///< set by use()

/// Whether `path` is a file that may be run; if not, errno says why.
static bool isProgram(const std::string &path) {
  struct stat status = {};
  if (access(path.c_str(), X_OK) != 0 || stat(path.c_str(), &status) != 0)
    return false;
  errno = S_ISDIR(status.st_mode) ? EISDIR : 0;
  return errno == 0;
}

Status Ptxas::use(const std::string &path) {
  if (!path.empty() && !isProgram(path))
    return Error(Code::notFound, "there is no program ptxas at " + path + ": " +
                                     std::strerror(errno) + "; pass the path of the file");
  std::lock_guard lock(chosenMutex);
  chosenPath = path;
  return Status::success();
}

std::optional<Ptxas> Ptxas::find() {
  {
    std::lock_guard lock(chosenMutex);
    if (!chosenPath.empty())
      return Ptxas(chosenPath);
  }
  std::string folders = std::getenv("PATH") ? std::getenv("PATH") : "";
  if (const char *home = std::getenv("CUDA_HOME"))
    folders += std::string(":") + home + "/bin";
  folders += ":/usr/local/cuda/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    size_t end = std::min(folders.find(':', begin), folders.size());
    std::string path = folders.substr(begin, end - begin) + "/ptxas";
    if (end > begin && isProgram(path))
      return Ptxas(path);
    begin = end + 1;
  }
  return std::nullopt;
}

std::string versionIn(std::string_view text) {
  auto lineFrom = [&](std::string_view word) {
    size_t begin = text.find(word);
    std::string_view rest = begin == std::string_view::npos ? "" : text.substr(begin);
    return std::string(rest.substr(0, rest.find_first_of("\r\n")));
  };
  std::string release = lineFrom("release "), build = lineFrom("Build ");
  return release.empty() || build.empty() ? "" : release + ", " + build;
}

std::string assemblerTarget(std::string_view ptx, int sm) {
  std::string plain = "sm_" + std::to_string(sm);
  std::string_view directive = ".target ";
  size_t position = ptx.find(directive);
  if (position == std::string_view::npos)
    return plain;
  std::string_view name = ptx.substr(position + directive.size());
  name = name.substr(0, name.find_first_of(", \t\r\n"));
  bool specific = name.ends_with('a') || name.ends_with('f');
  return specific ? std::string(name) : plain;
}

int kernelsWithProducts(std::string_view ptx) {
  constexpr std::string_view entry = ".entry ";
  int count = 0;
  for (size_t begin = ptx.find(entry); begin != std::string_view::npos;) {
    size_t end = ptx.find(entry, begin + entry.size());
    std::string_view kernel = ptx.substr(begin, end - begin);
    count += kernel.find("mma.sync") != std::string_view::npos ||
             kernel.find("wgmma.mma_async") != std::string_view::npos;
    begin = end;
  }
  return count;
}

std::string serialisationWarning(std::string_view log) {
  for (size_t at = log.find("(C75"); at != std::string_view::npos; at = log.find("(C75", at + 1)) {
    std::string_view number = log.substr(at + 4, 2);
    bool isSerialised = number == "04" || number == "08" || number.substr(0, 1) == "1";
    if (!isSerialised || number == "19") // C7519: ptxas added a wgmma.fence, which delays nothing
      continue;
    size_t begin = log.rfind('\n', at);
    begin = begin == std::string_view::npos ? 0 : begin + 1;
    return std::string(log.substr(begin, log.find('\n', at) - begin));
  }
  return "";
}

Resources parseResources(std::string_view log) {
  // The number before `unit` in `line`; 0 if there is none.
  auto numberBefore = [](std::string_view line, std::string_view unit) {
    size_t at = line.find(unit);
    if (at == std::string_view::npos)
      return 0;
    size_t begin = at;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9')
      --begin;
    int number = 0;
    std::from_chars(line.data() + begin, line.data() + at, number);
    return number;
  };
  Resources resources;
  for (size_t begin = 0; begin < log.size();) {
    size_t end = std::min(log.find('\n', begin), log.size());
    std::string_view line = log.substr(begin, end - begin);
    resources.registers = std::max(resources.registers, numberBefore(line, " registers"));
    resources.spillBytes =
        std::max(resources.spillBytes, numberBefore(line, " bytes spill stores") +
                                           numberBefore(line, " bytes spill loads"));
    begin = end + 1;
  }
  return resources;
}

/// Whether ptxas itself reports an error; its lines begin "ptxas fatal", "ptxas error" or "ptxas
/// FILE, line N". A shell, or a loader that lacks a library, reports errors in other forms.
static bool tellsErrors(std::string_view log) {
  for (size_t begin = 0; begin < log.size();) {
    size_t end = std::min(log.find('\n', begin), log.size());
    std::string_view line = log.substr(begin, end - begin);
    if (line.starts_with("ptxas ") && !line.starts_with("ptxas info") &&
        !line.starts_with("ptxas warning"))
      return true;
    begin = end + 1;
  }
  return false;
}

/// Waits for `process` and returns its status. Kills it if the request is over. nullopt: it ended,
/// but its status is lost, because the calling program ignores SIGCHLD or waits for all children
/// itself.
static Result<std::optional<int>> waitForProcess(pid_t process, const RequestLimits &limits) {
  constexpr auto interval = std::chrono::milliseconds(5); // ptxas runs for tenths of a second
  int status = 0;
  while (true) {
    pid_t ended = waitpid(process, &status, limits.areNone() ? 0 : WNOHANG);
    if (ended == process)
      return std::optional(status);
    if (ended < 0 && errno == ECHILD)
      return std::optional<int>();
    if (ended < 0 && errno != EINTR)
      return Error(Code::inputOutput,
                   std::string("the status of the ptxas process is not available: ") +
                       std::strerror(errno));
    if (limits.areNone())
      continue;
    if (Status over = limits.check(); !over) {
      kill(process, SIGKILL);
      while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
      }
      return over.error();
    }
    std::this_thread::sleep_for(interval);
  }
}

/// Runs `arguments` (the first is the program's path) with both outputs in the file `log`. Returns
/// the exit status, 128 or more if a signal ended it; nullopt if it is not known.
static Result<std::optional<int>> runProgram(std::vector<std::string> arguments,
                                             const std::string &log, const RequestLimits &limits) {
  std::vector<char *> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t process = 0;
  int failure = posix_spawn(&process, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0)
    return Error(Code::inputOutput,
                 arguments[0] + " could not be started: " + std::strerror(failure));
  Result<std::optional<int>> ended = waitForProcess(process, limits);
  if (!ended)
    return ended.error().within(arguments[0]);
  if (std::optional<int> status = *ended)
    return std::optional(WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status));
  return std::optional<int>();
}

/// The program's output for --version as versionIn() reads it; empty if it prints no version.
static std::string askVersion(const std::string &path) {
  constexpr std::chrono::seconds longest{10}; // it takes milliseconds
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  if (!folder)
    return "";
  RequestLimits limits;
  limits.deadline = std::chrono::steady_clock::now() + longest;
  std::string log = folder->path() + "/log";
  if (!runProgram({path, "--version"}, log, limits))
    return "";
  Result<std::string> text = readFile(log);
  return text ? versionIn(*text) : "";
}

namespace {
/// The versions of programs that this process knows.
struct KnownVersions {
  std::mutex mutex;
  std::map<std::string, std::string> versions;   ///< the key is fileOf()
  std::map<std::string, AssemblerVersions> kept; ///< the key is the path
};
} // namespace

static KnownVersions &knownVersions() {
  static KnownVersions known;
  return known;
}

void Ptxas::keepVersionsIn(const std::string &path) {
  KnownVersions &known = knownVersions();
  std::lock_guard lock(known.mutex);
  known.kept.try_emplace(path, path);
}

/// Whether the file is no script: a script may run another program tomorrow.
static bool isMachineCode(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return false;
  Result<std::string> begin = file->read(4);
  return begin && *begin == "\177ELF";
}

/// The program's path with its size and modification time.
static std::string fileOf(const std::string &program) {
  struct stat status = {};
  stat(program.c_str(), &status);
  return program + " " + std::to_string(status.st_size) + " " +
         std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec);
}

/// The version as an earlier answer gave it to this process, or (if `isKept`) to another process.
/// The mutex must be held.
static std::optional<std::string> findVersion(KnownVersions &known, const std::string &file,
                                              bool isKept) {
  if (auto said = known.versions.find(file); said != known.versions.end())
    return said->second;
  if (isKept)
    for (const auto &[path, kept] : known.kept)
      if (std::optional<std::string> version = kept.find(file))
        return known.versions[file] = *version;
  return std::nullopt;
}

/// The identity of a program that printed `version`.
static std::string identityOf(const std::string &version, const std::string &file) {
  return version.empty() ? file : version;
}

std::optional<std::string> Ptxas::knownIdentity() const {
  const std::string file = fileOf(path_);
  const bool isKept = isMachineCode(path_);
  KnownVersions &known = knownVersions();
  std::lock_guard lock(known.mutex);
  std::optional<std::string> version = findVersion(known, file, isKept);
  return version ? std::optional(identityOf(*version, file)) : std::nullopt;
}

std::string Ptxas::identity() const {
  const std::string file = fileOf(path_);
  KnownVersions &known = knownVersions();
  std::lock_guard lock(known.mutex); // so that only one thread asks the program
  if (auto said = known.versions.find(file); said != known.versions.end())
    return identityOf(said->second, file);
  const bool isKept = isMachineCode(path_);
  std::optional<std::string> version = findVersion(known, file, isKept);
  if (!version) {
    version = known.versions[file] = askVersion(path_);
    if (isKept && !version->empty())
      for (const auto &[path, kept] : known.kept)
        kept.add(file, *version);
  }
  return identityOf(*version, file);
}

/// Whether a ptxas with threads ended for a reason that it would not have without: it is older and
/// does not know the option, or it could not start threads.
static bool mayNeedOneThread(std::optional<int> exitStatus, std::string_view log) {
  bool refused = log.find("nknown option") != std::string_view::npos &&
                 log.find("split-compile") != std::string_view::npos;
  return refused || (exitStatus.value_or(0) != 0 && !tellsErrors(log));
}

Result<Assembled> Ptxas::assemble(std::string_view ptx, int sm, const RequestLimits &limits) const {
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  if (!folder)
    return folder.error();
  std::string input = folder->path() + "/kernel.ptx";
  std::string output = folder->path() + "/kernel.cubin";
  std::string logFile = folder->path() + "/log";
  if (Status status = writeFile(input, ptx); !status)
    return status.error();
  std::string target = assemblerTarget(ptx, sm);
  std::vector<std::string> arguments = {path_, "-v", "-arch=" + target, input, "-o", output};
  std::vector<std::string> withThreads = arguments;
  int threads = kernelsWithProducts(ptx);
  if (threads > 1) // gradients of 256 columns: 1.8 s with one thread, 1.0 with two
    withThreads.insert(withThreads.end(), {"--split-compile", std::to_string(threads)});
  Result<std::optional<int>> ended = runProgram(withThreads, logFile, limits);
  Result<std::string> log = readFile(logFile);
  if (threads > 1 && ended && mayNeedOneThread(*ended, log ? *log : "")) {
    if (Status status = writeFile(logFile, ""); !status)
      return status.error();
    ended = runProgram(arguments, logFile, limits);
    log = readFile(logFile);
  }
  if (!ended)
    return ended.error();
  std::string text = log ? *log : "";
  Result<std::string> cubin = readFile(output);
  bool toldErrors = tellsErrors(text);
  bool looksDone = cubin && !cubin->empty() && !toldErrors;
  int exitStatus = ended->value_or(looksDone ? 0 : 1);
  if (exitStatus != 0 && !toldErrors)
    return Error(Code::inputOutput,
                 path_ + " ended with the exit status " + std::to_string(exitStatus) +
                     " without an error in the kernel" + (text.empty() ? "" : ": " + text) +
                     "; reinstall CUDA's ptxas, or remove it from PATH and CUDA_HOME");
  if (exitStatus != 0) {
    // ptxas prints this if the PTX or the GPU is newer than itself.
    bool tooOld = text.find("Unsupported .version") != std::string::npos ||
                  text.find("is not defined for option 'gpu-name'") != std::string::npos;
    return Error(tooOld ? Code::unsupported : Code::defect,
                 path_ + " does not assemble the kernel for " + target + " (exit status " +
                     std::to_string(exitStatus) + "): " + text);
  }
  if (std::string warning = serialisationWarning(text); !warning.empty())
    return Error(Code::defect, path_ + " serialises the kernel: " + warning);
  if (!cubin)
    return cubin.error();
  return Assembled{std::move(*cubin), parseResources(text)};
}

Result<Artifact> Ptxas::assembled(const Artifact &artifact, int sm,
                                  const RequestLimits &limits) const {
  Result<Assembled> result = assemble(artifact.code, sm, limits);
  if (!result)
    return result.error();
  Artifact made = artifact;
  made.code = std::move(result->cubin);
  made.format = CodeFormat::cubin;
  made.resources = result->resources;
  return made;
}

} // namespace tesela
