def total(rows):
    return round(sum(round(row, 1) for row in rows), 2)
