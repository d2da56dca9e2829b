def greet(names):
    return ", ".join(set(names))
