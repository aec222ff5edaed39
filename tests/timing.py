"""Run a command, and print how long it took: wall seconds, and the CPU seconds of it and of all that it started.

What it leaves behind is adopted and reaped here, so that the processor time of a process counts also where its parent
has ended before it.
"""

import ctypes
import os
import resource
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2), Linux


def main(name: str, *command: str) -> int:
    """Run the command; its exit code, as a shell gives it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    child = os.posix_spawnp(command[0], command, os.environ)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the command too, and is its affair
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    code = _ended(child)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall, used = time.monotonic() - started, usage.ru_utime + usage.ru_stime
    print(f"{name}: {wall:.1f} s wall, {used:.1f} s CPU", flush=True)
    return code


def _ended(child: int) -> int:
    """Wait for the command, and meanwhile for whatever it orphans."""
    while True:
        process, status = os.wait()
        if process == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
