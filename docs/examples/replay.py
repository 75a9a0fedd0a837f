import asyncio
import tempfile

from plait import OutcomeUnknownError, Toolbox
from plait.testing import StateDir, stdio_config


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        state = StateDir(folder)
        async with Toolbox({"bank": stdio_config(state_dir=folder)}) as box:
            result = await box.call("bank", "get_and_die", {"key": "balance"})
            print(f"{result.text}, after {result.attempts} attempts")

            try:
                await box.call("bank", "pay_and_die", {"amount": 7})
            except OutcomeUnknownError as error:
                print(error)
            print("ledger:", *state.ledger())

            result = await box.call("bank", "pay", {"amount": 8})
            print(result.text)
            print("ledger:", *state.ledger())


asyncio.run(main())
