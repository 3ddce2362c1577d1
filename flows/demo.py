"""What ``make run`` shows: the freshness flow on the demo help desk, then the release, how well it answers, and two searches."""

from __future__ import annotations

import subprocess
import sys

from flows.freshness import freshness
from flows.runs import in_words
from kbcore.config import DEFAULT_FILE

QUESTIONS = (
    "How can I send an enormous movie to an outside partner?",
    "ERR-5001 certificate expired",
)


def main(config: str = DEFAULT_FILE) -> None:
    freshness(config)
    kb("releases", "--config", config)
    kb("show", "current", "--config", config)
    print("\n$ kb eval")
    kb("eval", "--config", config)
    for question in QUESTIONS:
        print(f'\n$ kb search "{question}" -k 2')
        kb("search", question, "-k", "2", "--config", config)


def kb(*arguments: str) -> None:
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "kbcore.cli", *arguments], check=True)


if __name__ == "__main__":
    in_words(lambda: main(*sys.argv[1:2]))
