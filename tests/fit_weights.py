"""Fits the weights of words that previews use:  python -m tests.fit_weights LOGS [CASES …]

Needs the dependency group `weights` (`pip install --group weights`). LOGS holds failed logs in
which people have marked the explaining lines: folders below `dev/` with `gold.json` (`log_file`,
`group`: its project, `gold_chunk`: the marked lines) and the log. CASES are folders of cases, as
`sandpiper eval record` writes them; the marked lines of their failed jobs' logs are those that the
`lines` of `expect.yaml` match. The same input gives the same bytes.

What is printed is how well words alone tell the marked lines from the others of the same log, for
projects that were left out (the area under the curve: 0.5 is chance, 1 is always).
"""

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any
from zlib import crc32

from worker.lab.cases import load_case
from worker.logs import line_marks, trace
from worker.logs.excerpt.scan import Scan, without_stamp

OUTPUT = Path(line_marks.__file__).with_name("weights.bin")

FOLDS, SEED = 5, 38
STRENGTH = 0.1
"""Of the regression: less keeps the weights nearer to 0."""

MARKED, OTHERS = 8.0, 80.0
"""How much the marked lines of a log count at most together, and all its other lines."""


OTHERS_SCORE = -5.75


@dataclass(frozen=True, slots=True)
class Example:
    """A log's kept lines by their texts, and whether each explains the failure."""

    project: str
    lines: dict[str, bool]


def main(logs: str, *cases: str) -> None:
    """Write the weights, and print how well those of left-out projects are told."""
    examples = [*_read_logs(Path(logs))]
    examples += [each for folder in cases for each in _read_cases(Path(folder))]
    print(f"{len(examples)} logs of {len({each.project for each in examples})} projects")
    fitting = _Fitting(examples)
    for fold in range(FOLDS):
        print(f"fold {fold}: {fitting.rate_fold(fold):.4f}")
    weights = fitting.fit(None)
    OUTPUT.write_bytes(pack_weights(fitting.find_bias(weights), weights))
    print(f"written: {OUTPUT.name}, {crc32(OUTPUT.read_bytes()):08x}")


def pack_weights(bias: float, weights: Sequence[float]) -> bytes:
    """Return the bytes of `weights.bin`."""
    scale = max(map(abs, weights)) / 127 or 1.0
    head = line_marks.HEADER.pack(line_marks.MAGIC, line_marks.VERSION, scale, bias)
    return head + bytes(round(weight / scale) & 0xFF for weight in weights)


def _read_logs(folder: Path) -> Iterator[Example]:
    for path in sorted((folder / "dev").glob("*/gold.json")):
        gold = json.loads(path.read_text("utf-8"))
        raw = (path.parent / gold["log_file"]).read_bytes()
        marked = trace.clean_trace(gold["gold_chunk"].encode()).decode("utf-8", "replace")
        texts = {_normalise(line) for line in marked.split("\n")} - {""}
        log = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        lines = _list_lines(log)
        yield Example(gold["group"], {line: _normalise(line) in texts for line in lines})


def _read_cases(folder: Path) -> Iterator[Example]:
    for path in sorted(folder.glob("**/case.yaml")):
        case = load_case(path.parent)
        patterns = [re.compile(each) for each in case.expectation.lines]
        for job in case.content.pipeline.jobs:
            log = case.read_log(job) if job.status == "failed" and patterns else None
            lines = _list_lines(log or b"")
            found = {line: any(each.search(line) for each in patterns) for line in lines}
            yield Example(case.content.project.path, found)


def _list_lines(raw: bytes) -> list[str]:
    scan = Scan()
    for lines in trace.clean_pieces([raw]):
        scan.feed(lines)
    return [line.text for line in scan.make_result().lines]


def _normalise(line: str) -> str:
    return " ".join(without_stamp(line).split())


class _Fitting:
    """The examples as the matrix that scikit-learn wants, one row for each line."""

    def __init__(self, examples: Sequence[Example]) -> None:
        numpy, sparse = import_module("numpy"), import_module("scipy.sparse")
        logs = Counter(each.project for each in examples)
        hashes, marked, weights, folds, logs_of = [], [], [], [], []
        for number, each in enumerate(examples):
            share = logs[each.project] ** -0.5
            count = sum(each.lines.values())
            others = OTHERS / max(1, len(each.lines) - count)
            for text, explains in each.lines.items():
                hashes.append(sorted(line_marks.hash_words(text)))
                marked.append(explains)
                weights.append(share * (min(1.0, MARKED / count) if explains else others))
                folds.append(crc32(each.project.encode()) % FOLDS)
                logs_of.append(number)
        ends = numpy.array([0, *accumulate(map(len, hashes))])
        columns = numpy.concatenate([numpy.array(each, dtype=numpy.int32) for each in hashes])
        ones = numpy.ones(len(columns))
        self._rows: Any = sparse.csr_matrix((ones, columns, ends), (len(hashes), line_marks.SIZE))
        self._marked, self._weights = numpy.array(marked), numpy.array(weights)
        self._weights *= len(weights) / self._weights.sum()
        self._folds, self._logs = numpy.array(folds), numpy.array(logs_of)

    def fit(self, left_out: int | None) -> list[float]:
        """Return the weights; the projects of one fold may be left out."""
        kept = self._folds != (-1 if left_out is None else left_out)
        regression = import_module("sklearn.linear_model").LogisticRegression
        fitted = regression(C=STRENGTH, max_iter=300, tol=1e-5, random_state=SEED)
        fitted.fit(self._rows[kept], self._marked[kept], sample_weight=self._weights[kept])
        weights: list[float] = fitted.coef_[0].tolist()
        return weights

    def find_bias(self, weights: Sequence[float]) -> float:
        """Return the bias with which the lines that are not marked score `OTHERS_SCORE` on average:
        so low that the words of most lines count against them."""
        numpy = import_module("numpy")
        scores = self._rows @ numpy.array(weights)
        others = self._weights * ~self._marked
        return OTHERS_SCORE - float(numpy.average(scores, weights=others))

    def rate_fold(self, fold: int) -> float:
        """Return how well the lines of this fold are told by the weights of the others."""
        rate = import_module("sklearn.metrics").roc_auc_score
        scores = self._rows @ import_module("numpy").array(self.fit(fold))
        rates = list[float]()
        for log in set(self._logs[self._folds == fold].tolist()):
            own = self._logs == log
            if 0 < self._marked[own].sum() < own.sum():
                rates.append(float(rate(self._marked[own], scores[own])))
        return sum(rates) / len(rates)


if __name__ == "__main__":
    main(*sys.argv[1:])
