from plait.reasoning import solve

budget = {
    "variables": {
        "laptops": {"min": 0, "max": 10},
        "screens": {"min": 0, "max": 20},
        "chairs": {"min": 0, "max": 20},
    },
    "constraints": [
        {
            "name": "money",
            "rule": "1199.50 * laptops + 229.90 * screens + 310 * chairs <= 9000",
            "says": "There are 9,000 to spend.",
        },
        {"name": "newcomers", "rule": "laptops >= 4", "says": "Four people start in May."},
        {"name": "pairs", "rule": "screens >= laptops", "says": "Each laptop gets a screen."},
        {"name": "backs", "rule": "chairs >= 3", "says": "Three chairs are broken."},
    ],
    "maximize": "5 * laptops + 2 * screens + 3 * chairs",
}
answer = solve(budget)
print(answer.status, answer.solution, "value", answer.value, "bound", answer.bound)
