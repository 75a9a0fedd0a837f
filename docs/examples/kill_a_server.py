import json
import os
import signal

from plait import Toolbox

with Toolbox({"time": {"command": "mcp-server-time"}}) as box:
    for _ in range(2):
        answer = box.call_blocking("time", "get_current_time", {"timezone": "UTC"})
        print(json.loads(answer.text)["datetime"])
        if pid := box.status()["time"].pid:
            os.kill(pid, signal.SIGKILL)  # the server crashes
    print(box.status()["time"].sessions, "sessions")
