"""What an operator's configuration leaves alone, and what it lets rest, from webhook to note."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.flow.product import Product, product
from tests.simulators.gitlab import DiffFile, MergeRequest, Pipeline
from worker.lab.script import Say

CONFIG = """
gitlab:
  skip_labels: [No-Bot]
  skip_drafts: true
  skip_paths: ["docs/*"]
  debounce: 2
"""
FINDING = "## Verdict\nunknown\n\n## Cause\nA race.\n"


@pytest.mark.usefixtures("bubblewrap")
def test_what_was_opted_out_is_left_alone_and_quick_pushes_get_one_note(tmp_path: Path) -> None:
    with product(tmp_path, lambda asked: Say(FINDING), "memory://") as told:
        told.write_settings(CONFIG)
        with told.serve() as serve:
            labelled, draft = opened(told, "labelled"), opened(told, "draft")
            labelled.labels.append("no-bot")
            draft.draft = True
            documents, pushed = opened(told, "words", "docs/index.md"), opened(told, "pushed")
            pipelines = [failed(told, mr) for mr in (labelled, draft, documents, pushed)]
            for number in range(3):
                told.gitlab.push(pushed, {"src.py": str(number).encode()})
                pipelines.append(failed(told, pushed))
            for pipeline in pipelines:
                assert (
                    told.gitlab.deliver(told.gitlab.make_pipeline_event(pipeline)).status_code
                    == 202
                )
            serve.until(lambda: told.objects("context.json"), "nothing was looked at")
            reasons = ("skip_labels", "skip_drafts", "skip_paths", "superseded by pipeline")
            serve.until(
                lambda: all(reason in serve.log.read_text() for reason in reasons),
                "a reason is missing",
            )
        assert "gitlab.debounce" in serve.log.read_text()
        assert [len(mr.list_notes()) for mr in (labelled, draft, documents, pushed)] == [0, 0, 0, 1]
        assert len(told.objects("context.json")) == 1
        assert told.gitlab.unexpected_requests == []


def opened(told: Product, branch: str, path: str = "src.py") -> MergeRequest:
    return told.gitlab.open_merge_request(
        told.scene.mr.project,
        told.scene.author,
        title=branch,
        branch=branch,
        files={path: b"0"},
        diffs=[DiffFile(path, "@@ -0,0 +1 @@\n+0\n")],
    )


def failed(told: Product, mr: MergeRequest) -> Pipeline:
    """A pipeline that has failed just now, by the worker's own clock."""
    pipeline = told.gitlab.run_pipeline(mr)
    told.gitlab.add_job(pipeline, "test")
    pipeline.created_at = datetime.now(UTC).isoformat()
    return pipeline
