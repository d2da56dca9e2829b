import pytest

from ferrytimes.windows import Window, merge


def windows(*pairs):
    return [Window(*pair) for pair in pairs]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([(10, 20)], [(10, 20)]),
        ([(30, 40), (10, 20)], [(10, 20), (30, 40)]),
        ([(10, 20), (15, 30)], [(10, 30)]),
        ([(10, 40), (20, 30)], [(10, 40)]),
        ([(10, 20), (30, 40), (15, 35)], [(10, 40)]),
        ([(10, 20), (10, 20)], [(10, 20)]),
    ],
)
def test_merge(given, expected):
    assert merge(windows(*given)) == windows(*expected)


def test_an_empty_window_is_an_error():
    with pytest.raises(ValueError, match="empty window"):
        Window(10, 10)


@pytest.mark.parametrize(
    ("other", "overlaps", "touches"),
    [
        ((0, 9), False, False),
        ((0, 10), False, True),
        ((0, 11), True, True),
        ((19, 30), True, True),
        ((20, 30), False, True),
        ((21, 30), False, False),
    ],
)
def test_overlapping_is_not_touching(other, overlaps, touches):
    window = Window(10, 20)
    assert window.overlaps(Window(*other)) is overlaps
    assert window.touches(Window(*other)) is touches
