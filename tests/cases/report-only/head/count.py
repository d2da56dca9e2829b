def number(index):
    return index + 1
