"""How every session store keeps a turn's files (sessions.store.SessionStore.write_files)."""

import tracemalloc
from collections.abc import Iterator

import pytest

from tests.contract.places import KEY, Place, at
from worker.errors import StoreError, TurnTaken

MB = 1024 * 1024


def pieces(megabytes: int, size: int = 300_000) -> Iterator[bytes]:
    """A stream whose bytes differ from place to place, in pieces that fit no boundary."""
    left = megabytes * MB
    number = 0
    while left:
        piece = (number.to_bytes(4, "big") * (size // 4))[:left]
        yield piece
        left -= len(piece)
        number += 1


def test_files_of_any_size_go_through_in_constant_memory(place: Place) -> None:
    store = place.store
    store.find_latest_turn(KEY)  # connections and imports are not what is measured
    tracemalloc.start()
    try:
        assert store.write_files(KEY, 0, pieces(30)) == 30 * MB
        files = store.open_files(KEY, 0)
        assert files is not None
        expected, size, largest = Reader(pieces(30)), 0, 0
        with files as chunks:
            for chunk in chunks:
                assert chunk == expected.take(len(chunk))
                size, largest = size + len(chunk), max(largest, len(chunk))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == 30 * MB
    assert largest <= MB
    assert peak < 26 * MB


class Reader:
    """Exact bytes out of a stream of pieces."""

    def __init__(self, stream: Iterator[bytes]) -> None:
        self._stream, self._rest = stream, bytearray()

    def take(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += next(self._stream)
        taken = bytes(self._rest[:size])
        del self._rest[:size]
        return taken


@pytest.mark.parametrize("size", [0, 1, 8 * MB - 1, 8 * MB, 8 * MB + 1, 16 * MB])
def test_files_at_the_edges_of_a_part_are_whole(place: Place, size: int) -> None:
    content = b"ab" * (size // 2) + b"c" * (size % 2)
    assert place.store.write_files(KEY, 0, [content[:100], b"", content[100:]]) == size
    files = place.store.open_files(KEY, 0)
    assert files is not None
    with files as chunks:
        assert b"".join(chunks) == content


def test_files_may_be_written_again_until_the_commit(place: Place) -> None:
    place.store.write_files(KEY, 0, [b"of a worker that died"])
    place.store.write_files(KEY, 0, [b"of its heir"])
    place.store.commit_turn(KEY, 0, b"{}")
    with pytest.raises(TurnTaken):
        place.store.write_files(KEY, 0, [b"too late"])
    files = place.store.open_files(KEY, 0)
    assert files is not None
    with files as chunks:
        assert b"".join(chunks) == b"of its heir"


def test_files_of_a_committed_turn_are_not_even_read(place: Place) -> None:
    place.store.commit_turn(KEY, 0, b"{}")
    stream = pieces(1)
    with pytest.raises(TurnTaken):
        place.store.write_files(KEY, 0, stream)
    assert next(stream)[:4] == bytes(4)


@pytest.mark.parametrize("megabytes", [1, 20])
def test_files_of_a_turn_that_is_committed_meanwhile_are_not_stored(
    place: Place, megabytes: int
) -> None:
    def slow() -> Iterator[bytes]:
        yield from pieces(megabytes)
        place.store.commit_turn(KEY, 0, b"by somebody else")

    with pytest.raises(TurnTaken):
        place.store.write_files(KEY, 0, slow())
    assert place.store.open_files(KEY, 0) is None


@pytest.mark.parametrize("megabytes", [0, 1, 20])
@pytest.mark.parametrize("failure", [ValueError("broken"), OSError(28, "not the store's disk")])
def test_a_stream_that_breaks_stores_nothing_and_its_error_comes_through(
    place: Place, megabytes: int, failure: Exception
) -> None:
    def broken() -> Iterator[bytes]:
        yield from pieces(megabytes)
        raise failure

    with pytest.raises(type(failure)) as caught:
        place.store.write_files(KEY, 0, broken())
    assert caught.value is failure
    assert place.names() == []


def test_a_reader_may_stop_early_and_read_again(place: Place) -> None:
    place.store.write_files(KEY, 0, pieces(3))
    store = place.store
    for _ in range(3):
        files = store.open_files(KEY, 0)
        assert files is not None
        with files as chunks:
            assert next(chunks)[:4] == bytes(4)


def test_files_that_vanish_before_they_are_read_are_an_error(place: Place) -> None:
    place.store.write_files(KEY, 0, [b"x"])
    files = place.store.open_files(KEY, 0)
    assert files is not None
    place.remove(at(0, "sandbox.tar.gz"))
    with pytest.raises(StoreError, match=r"sandbox\.tar\.gz"), files:
        pass
