import tariff


def price(count):
    return count * tariff.PRICE
