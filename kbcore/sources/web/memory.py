"""What a crawl remembers of pages from one run to the next: a page that did not change is not sent again, and its links
are still needed. Only a cache: a lost file costs requests."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbcore.fingerprint import canonical
from kbcore.sources.web.page import PageFacts

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Remembered:
    """A page as it was last seen: the validator of that version, and the sha256 of its bytes where they were seen."""

    etag: str
    digest: str | None
    facts: PageFacts


def recall(file: Path, scope: str) -> dict[str, Remembered]:
    """What was remembered, by URL; nothing where the file is not there, is no such file, or is of another ``scope``
    (only links within the scope are kept)."""
    try:
        content = json.loads(file.read_bytes())
        if content["format"] != FORMAT or content["scope"] != scope:
            return {}
        urls = content["urls"]
        return {
            urls[entry["url"]]: Remembered(
                str(entry["etag"]),
                entry["digest"],
                PageFacts(
                    tuple(urls[n] for n in entry["links"]),
                    bool(entry["noindex"]),
                    entry["canonical"],
                    cut=bool(entry["cut"]),
                ),
            )
            for entry in content["pages"]
        }
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return {}


def remember(file: Path, scope: str, pages: Mapping[str, Remembered]) -> None:
    """Replace the file as a whole. Each URL is written once, since the pages of a site share most links."""
    numbers: dict[str, int] = {}
    entries: list[dict[str, Any]] = [
        {
            "url": numbers.setdefault(url, len(numbers)),
            "etag": page.etag,
            "digest": page.digest,
            "links": [numbers.setdefault(link, len(numbers)) for link in page.facts.links],
            "noindex": page.facts.noindex,
            "canonical": page.facts.canonical,
            "cut": page.facts.cut,
        }
        for url, page in sorted(pages.items())
    ]
    content = canonical({"format": FORMAT, "scope": scope, "urls": list(numbers), "pages": entries})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.")
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
        os.replace(name, file)
    except OSError:
        pass
