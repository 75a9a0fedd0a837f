import asyncio

from plait.reasoning import asolve, check_solution

delivery = {
    "form": "path",
    "roads": [
        ["depot", "mill", 7],
        ["depot", "dock", 3],
        ["dock", "mill", 2],
        ["dock", "farm", 8],
        ["mill", "farm", 4],
        ["mill", "shop", 9],
        ["farm", "shop", 3],
    ],
    "start": "depot",
    "end": "shop",
    "via": ["mill"],
}


async def main() -> None:
    answer = await asolve(delivery)
    print(answer.status, answer.solution)

    proposed = {"route": ["depot", "mill", "shop"]}
    checked = await check_solution(delivery, proposed)
    print(checked.status, "-", checked.text)

    flooded = await asolve({**delivery, "avoid": ["farm"]})
    print(flooded.status, flooded.solution)


asyncio.run(main())
