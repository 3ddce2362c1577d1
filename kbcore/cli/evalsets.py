"""Verbs on evaluation sets: import, check, draft, follow."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.judging import SetFile
from kbcore.cli.output import DIFFERENCES, NAMES, AsJson, ConfigFile, ReleaseOption, emit, guarded, hint, say, table

if TYPE_CHECKING:
    from kbcore.evaluation.inspection import Inspection
    from kbcore.evaluation.relabelling import Relabelling

app = typer.Typer()
evalset_app = typer.Typer(help="Evaluation sets: import, check, propose, carry over renames.", no_args_is_help=True)
app.add_typer(evalset_app, name="evalset")

UNKNOWN_SHOWN = 5
FINDINGS_SHOWN = 100
OutFile = Annotated[Path, typer.Option("--out", "-o", help="The file to write.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file that is there.")]


@evalset_app.command("import")
@guarded
def import_collection(
    source: Annotated[Path, typer.Argument(help="A BEIR folder, or a file of queries (JSON lines, or id<TAB>text).")],
    out: OutFile,
    qrels: Annotated[
        Path | None, typer.Option("--qrels", help="File of judgments: TREC (qid 0 doc grade) or BEIR's TSV.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="train, dev or test (default: the only one, else test).")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--source", help="Name documents by the ids they have in this source, not by their URIs."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make an evaluation set of a public test collection. Judgments below 0 become 0; those of 0 are kept."""
    from kbcore.evaluation.collection import read_collection
    from kbcore.evaluation.questions import dump_questions, save_text

    found = read_collection(source, qrels=qrels, split=split, name=name)
    save_text(out, dump_questions(found.questions), overwrite=force)
    report: dict[str, Any] = {"out": str(out), **found.to_json()}
    if as_json:
        emit(report)
        return
    grades = ", ".join(f"{count} of grade {grade}" for grade, count in report["by_grade"].items())
    say(f"{out}: {report['questions']} questions, {report['judgments']} judgments: {grades}")
    for count, what in (
        (found.negative, "judgments below 0, now 0"),
        (found.repeated, "judgments that repeat another, left out"),
        (found.unjudged, "queries without a judgment there, left out"),
    ):
        if count:
            say(f"{what}: {count}")
    if found.unknown:
        more = len(found.unknown) - UNKNOWN_SHOWN
        named = ", ".join(found.unknown[:UNKNOWN_SHOWN]) + (f" and {more} more" if more > 0 else "")
        say(f"judged, but not among the queries: {named}")


