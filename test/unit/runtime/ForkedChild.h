// Runs a check in a forked child that is killed if it hangs.
#ifndef GOSSAMER_TEST_UNIT_FORKEDCHILD_H
#define GOSSAMER_TEST_UNIT_FORKEDCHILD_H

#include <sys/wait.h>
#include <unistd.h>

namespace gossamer::test {

/// Whether `check` returned true in the child within ten seconds.
template <typename Check> bool holdsInChild(Check check) {
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace gossamer::test

#endif
