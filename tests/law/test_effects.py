"""Importing a module does nothing: no connection, no process, no file, no thread, no output."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.law.house import ROOT, none, product

WATCH = r'''
import importlib, json, os, sys, threading

EFFECTS = ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.system",
           "os.exec", "os.posix_spawn", "os.fork", "os.mkdir", "os.remove", "os.rename", "os.rmdir",
           "os.putenv", "os.unsetenv", "os.truncate", "shutil.rmtree", "tempfile.mkstemp",
           "tempfile.mkdtemp")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
names, found = json.loads(sys.argv[1]), []

def culprit():
    """The module whose body runs: an effect of a third party's import is not the house's."""
    frame = sys._getframe()
    while frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame.f_globals["__name__"]

def hook(event, args):
    writes = event == "open" and isinstance(args[2], int) and args[2] & WRITING
    if (writes or event in EFFECTS) and culprit() in names:
        found.append(f"{culprit()}: {event} {args!r}"[:300])

sys.addaudithook(hook)
for name in names:
    importlib.import_module(name)
    if threading.active_count() > 1:
        found.append(f"{name}: a thread runs: {threading.enumerate()!r}")
sys.stdout.write(json.dumps(found))
'''


def effects(names: list[str], folder: Path) -> list[str]:
    """Everything that importing `names` in turn does, one line each."""
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", WATCH, json.dumps(names)],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.stderr:
        pytest.fail(done.stderr, pytrace=False)
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_importing_a_module_of_the_product_does_nothing() -> None:
    assert none(effects([module.name for module in product()], ROOT), "do it in a function")


@pytest.mark.parametrize(
    ("source", "event"),
    [
        ("open('effect', 'w').close()", "open"),
        ("import pathlib\npathlib.Path('effect').mkdir()", "os.mkdir"),
        ("import subprocess\nsubprocess.run(['/bin/true'])", "subprocess.Popen"),
        ("import socket\nwith socket.socket() as s:\n    s.bind(('127.0.0.1', 0))", "socket.bind"),
        ("import threading\nthreading.Timer(0.5, int).start()", "a thread runs"),
    ],
)
def test_a_planted_effect_is_seen(tmp_path: Path, source: str, event: str) -> None:
    (tmp_path / "planted.py").write_text(source)
    assert any(each.startswith(f"planted: {event}") for each in effects(["planted"], tmp_path))
