for number in range(90_000):
    print("step", number, "of the long way, as the change prints each of them")
raise SystemExit("the last step failed")
