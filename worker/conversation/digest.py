"""Lists from a transcript what a turn has and has not looked at. Pure.

This is for a turn that did not finish, so that its reader need not start from scratch.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from worker.conversation.context import Context, Status
from worker.conversation.messages import Assistant, ToolCall, User, find_results
from worker.conversation.prompts import read_question
from worker.safety.untrusted import one_line, parse_objects
from worker.verdict.jobs import FailingJob

MOST_LINES = 7
_MOST_NAMED, _LINE, _COMMAND = 8, 280, 120


@dataclass(frozen=True, slots=True)
class Digest:
    """A title, and lines below it."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Words:
    """The phrases of one language; `jobs`, `files`, `others` and `missed` take a list, `commands` a
    number and the last command."""

    title: str
    jobs: str
    diff: str
    files: str
    others: str
    commands: str
    missed: str
    nothing: str


_LANGUAGES = {
    "en": _Words(
        "What was looked at",
        "Job logs: {}",
        "The merge request's diff",
        "Files: {}",
        "Asked of {}",
        "Commands in the sandbox: {}, the last one {}",
        "Not looked at: {}",
        "Nothing was looked at.",
    ),
    "de": _Words(
        "Was angesehen wurde",
        "Job-Logs: {}",
        "Der Diff des Merge Requests",
        "Dateien: {}",
        "Abgefragt: {}",
        "Befehle in der Sandbox: {}, der letzte {}",
        "Nicht angesehen: {}",
        "Es wurde nichts angesehen.",
    ),
    "fr": _Words(
        "Ce qui a été examiné",
        "Journaux de jobs : {}",
        "Le diff de la merge request",
        "Fichiers : {}",
        "Interrogé : {}",
        "Commandes dans le bac à sable : {}, la dernière {}",
        "Non examiné : {}",
        "Rien n'a été examiné.",
    ),
    "es": _Words(
        "Qué se ha examinado",
        "Registros de jobs: {}",
        "El diff de la merge request",
        "Archivos: {}",
        "Consultado: {}",
        "Comandos en el sandbox: {}, el último {}",
        "Sin examinar: {}",
        "No se ha examinado nada.",
    ),
    "pt": _Words(
        "O que foi examinado",
        "Logs de jobs: {}",
        "O diff do merge request",
        "Arquivos: {}",
        "Consultado: {}",
        "Comandos na sandbox: {}, o último {}",
        "Não examinado: {}",
        "Nada foi examinado.",
    ),
    "it": _Words(
        "Che cosa è stato esaminato",
        "Log dei job: {}",
        "Il diff della merge request",
        "File: {}",
        "Interrogato: {}",
        "Comandi nella sandbox: {}, l'ultimo {}",
        "Non esaminato: {}",
        "Non è stato esaminato nulla.",
    ),
    "nl": _Words(
        "Wat bekeken is",
        "Joblogs: {}",
        "De diff van de merge request",
        "Bestanden: {}",
        "Geraadpleegd: {}",
        "Opdrachten in de sandbox: {}, de laatste {}",
        "Niet bekeken: {}",
        "Er is niets bekeken.",
    ),
    "pl": _Words(
        "Co zostało sprawdzone",
        "Logi zadań: {}",
        "Diff merge requesta",
        "Pliki: {}",
        "Zapytano: {}",
        "Polecenia w sandboxie: {}, ostatnie {}",
        "Niesprawdzone: {}",
        "Niczego nie sprawdzono.",
    ),
    "ru": _Words(
        "Что было просмотрено",
        "Логи заданий: {}",
        "Diff запроса на слияние",
        "Файлы: {}",
        "Запрошено: {}",
        "Команды в песочнице: {}, последняя {}",
        "Не просмотрено: {}",
        "Ничего не было просмотрено.",
    ),
    "zh": _Words(
        "已查看的内容",
        "作业日志:{}",
        "合并请求的差异",
        "文件:{}",
        "已查询:{}",
        "沙箱中的命令:{} 条,最后一条 {}",
        "未查看:{}",
        "没有查看任何内容。",
    ),
    "ja": _Words(
        "確認した内容",
        "ジョブログ: {}",
        "マージリクエストの差分",
        "ファイル: {}",
        "照会: {}",
        "サンドボックスでのコマンド: {} 件、最後は {}",
        "未確認: {}",
        "何も確認していません。",
    ),
    "ko": _Words(
        "확인한 내용",
        "작업 로그: {}",
        "머지 리퀘스트의 diff",
        "파일: {}",
        "조회: {}",
        "샌드박스 명령: {}개, 마지막 {}",
        "확인하지 않음: {}",
        "아무것도 확인하지 않았습니다.",
    ),
}

_LOG, _DIFF, _FILE, _COMMAND_TOOL = (
    "gitlab_get_job_log",
    "gitlab_get_mr_diff",
    "gitlab_get_file",
    "sandbox_exec",
)


