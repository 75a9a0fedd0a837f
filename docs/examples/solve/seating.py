from typing import Any

from plait.reasoning import solve

table: dict[str, Any] = {
    "form": "order",
    "things": ["Ann", "Ben", "Cleo", "Dan", "Eve", "Finn"],
    "circle": True,
    "constraints": [
        {"name": "host", "rule": "Ann == 1", "says": "Ann sits at the door."},
        {"name": "couple", "rule": "next_to(Ben, Eve)", "says": "Ben and Eve sit together."},
        {"name": "quarrel", "rule": "opposite(Cleo, Dan)", "says": "Cleo and Dan sit far apart."},
        {"name": "help", "rule": "right_after(Finn, Ann)", "says": "Finn sits after Ann."},
    ],
}
answer = solve(table)
print(answer.status, "- to choose, add for example:", answer.tell_apart)

left = {"name": "left", "rule": "right_after(Ben, Eve)", "says": "Ben sits after Eve."}
far = {"name": "far", "rule": "not next_to(Cleo, Finn)", "says": "Cleo sits away from Finn."}
answer = solve({**table, "constraints": [*table["constraints"], left, far]})
print(answer.status, answer.solution)
