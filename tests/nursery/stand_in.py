"""Stand for a Python program that a nursery runs: pass it on, with its streams, and wait.

Only modules inside the interpreter are imported, so that this takes a hundredth of a second.
"""

import _signal as signal  # pyright: ignore[reportMissingImports]
import _socket as socket
import marshal
import os
import sys

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1)


def main(address: str, arguments: list[str]) -> None:
    ignored = [number for number in PASSED_ON if signal.getsignal(number) == signal.SIG_IGN]
    folder = os.getcwd()  # noqa: PTH109 -- pathlib takes longer to import than all of this
    wanted = marshal.dumps((os.getpid(), arguments, folder, dict(os.environ), ignored))
    wanted = len(wanted).to_bytes(4, "big") + wanted
    nursery = socket.socket(socket.AF_UNIX)
    nursery.connect(address)
    # A signal that comes before the program is there waits, so that it is sent behind it.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    sent = nursery.sendmsg([wanted], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    nursery.sendall(wanted[sent:])
    for number in PASSED_ON:
        if number not in ignored:
            signal.signal(number, lambda number, _: pass_on(nursery, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    # The program has the streams now, and whoever is at their other end must see it close them.
    for stream in range(3):
        os.close(stream)
    answer = nursery.recv(4)
    # No answer: the nursery was ended, and has killed the program.
    code = int.from_bytes(answer, "big", signed=True) if answer else -signal.SIGKILL
    if code >= 0:
        os._exit(code)
    if -code in PASSED_ON:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


def pass_on(nursery: socket.socket, number: int) -> None:
    try:  # noqa: SIM105 -- contextlib takes longer to import than all of this
        nursery.send(bytes([number]))
    except OSError:  # the program has just ended, and its code is on its way
        pass


main(sys.argv[1], sys.argv[2:])
