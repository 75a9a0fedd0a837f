from plait.reasoning import solve

packages = {
    "variables": {
        "web": ["1.9", "2.0", "2.1"],
        "orm": ["3.2", "4.0"],
        "cache": ["0.8", "1.0"],
        "python": ["3.11", "3.12", "3.13"],
    },
    "constraints": [
        {
            "name": "web 2",
            "rule": "web >= '2.0' implies orm == '4.0'",
            "says": "web 2 needs orm 4.",
        },
        {"name": "orm 4", "rule": "orm == '4.0' implies python >= '3.12'", "says": "orm 4: 3.12+."},
        {
            "name": "cache 0",
            "rule": "cache == '0.8' implies python < '3.12'",
            "says": "cache 0: 3.11.",
        },
        {
            "name": "cache 1",
            "rule": "cache == '1.0' implies web != '2.1'",
            "says": "breaks web 2.1.",
        },
        {"name": "server", "rule": "python <= '3.12'", "says": "Our servers have 3.12."},
    ],
    "maximize": "10 * position(web) + position(python)",
}
answer = solve(packages)
print(answer.status, answer.solution)

newest = {"name": "newest", "rule": "web == '2.1'", "says": "We want web 2.1."}
answer = solve({**packages, "constraints": [*packages["constraints"], newest]})
print(answer.status, [one.name for one in answer.conflict])
