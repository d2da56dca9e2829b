from limits import parse


def test_a_limit_with_a_unit():
    assert parse("12") == 12
