"""Becomes another program after asking the kernel for a signal when the parent dies.

Run as a script by `processes.guarded`: `exec_guarded.py PARENT_PID SIGNAL PROGRAM [ARGUMENT...]`.
A program of its own, because the request does not survive fork, nor a change of credentials such
as `unshare --user` makes, and code between fork and exec is not safe in a program with threads.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent_pid, signal_number, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
        # The parent may have died before the line above: then nobody would ever tell us.
        if os.getppid() != parent_pid:
            sys.exit(1)
    os.execvp(program[0], program)  # noqa: S606 (no shell is wanted)


if __name__ == "__main__":
    main()
