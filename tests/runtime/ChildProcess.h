//===- ChildProcess.h - Runs code in a child of fork() ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RUNTIME_CHILDPROCESS_H
#define TESELA_TESTS_RUNTIME_CHILDPROCESS_H

#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace tesela {

/// Whether this build's sanitizer lets a child of fork() start threads.
#ifdef __SANITIZE_THREAD__
inline constexpr bool canForkWithThreads = false;
#else
inline constexpr bool canForkWithThreads = true;
#endif

/// Runs `work` in a child and returns its result, or how the child ended.
inline std::string inChild(const std::function<std::string()> &work) {
  int ends[2];
  if (pipe(ends) != 0)
    return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    alarm(60); // a child that waits for a missing thread would wait forever
    std::string said = work();
    bool isSaid = write(ends[1], said.data(), said.size()) == ssize_t(said.size());
    _exit(isSaid ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char bytes[4096];
  for (ssize_t count; (count = read(ends[0], bytes, sizeof bytes)) > 0;)
    said.append(bytes, size_t(count));
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child)
    return "no child";
  if (WIFSIGNALED(status))
    return "the child was ended by signal " + std::to_string(WTERMSIG(status)) + " after: " + said;
  return said;
}

} // namespace tesela

#endif // TESELA_TESTS_RUNTIME_CHILDPROCESS_H
