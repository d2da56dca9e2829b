"""A scripted model that answers a case as its expectation says, or plainly wrong."""

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from worker.cli.serve import serve_embedded
from worker.lab.anthropic import AnthropicSim
from worker.lab.cases import Case, JobEntry, find_cases, load_case
from worker.lab.running import play_case
from worker.lab.scoring import Played, write_markdown
from worker.lab.script import Answer, Asked, Call, Say, Script
from worker.logs.trace import clean_trace
from worker.settings import ModelSettings, ProviderSettings, Settings
from worker.settings.services import SandboxSettings
from worker.verdict.verdict import CLAIMS

CASES = Path(__file__).with_name("cases")
MODEL = "anthropic/claude-sonnet-5-5"
Driver = Literal["docker", "bubblewrap"]

LOOK = Call([("sandbox_exec", {"command": "ls /tmp/data"})])


def list_jobs(case: Case) -> list[JobEntry]:
    """The jobs of the case's pipeline and of its children."""
    pipeline = case.content.pipeline
    return [*pipeline.jobs, *(job for child in pipeline.children for job in child.jobs)]


def find_quotes(case: Case, asked: Asked, patterns: Iterable[str]) -> list[str]:
    """The first line of a log that each pattern matches, as evidence."""
    return [quote for each in patterns if (quote := _find_quote(case, asked, each))]


def _find_quote(case: Case, asked: Asked, pattern: str) -> str:
    for job in list_jobs(case):
        named = re.search(rf"job (\d+) \({re.escape(job.name)}\)", asked.first)
        lines = clean_trace(case.read_log(job) or b"").decode(errors="replace").split("\n")
        for number, line in enumerate(lines, 1):
            if named and re.search(pattern, line):
                return f"- job {named[1]} line {number}: {line}"
    for test in case.content.pipeline.tests:
        output = test.system_output.split("\n")
        for line in filter(lambda each: re.search(pattern, each), output):
            return f"- test {test.classname}.{test.name}: {line}"
    return ""


def write_answer(verdict: str, cause: str, quotes: list[str]) -> str:
    """A whole finding."""
    evidence = "\n".join(quotes) or "The record says it."
    return (
        f"## Verdict\n{verdict}\n\n## Failed\nthe job\n\n## Cause\n{cause}\n\n"
        f"## Evidence\n{evidence}\n\n## What to do\nSee the cause.\n\n"
        + (f"## Missing\n{cause}\n\n" if verdict not in CLAIMS else "")
    )


def answer_right(case: Case) -> Script:
    """A model that looks once, and answers as it is expected."""
    wanted = case.expectation

    def answer(asked: Asked) -> Answer:
        if not asked.results:
            return LOOK
        quotes = find_quotes(case, asked, wanted.lines)
        return Say(write_answer(str(wanted.verdict[0]), wanted.meaning, quotes))

    return answer


def answer_so(case: Case, verdict: str, cause: str, line: str) -> Script:
    """A model that looks once, and answers so, with the first line that `line` matches."""

    def answer(asked: Asked) -> Answer:
        if not asked.results:
            return LOOK
        return Say(write_answer(verdict, cause, find_quotes(case, asked, [line])))

    return answer


def answer_wrong(case: Case) -> Script:
    """A model that is sure of another verdict, and proves it with the runner's first line."""
    wrong = "flaky" if case.expectation.verdict[0] != "flaky" else "infrastructure"
    return answer_so(case, wrong, "It comes and goes.", "gitlab-runner")


def play(case: Case, name: str, script: Script, driver: Driver = "docker") -> Played:
    """Play a case with a scripted model, called `name` in the result, on the demo's simulators."""
    sandbox = SandboxSettings(driver=driver, shared_limits=driver == "bubblewrap")
    with AnthropicSim(script) as model:
        provider = ProviderSettings(base_url=model.url, key="a-key-of-no-worth")
        models = ModelSettings(default=MODEL, providers={"anthropic": provider})
        made = play_case(case, MODEL, 1, Settings(models=models, sandbox=sandbox), serve_embedded)
        if model.unexpected_requests:
            raise AssertionError(model.unexpected_requests[0])
    return replace(made, model=name)


def main() -> int:
    """Play all bundled cases right and wrong, and print what the scoring makes of it."""
    played = []
    for folder in find_cases((CASES,)):
        case = load_case(folder)
        played += [
            play(case, "scripted right", answer_right(case)),
            play(case, "scripted wrong", answer_wrong(case)),
        ]
        sys.stderr.write(f"{case.name}\n")
    sys.stdout.write(write_markdown(played))
    right = [each for each in played if each.model == "scripted right"]
    by_model = [each for each in played if each.model == "scripted wrong" and each.requests]
    good = all(each.is_right and each.has_expected_line for each in right)
    return 0 if good and not any(each.is_right for each in by_model) else 1


if __name__ == "__main__":
    sys.exit(main())