@evalset_app.command()
@guarded
def check(
    evalset: SetFile = None,
    release: ReleaseOption = "current",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 5 if anything is found.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Find what is wrong with a set or doubtful: unknown, renamed and removed documents, stale quotes, repeated questions."""
    from kbcore.evaluation.inspection import inspect
    from kbcore.knowledge_base import open_repository

    base = open_repository(config)
    questions = base.questions(evalset)
    found = inspect(base.repository, base.repository.resolve(release), questions, canary=base.config.gate.canary)
    if as_json:
        emit(found.to_json())
    else:
        _print_inspection(found, config)
    if exit_code and found.findings:
        raise typer.Exit(DIFFERENCES)


@evalset_app.command()
@guarded
def draft(
    out: OutFile,
    release: ReleaseOption = "current",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many questions.")] = 30,
    seed: Annotated[int, typer.Option(help="Another seed, other questions.")] = 0,
    force: Force = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Propose questions from the titles and headings of a release, tagged draft, for a person to edit."""
    from kbcore.errors import EvaluationError
    from kbcore.evaluation.drafts import propose
    from kbcore.evaluation.questions import dump_questions, save_text
    from kbcore.knowledge_base import open_repository
    from kbcore.store.inventory import Inventory

    repository = open_repository(config).repository
    name = repository.resolve(release)
    found = propose(Inventory(repository, name), count, seed=seed)
    if not found.questions:
        raise EvaluationError(
            f"no document of {name} has a heading with sentences under it that only it has",
            remedy="write the questions by hand, one a line",
        )
    save_text(out, dump_questions(found.questions), overwrite=force)
    asked = len({expected.doc_id for question in found.questions for expected in question.expected})
    if as_json:
        emit(
            {"out": str(out), "release": name, "seed": seed, "questions": len(found.questions), "documents": asked,
             "sections": found.sections, "documents_with_sections": found.documents}
        )  # fmt: skip
        return
    say(f"{out}: {len(found.questions)} questions on {asked} documents of {name}, each tagged draft")
    if len(found.questions) < count:
        say(f"there are no more: {found.sections} sections of {found.documents} documents can be asked about")
    say(
        "edit them: the words users would use, and other documents that answer too; then take the tag away\n"
        + hint(f"how many are left to edit: kb evalset check --set {out}", config)
    )


@evalset_app.command()
@guarded
def follow(
    old: Annotated[str, typer.Option("--from", help=f"The release the set was made for: {NAMES}")],
    new: Annotated[str, typer.Option("--to", help=f"The release it is to fit: {NAMES}")] = "latest",
    evalset: SetFile = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the set to this file.")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", "-i", help="Write the set over itself.")] = False,
    force: Force = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Carry judgments over renames between two releases. Without --out or --in-place it only says what would change."""
    from kbcore.errors import UsageError
    from kbcore.evaluation.questions import load_questions, read_text, save_text
    from kbcore.evaluation.relabelling import relabel
    from kbcore.knowledge_base import open_repository

    if out is not None and in_place:
        raise UsageError("--out and --in-place name two files", remedy="give one of them")
    base = open_repository(config)
    names = [base.repository.resolve(name) for name in (old, new)]
    file = base.evalset(evalset)
    questions = load_questions(file)
    found = relabel(base.repository, names[0], names[1], questions, read_text(file))
    written = file if in_place and found.moved else out
    if written is not None:
        save_text(written, found.text, overwrite=in_place or force)
    if as_json:
        emit({"set": str(file), "out": None if written is None else str(written), **found.to_json()})
    else:
        _print_relabelling(found, written, config)


def _print_inspection(found: Inspection, config: Path | None) -> None:
    say(
        f"{found.set['name']} on {found.release}: {found.set['questions']} questions, {found.live} of {found.judgments} "
        f"judgments apply"
    )
    if found.drafts:
        say(f"drafts left to edit: {found.drafts}; the tag goes when one is done")
    if not found.findings:
        say("nothing is wrong with it")
        return
    table(["finding", "number"], Counter(finding.kind for finding in found.findings).items())
    for finding in found.findings[:FINDINGS_SHOWN]:
        say(f"{finding.question}: {finding.kind}: {finding.said}")
    if len(found.findings) > FINDINGS_SHOWN:
        say(f"and {len(found.findings) - FINDINGS_SHOWN} more; all of them with --json")
    unknown = sum(finding.kind == "unknown document" for finding in found.findings)
    if unknown and unknown == found.judgments:
        say(
            "none of its documents was ever here: is it the set of another knowledge base, or were documents named "
            "otherwise at its import (--source)?"
        )
    since = [finding.last for finding in found.findings if finding.kind == "renamed" and finding.last]
    if since:
        say(hint(f"carry judgments over renames: kb evalset follow --from {min(since)} --to {found.release}", config))


def _print_relabelling(found: Relabelling, written: Path | None, config: Path | None) -> None:
    body = found.to_json()
    kinds = [kind for kind in body if isinstance(body[kind], list)]
    counts = ", ".join(f"{len(body[kind])} {kind}" for kind in kinds if body[kind] or kind in ("followed", "gone"))
    say(f"{found.old} -> {found.new}: {counts}, {found.unchanged} unchanged")
    for kind in kinds:
        for entry in body[kind]:
            now = entry.get("now", "")
            onward = f" -> {now if isinstance(now, str) else ' or '.join(now)}" if now else ""
            say(f"{entry['question']}: {kind}: {entry['document']}{onward}")
    if written is not None:
        say(f"wrote {written}")
    elif found.moved:
        say("nothing was written; write with --in-place, or to another file with --out FILE")
    if found.gone:
        say(hint(f"what took the place of documents that went: kb evalset check --release {found.new}", config))
