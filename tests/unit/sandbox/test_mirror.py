"""Which mirror apt's lists name."""

from pathlib import Path

import pytest

from sandbox.build import find_mirror, parse_first_mirror

DEB822 = """\
Types: deb
# http://snapshot.debian.org/archive/debian/20250520T000000Z
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
"""


@pytest.mark.parametrize(
    ("text", "mirror"),
    [
        ("deb http://a.example/debian bookworm main", "http://a.example/debian"),
        ("deb https://a.example/debian/ bookworm main", "https://a.example/debian"),
        ("deb [signed-by=/k arch=amd64] http://a/debian x main", "http://a/debian"),
        ("# deb http://off/debian x main\ndeb http://on/debian x main", "http://on/debian"),
        ("deb-src http://src/debian x main", None),
        ("deb http://security.debian.org/debian-security x main", None),
        ("deb http://sec/debian-security x main\ndeb http://a/debian x main", "http://a/debian"),
        ("deb https://packages.vendor.example/apt stable main", None),
        ("deb http://archive.ubuntu.com/ubuntu noble main", None),
        ("deb cdrom:[Debian]/ bookworm main", None),
        ("deb file:/srv/debian bookworm main", None),
        ("", None),
    ],
)
def test_the_first_debian_mirror_of_a_list(text: str, mirror: str | None) -> None:
    assert parse_first_mirror(text, deb822=False) == mirror


@pytest.mark.parametrize(
    ("text", "mirror"),
    [
        (DEB822, "http://mirror.example/debian"),
        ("Enabled: no\n" + DEB822, None),
        (DEB822.replace("Types: deb", "Types: deb-src"), None),
        (DEB822.replace("Types: deb", "types: deb deb-src"), "http://mirror.example/debian"),
        ("Types: deb\nURIs:\n https://a/debian\n http://b/debian\n", "https://a/debian"),
        (DEB822.replace("/debian\n", "/debian-security\n"), None),
        (
            "Types: deb\nURIs: https://v.example/x\n\n" + DEB822,
            "http://mirror.example/debian",
        ),
        ("nonsense", None),
    ],
)
def test_the_first_debian_mirror_of_stanzas(text: str, mirror: str | None) -> None:
    assert parse_first_mirror(text, deb822=True) == mirror


def test_the_lists_of_a_machine_are_read_in_order(tmp_path: Path) -> None:
    assert find_mirror(tmp_path) is None
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "a.sources.save").write_text("Types: deb\nURIs: http://saved/debian\n")
    (parts / "b.sources").write_text(DEB822)
    assert find_mirror(tmp_path) == "http://mirror.example/debian"
    (tmp_path / "sources.list").write_text("deb http://first/debian bookworm main\n")
    assert find_mirror(tmp_path) == "http://first/debian"
