import asyncio
import os
import signal

from plait import Toolbox


async def main() -> None:
    async with Toolbox("mcp.json") as box:
        for tool in await box.tools():
            print(f"{tool.server}: {tool.wire_name}")

        total = await box.call("clock", "add_numbers", {"a": 3, "b": 4})
        await box.call("notes", "add_note", {"text": f"buy {total.text} apples"})

        if pid := box.status()["notes"].pid:
            os.kill(pid, signal.SIGKILL)  # the server crashes

        notes = await box.call("notes", "read_notes")
        print(notes.text.strip())

        answer = await box.call("notes", "burn_notes")
        print(answer.is_error, answer.text)

        print(box.status().summary)


asyncio.run(main())
