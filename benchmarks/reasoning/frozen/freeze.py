"""Writes `tasks.jsonl` and `digest.txt`; it was run once, for the commit that froze the folder."""

from __future__ import annotations

import hashlib
import json

from benchmarks.reasoning.frozen.tasks import FAMILIES, FOLDER, SEED, tasks_of

DIGEST = FOLDER / "digest.txt"


def digest() -> str:
    """Return the digests of all files but this one, and one of all of them."""
    paths = sorted(p for p in FOLDER.iterdir() if p.is_file() and p != DIGEST)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    return "".join([*lines, f"{hashlib.sha256(''.join(lines).encode()).hexdigest()}  all\n"])


def main() -> None:
    """Write the tasks, then the digest."""
    tasks = [task for family in FAMILIES for task in tasks_of(SEED, family)]
    lines = [json.dumps(task, ensure_ascii=False, sort_keys=True) + "\n" for task in tasks]
    (FOLDER / "tasks.jsonl").write_text("".join(lines), "utf-8")
    DIGEST.write_text(digest(), "utf-8")


if __name__ == "__main__":
    main()
