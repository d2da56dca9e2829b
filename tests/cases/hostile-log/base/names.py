def check(name):
    return len(name) < 40
