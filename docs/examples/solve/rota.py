from plait.reasoning import solve

days = ["mon", "tue", "wed", "thu", "fri"]
rota = {
    "variables": {", ".join(days): ["Ann", "Ben", "Cleo"]},
    "lists": {"days": days},
    "constraints": [
        {"name": "ann away", "rule": "mon != Ann and tue != Ann", "says": "Ann is away."},
        {"name": "no doubles", "rule": "neighbours_differ(days)", "says": "No two days in a row."},
        {"name": "ann", "rule": "count(days, Ann) <= 2", "says": "Ann works two days at most."},
        {"name": "ben", "rule": "count(days, Ben) <= 2", "says": "Ben works two days at most."},
        {"name": "cleo", "rule": "count(days, Cleo) <= 2", "says": "Cleo works two days at most."},
        {"name": "keys", "rule": "fri == Ben", "says": "Ben has the keys on Friday."},
        {"name": "market", "rule": "wed == Cleo", "says": "Cleo runs the market on Wednesday."},
    ],
}
answer = solve(rota)
print(answer.status, answer.solution)

training = {"name": "training", "rule": "tue == Cleo", "says": "Cleo trains on Tuesday."}
answer = solve({**rota, "constraints": [*rota["constraints"], training]})
print(answer.status)
for one in answer.conflict:
    print("-", one.name, "·", one.says)
