def parse(text):
    return int(text[:-1])
