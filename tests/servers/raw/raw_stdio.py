"""An MCP server on stdio without an SDK: `raw_stdio.py MODE [--era both|legacy|modern]`.

The modes are in `payloads.py`.
"""

from __future__ import annotations

import argparse
import json
import sys

from payloads import MODES, answer

NOISE = [
    *("", "Server ready", "\x1b[32m[info]\x1b[0m handled {not json}", "[1, 2, 3]", '"text"', "17"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--era", choices=["both", "legacy", "modern"], default="both")
    arguments = parser.parse_args()
    noise = arguments.mode in {"noise", "all"}
    for line in sys.stdin:
        reply = answer(arguments.mode, json.loads(line), era=arguments.era)
        if reply is None:
            continue
        print(*(NOISE if noise else []), json.dumps(reply), sep="\n", flush=True)
        if noise:
            print(*NOISE, sep="\n", flush=True)


if __name__ == "__main__":
    main()
