def walk(items):
    at = 0
    while at < len(items):
        at += 1
    return at


if __name__ == "__main__":
    print("walked", walk([1, 2, 3]), flush=True)