def write_digest(context: Context) -> Digest | None:
    """Return what the turn has and has not looked at, None if it finished by itself.

    For a reply it is in the language of the question.
    """
    if context.outcome is None or context.outcome.status is Status.DONE:
        return None
    words = _LANGUAGES[_find_language(context)]
    documents = tuple(_list_documents(context))
    lines = [one_line(line, _LINE) for line in _write_lines(words, documents, context)]
    return Digest(words.title, tuple(lines[:MOST_LINES]))


def _find_language(context: Context) -> str:
    first = context.messages[context.turn_start]
    if context.is_look or not isinstance(first, User):
        return ENGLISH
    return find_language(read_question(first.text))


def _write_lines(
    words: _Words, documents: Sequence[tuple[str, dict[str, Any]]], context: Context
) -> Iterator[str]:
    jobs = {job.job_id: job for job in (context.survey.jobs if context.survey else ())}
    commands = [str(args.get("command", "")) for name, args in documents if name == _COMMAND_TOOL]
    read_jobs = _list_read_jobs(documents, commands, jobs)
    if read_jobs:
        yield words.jobs.format(_join([_name_job(jobs.get(each), each) for each in read_jobs]))
    if any(name == _DIFF for name, _ in documents):
        yield words.diff
    if files := [str(args.get("path", "")) for name, args in documents if name == _FILE]:
        yield words.files.format(_join(files))
    others = [name for name, _ in documents if name not in (_LOG, _DIFF, _FILE, _COMMAND_TOOL)]
    if others:
        yield words.others.format(_join(others))
    if commands:
        yield words.commands.format(len(commands), f"`{one_line(commands[-1], _COMMAND)}`")
    if not documents:
        yield words.nothing
    groups = context.survey.groups if context.survey and context.is_look else ()
    firsts = [group.jobs[0] for group in groups if group.jobs]
    if missed := [_name_job(job, job.job_id) for job in firsts if job.job_id not in read_jobs]:
        yield words.missed.format(_join(missed))


def _list_read_jobs(
    documents: Sequence[tuple[str, dict[str, Any]]],
    commands: Sequence[str],
    jobs: dict[int, FailingJob],
) -> list[int]:
    fetched = [args["job_id"] for name, args in documents if name == _LOG and "job_id" in args]
    opened = [each for each in jobs if any(f"job-{each}.log" in command for command in commands)]
    return list(dict.fromkeys([*(each for each in fetched if isinstance(each, int)), *opened]))


def _name_job(job: FailingJob | None, job_id: int) -> str:
    return f"{job.name} ({job_id})" if job else str(job_id)


def _join(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(filter(None, names)))
    more = f" +{len(unique) - _MOST_NAMED}" if len(unique) > _MOST_NAMED else ""
    return ", ".join(unique[:_MOST_NAMED]) + more


def _list_documents(context: Context) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tools and sources whose calls succeeded in this turn, each with its arguments."""
    messages = context.messages[context.turn_start :]
    succeeded = {result.call_id for result in find_results(messages) if not result.is_error}
    for message in messages:
        for call in message.calls if isinstance(message, Assistant) else ():
            if call.id in succeeded:
                yield from _list_requests(call)


def _list_requests(call: ToolCall) -> Iterator[tuple[str, dict[str, Any]]]:
    for each in parse_objects(call.arguments, "requests"):
        arguments = each.get("arguments")
        yield (
            (str(each["source"]), arguments if isinstance(arguments, dict) else {})
            if "source" in each
            else (call.name, each)
        )


ENGLISH = "en"

_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
)
_WORDS = {
    "en": "the is are what why how does did this that which was and of it to in you can",
    "de": "der die das ist sind was warum wieso wie nicht und ein eine ich du kannst bitte auch",
    "fr": "le la les est sont pourquoi comment que quoi une des pas et je vous tu peux cette dans",
    "es": "el los las es son por qué cómo una del no y puedes esta esto está falla porque para",
    "pt": "o os as é são por que como uma do da não e você pode esta isso está falha para",
    "it": "il lo gli è sono perché come una del della non e puoi questo questa che cosa fallisce",
    "nl": "de het een is zijn waarom hoe niet en dit dat kun je wat welke faalt voor met",
    "pl": "jest są dlaczego jak nie i to czy co który która możesz się na w z tego ten",
}
_STOP_WORDS = {language: frozenset(words.split()) for language, words in _WORDS.items()}
_MOST = 2000
_LEAST = 2
"""The least number of known words (or letters of a script) by which a language is recognised."""


def find_language(text: str) -> str:
    """Return the two-letter code of a text's language, "en" if no known language is certain."""
    text = text[:_MOST].casefold()
    for language, letters in _SCRIPTS:
        if len(letters.findall(text)) >= _LEAST:
            return language
    words = re.findall(r"[^\W\d_]+", text)
    counts = {
        language: sum(word in known for word in words) for language, known in _STOP_WORDS.items()
    }
    best = max(counts, key=lambda language: (counts[language], language == ENGLISH))
    return best if counts[best] >= max(_LEAST, counts[ENGLISH] + 1) else ENGLISH
