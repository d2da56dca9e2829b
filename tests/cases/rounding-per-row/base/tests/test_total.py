from billing.total import total


def test_an_empty_bill_is_zero():
    assert total([]) == 0


def test_the_total_is_rounded_once():
    assert total([0.125, 0.125, 0.125]) == 0.38
