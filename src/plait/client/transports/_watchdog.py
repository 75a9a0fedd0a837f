"""A process that stops the children of its parent when the parent ends.

Run as a script with `python -I -S`, so it imports nothing of this package. It reads lines
`+<pgid> <mark>` and `-<pgid>` from its standard input. When that ends, or when its parent is gone,
every process group still listed is stopped, with the descendants that left their group. Those that
another process has adopted are found by the mark: a resource limit and a variable that descendants
inherit.
"""

import contextlib
import os
import select
import signal
import sys
import time

_LOOK_AT_PARENT_SECONDS = 2.0
_GRACE_SECONDS = 1.0

MARK_VARIABLE = "PLAIT_CHILD"
_VARIABLE = b"\0PLAIT_CHILD="


def processes() -> dict[int, tuple[int, int]]:
    """Map each process id to its parent and its group; empty where there is no /proc."""
    found: dict[int, tuple[int, int]] = {}
    try:
        names = os.listdir("/proc")  # noqa: PTH208  # it imports as little as possible
    except OSError:
        return found
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        found[int(name)] = (int(fields[1]), int(fields[2]))
    return found


def marked(marks: set[bytes]) -> set[int]:
    """Find the processes whose limit of realtime CPU time, or variable, is one of these numbers."""
    found: set[int] = set()
    for pid in processes() if marks else ():
        words = _read(pid, "limits").partition(b"Max realtime timeout")[2].split()
        if words and words[0] in marks:
            found.add(pid)
            continue
        variable = (b"\0" + _read(pid, "environ")).partition(_VARIABLE)[2]
        if variable.partition(b"\0")[0] in marks:
            found.add(pid)
    return found


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def members(groups: dict[int, bytes]) -> set[int]:
    """Find the processes of these groups, and all their descendants."""
    table = processes()
    chosen = {pid for pid, (_, group) in table.items() if group in groups}
    chosen |= marked({mark for mark in groups.values() if mark})
    grown = True
    while grown:
        added = {pid for pid, (parent, _) in table.items() if parent in chosen} - chosen
        grown = bool(added)
        chosen |= added
    return chosen - {os.getpid()}


def send(groups: dict[int, bytes], pids: set[int], signum: int) -> None:
    """Signal groups and single processes; ignore those that are gone."""
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signum)
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signum)


def stop(groups: dict[int, bytes]) -> None:
    """Send SIGTERM to the groups, then SIGKILL."""
    pids = members(groups)
    send(groups, pids, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < deadline and members(groups):
        time.sleep(0.05)
    send(groups, pids | members(groups), signal.SIGKILL)


def main() -> None:
    """Keep the list of groups until the parent ends."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    parent = int(sys.argv[1])
    groups: dict[int, bytes] = {}
    pending = b""
    while os.getppid() == parent:
        ready, _, _ = select.select([0], [], [], _LOOK_AT_PARENT_SECONDS)
        if not ready:
            continue
        chunk = os.read(0, 4096)
        if not chunk:
            break
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            group, _, mark = line[1:].partition(b" ")
            if line.startswith(b"+"):
                groups[int(group)] = mark
            else:
                groups.pop(int(group), None)
    if groups:
        stop(groups)


if __name__ == "__main__":
    main()
