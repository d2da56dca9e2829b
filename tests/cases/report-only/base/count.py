def number(index):
    return index
