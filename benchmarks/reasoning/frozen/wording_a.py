"""The first wording of each family; prompts may be written with it in view."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]


def twenty_four(data: Data) -> str:
    numbers = ", ".join(map(str, data["numbers"]))
    return (
        f"Make 24 of the numbers {numbers}. Use each of them exactly once, with +, -, *, / and "
        "parentheses. Answer with the expression alone."
    )


_CLUES = {
    "has": "{0} has the {1}.",
    "has_not": "{0} does not have the {1}.",
    "together": "Whoever has the {0} has the {1}.",
    "apart": "Whoever has the {0} does not have the {1}.",
    "next": "{0} sits next to {1}.",
    "not_next": "{0} does not sit next to {1}.",
    "opposite": "{0} sits opposite {1}.",
    "left": "{0} sits in the seat directly after {1}.",
}


def puzzle(data: Data) -> str:
    clues = " ".join(_CLUES[kind].format(*rest) for kind, *rest in data["clues"])
    if data["level"] == 1:
        return (
            "Ann, Ben, Cleo and Dan each have one drink (tea, milk, beer, cola) and one pet (cat, "
            f"dog, fox, owl); nobody has the same as another. {clues} Who has what? Answer with an "
            'object such as {"Ann": ["tea", "cat"], …}.'
        )
    return (
        "Ann, Ben, Cleo, Dan, Eve and Finn sit at a round table with the seats 1 to 6; seat 1 "
        f"comes after seat 6. Ann has seat 1. {clues} Answer with the list of names by seat."
    )


def route(data: Data) -> str:
    roads = ", ".join(f"{a}-{b} {far} km" for a, b, far in data["roads"])
    via = f" that passes through {data['via']}" if data["via"] else ""
    return (
        f"These roads can be used in both directions: {roads}. What is the shortest route from "
        f"{data['from']} to {data['to']}{via} and visits no town twice? Answer with the list of "
        "towns, the first and the last included."
    )


def rota(data: Data) -> str:
    away = "; ".join(f"{name} not on {', '.join(days)}" for name, days in data["away"].items())
    return (
        f"Make a rota: one of {', '.join(data['staff'])} works each day from {data['days'][0]} to "
        f"{data['days'][-1]}. They are away: {away}. Nobody works more than {data['most']} days, "
        f"and nobody two days in a row. On {' and '.join(data['busy'])} somebody who is trained "
        f"must work; trained are {' and '.join(data['trained'])}. Answer with an object from day "
        "to name."
    )


def rules(data: Data) -> str:
    lines = " ".join(f"What is {' and '.join(given)} is {then}." for given, then in data["rules"])
    return (
        f"The stone is {' and '.join(data['facts'])}. {lines} Which of these words are then true "
        f"of the stone: {', '.join(data['asked'])}? Answer with the list of those that are."
    )


def jugs(data: Data) -> str:
    sizes = ", ".join(
        f"{name} holds {size}" for name, size in zip("ABC", data["sizes"], strict=False)
    )
    return (
        f"There are empty jugs: {sizes} litres. A move is 'fill X', 'empty X' or 'pour X Y', which "
        f"pours until X is empty or Y is full. Get exactly {data['goal']} litres into one jug in "
        f"at most {data['most']} moves. Answer with the list of moves."
    )
