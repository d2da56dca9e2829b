PRICES = {"a": 3}


def price(name: str) -> int:
    return PRICES.get(name)
