"""Power may go at any moment of publishing and promoting: readers then have the old release or the new one, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbcore.errors import KbError
from kbcore.store.objects import LocalStore
from kbcore.store.repository import Repository
from kbcore.verification import verify_repository
from tests.crash.power_loss import FrozenStore, Operation, Recording, states
from tests.support import knowledge_base, refreshed, tree, write


class Recorded:
    def __init__(self, root: Path) -> None:
        self.base = knowledge_base(root)
        refreshed(self.base)
        self.start = {str(self.base.folder / name): data for name, data in tree(self.base.folder).items()}
        fs = Recording()
        self.base.__dict__["store"] = LocalStore(self.base.folder, fs)
        self.base.__dict__.pop("repository")
        publish = self.base.repository.publish
        append = self.base.repository.append

        def told_publish(*args, **kwargs):  # type: ignore[no-untyped-def]
            manifest = publish(*args, **kwargs)
            fs.mark(f"published {manifest.release}")
            return manifest

        def told_append(*args, **kwargs):  # type: ignore[no-untyped-def]
            record = append(*args, **kwargs)
            fs.mark(f"promoted {record.release}")
            return record

        write_check = self.base.repository.write_check

        def told_check(*args, **kwargs):  # type: ignore[no-untyped-def]
            file = write_check(*args, **kwargs)
            fs.mark(f"checked {file}")
            return file

        self.base.repository.write_check = told_check  # type: ignore[method-assign]
        self.base.repository.publish = told_publish  # type: ignore[method-assign]
        self.base.repository.append = told_append  # type: ignore[method-assign]
        write(
            root / "docs",
            {"vpn.md": "# VPN\n\nChanged altogether.\n", "new.md": "# New\n\nA new page.\n", "printers.txt": None},
        )
        report = refreshed(self.base)
        assert report.promoted
        passing = ("/cache/", "/staging/")
        self.trace: list[Operation] = [
            op for op in fs.trace if not (op[0] == "rename" and any(p in op[2] for p in passing))
        ]
        self.contents = fs.contents

    def fsyncs(self) -> list[int]:
        return [number for number, operation in enumerate(self.trace) if operation[0] == "fsync"]

    def violation(self, told: list[str], files: dict[str, bytes]) -> str | None:
        """What is wrong with a state, None where a reader finds a whole release and nothing told was lost."""
        store = FrozenStore(self.base.folder, files)
        try:
            repository = Repository.open(store, "test")  # type: ignore[arg-type]
            state = repository.state()
            releases = repository.releases()
            findings = verify_repository(repository, releases)
        except KbError as error:
            return str(error)
        if findings:
            return f"{findings[0].file}: {findings[0].reason}"
        if state.release not in releases:
            return f"current is {state.release}"
        for fact in told:
            verb, release = fact.split()
            if verb == "checked":
                if release not in store.list("checks"):
                    return f"lost: {fact}"
            elif release not in releases or (verb == "promoted" and state.release != release):
                return f"lost: {fact}"
        return None


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("power"))


def test_no_power_cut_leaves_a_torn_release_or_loses_what_was_told(recorded: Recorded) -> None:
    count = 0
    currents = set()
    for number, told, files in states(recorded.trace, recorded.contents, recorded.start):
        count += 1
        problem = recorded.violation(told, files)
        assert problem is None, f"after operation {number} {recorded.trace[number]}: {problem}"
        currents.add("promoted r000002" in told)
    assert count > 20
    assert currents == {True, False}


# The short set leaves out every third one in turn, the long one each.
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
def test_every_fsync_is_needed(recorded: Recorded, step: int) -> None:
    fsyncs = recorded.fsyncs()
    assert len(fsyncs) > 10
    survivors = []
    for skip in fsyncs[::step]:
        found = (
            recorded.violation(told, files)
            for _, told, files in states(recorded.trace, recorded.contents, recorded.start, skip=skip)
        )
        if not any(problem is not None for problem in found):
            survivors.append((skip, recorded.trace[skip]))
    assert not survivors, f"no state shows that these are needed: {survivors}"
