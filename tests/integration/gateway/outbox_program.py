"""A program that stores chat history and may kill itself at a step: PATH URL STEP COUNT LETTERS."""

from __future__ import annotations

import os
import signal
import sys

from plait.client.config.servers import ReconnectPolicy
from plait.gateway.outbox import Outbox

path, url, deadly_step, count, letters = sys.argv[1:]
left = int(count)


def on_step(step: str, letter: int) -> None:
    global left
    os.write(1, f"{step} {letter}\n".encode())  # in one piece: several threads write
    if step == deadly_step:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


quick = ReconnectPolicy(first_delay_seconds=0.01, longest_delay_seconds=0.02)
with Outbox(path, retry=quick, on_step=on_step) as outbox:  # pyright: ignore[reportArgumentType]
    for letter in filter(None, letters.split(",")):
        outbox.put(letter[0], url, {"Content-Type": "application/json"}, f'"{letter}"'.encode())
    print("drained" if outbox.flush(20) else "stuck", flush=True)
