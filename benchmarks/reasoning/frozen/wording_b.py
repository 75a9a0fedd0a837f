"""The second wording of each family, held back: not read while prompts or forms are written."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]


def twenty_four(data: Data) -> str:
    cards = " ".join(f"[{number}]" for number in data["numbers"])
    return (
        f"On the table lie the cards {cards}. The children must reach two dozen. Every card is "
        "played once; cards may be added, subtracted, multiplied and divided, in any grouping. "
        "Write down one calculation that works, and nothing beside it."
    )


_CLUES = {
    "has": "it is {0} who owns the {1}",
    "has_not": "the {1} is somebody else's, not {0}'s",
    "together": "{0} and {1} belong to one person",
    "apart": "{0} and {1} belong to different people",
    "next": "{0} and {1} are neighbours",
    "not_next": "there is somebody between {0} and {1} on either side",
    "opposite": "{0} looks straight at {1} across the table",
    "left": "going round upwards (1 comes after 6), {1} is immediately before {0}",
}


def puzzle(data: Data) -> str:
    clues = "".join(f"\n- {_CLUES[kind].format(*rest)}" for kind, *rest in data["clues"])
    if data["level"] == 1:
        return (
            "Four flatmates (Ann, Ben, Cleo, Dan) share a fridge and a yard. Among them they keep "
            "a cat, a dog, a fox and an owl, one each, and each has a favourite among tea, milk, "
            f"beer and cola, all different. What the landlord knows:{clues}\nSort it out. Give an "
            'object from name to the pair, for instance {"Ann": ["tea", "cat"], …}.'
        )
    return (
        "A dinner for six: the chairs around the round table carry the numbers 1 to 6, and 6 is "
        "beside 1. The hostess, Ann, takes chair 1. Her wishes for Ben, Cleo, Dan, Eve and "
        f"Finn:{clues}\nList the six names in the order of the chairs."
    )


def route(data: Data) -> str:
    roads = "\n".join(f"{a} to {b} (or back): {far} minutes" for a, b, far in data["roads"])
    parcel = f" There is a parcel for {data['via']}, so the van has to call there."
    via = parcel if data["via"] else ""
    return (
        f"A van leaves {data['from']} for {data['to']}.{via} It never comes through the same "
        f"place again. Driving times:\n{roads}\nName the stops of the quickest trip in order, from "
        f"{data['from']} up to {data['to']}, as a list."
    )


def rota(data: Data) -> str:
    away = "\n".join(f"{name}: {', '.join(days)}" for name, days in data["away"].items())
    return (
        f"The kiosk needs one person a day, {data['days'][0]} through {data['days'][-1]}. Days off "
        f"that were granted:\n{away}\nThe contract allows {data['most']} days each in that time, "
        f"with a free day after every day of work. {' and '.join(data['trained'])} know how to "
        f"handle deliveries, which come on {' and on '.join(data['busy'])}. Who does which day? "
        "Give an object whose keys are the days."
    )


def rules(data: Data) -> str:
    lines = "\n".join(
        f"{number}. {then}, if {' as well as '.join(given)}"
        for number, (given, then) in enumerate(data["rules"], 1)
    )
    return (
        f"From the handbook of a customs office:\n{lines}\nA crate comes in that is "
        f"{' and '.join(data['facts'])}; nothing else is known of it. The form has boxes for "
        f"{', '.join(data['asked'])}. List the boxes that the handbook makes you tick."
    )


def jugs(data: Data) -> str:
    sizes = ", ".join(
        f"{size} l ({name})" for name, size in zip("ABC", data["sizes"], strict=False)
    )
    return (
        f"A camper has a river and cans of {sizes}, all dry and without marks. She wants "
        f"{data['goal']} l in some can, and no more than {data['most']} steps: 'fill X' at the "
        "river, 'empty X' onto the grass, or 'pour X Y', for as long as X has water and Y has "
        "room. List her steps."
    )
