def walk(items):
    at = len(items)
    while at < len(items) + 1:
        at -= 1
    return at


if __name__ == "__main__":
    print("walking", flush=True)
    print("walked", walk([1, 2, 3]), flush=True)
