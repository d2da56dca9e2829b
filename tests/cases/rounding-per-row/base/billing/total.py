def total(rows):
    return round(sum(rows), 2)
