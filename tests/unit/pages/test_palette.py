"""Every text on a page can be read: its colour against every ground that it may stand on."""

import re
from collections.abc import Mapping
from importlib.resources import files
from itertools import product

import pytest

STYLE = files("worker.pages").joinpath("templates/page.css").read_text(encoding="utf-8")
LIGHT, DARK, *OTHERS = re.findall(r":root\{([^}]*)\}", STYLE)
NAME = re.compile(r"--([a-z]+):(#[0-9a-f]{3,6})")
PALETTES = {
    "light": dict(NAME.findall(LIGHT)),
    "dark": dict(NAME.findall(LIGHT)) | dict(NAME.findall(DARK)),
}
RULES = re.findall(r"([^{}]+)\{([^{}]*)\}", STYLE.replace(LIGHT, "").replace(DARK, ""))
BUTTON = "button"
"""The one rule whose text has a ground of its own, on which no other text stands."""
MARKS = re.compile(r"::before$|^rect|^\.(rail|used)|svg|line$")
"""Rules that colour shapes, not the ground of a text."""


def list_colours(name: str) -> set[str]:
    """The variables that rules set `name` to; of grounds, those that texts may stand on."""
    found = set()
    for selector, body in RULES:
        parts = [part.strip() for part in selector.split(",")]
        if BUTTON in parts or (name == "background" and all(map(MARKS.search, parts))):
            continue
        found |= set(re.findall(rf"(?<![a-z-]){name}:(?:[^;]*\s)?var\(--([a-z]+)\)", body))
    return found


def measure_contrast(one: str, other: str) -> float:
    """The ratio of two colours' luminances (WCAG 2.2, contrast ratio)."""
    darker, lighter = sorted(map(measure_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def measure_luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(each * 2 for each in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_contrast_is_measured_as_it_is_defined() -> None:
    assert measure_contrast("#000", "#fff") == pytest.approx(21)
    assert measure_contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_every_text_has_a_contrast_of_four_and_a_half(palette: Mapping[str, str]) -> None:
    texts, grounds = list_colours("color"), list_colours("background")
    assert {"ink", "soft", "accent", "bad", "warn"} <= texts
    assert {"ground", "panel", "code"} <= grounds
    pairs = [*product(texts, grounds), ("ground", "accent")]
    low = {
        (text, ground): ratio
        for text, ground in pairs
        if (ratio := round(measure_contrast(palette[text], palette[ground]), 2)) < 4.5
    }
    assert low == {}


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize("line", ["edge", "accent"])
def test_the_edges_of_fields_and_the_focus_can_be_seen(
    palette: Mapping[str, str], line: str
) -> None:
    for ground in ("ground", "panel"):
        assert measure_contrast(palette[line], palette[ground]) >= 3


def test_no_rule_has_a_colour_of_its_own_or_makes_one_fainter() -> None:
    assert OTHERS == []
    for selector, body in RULES:
        assert not re.search(r"#[0-9a-f]{3}|rgba?\(|hsl|color-mix", body), selector
        assert not re.search(r"opacity:(?!1\b)|filter:", body), selector


def test_both_palettes_name_the_same_colours() -> None:
    assert set(dict(NAME.findall(DARK))) == set(dict(NAME.findall(LIGHT)))
