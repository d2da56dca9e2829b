from clock import tick


def test_two_ticks_are_close():
    assert tick() - tick() > -0.02


def test_many_ticks_are_close():
    assert all(tick() - tick() > -0.02 for _ in range(40))
