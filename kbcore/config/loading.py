"""One file configures one knowledge base. Unknown keys are errors that name the nearest known one.

Values come, strongest first, from ``KB_SECTION__KEY`` in the environment, the file, and the defaults below.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from kbcore.config.sections import Config
from kbcore.config.sources import SECTION_OF, type_of
from kbcore.errors import ConfigError

DEFAULT_FILE = "config/kb.toml"
SECTIONS = [name for name in Config.model_fields if name not in ("file", "origins")]


def load(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """Read a configuration file (default: KB_CONFIG, else config/kb.toml). ConfigError says which key is wrong and why."""
    file = Path(path or environ.get("KB_CONFIG") or DEFAULT_FILE)
    try:
        values: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration file {file}", remedy="write one with: kb init") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    origins = {dotted: str(file) for dotted in _dotted(values)}
    _overlay(values, origins, environ)
    try:
        config = Config.model_validate({**values, "file": str(file), "origins": origins})
    except ValidationError as error:
        raise ConfigError("; ".join(_say(e, file, origins) for e in error.errors())) from None
    return config


def _overlay(values: dict[str, Any], origins: dict[str, str], environ: Mapping[str, str]) -> None:
    """Put ``KB_SECTION__KEY`` over the file's values, with the type of the setting."""
    for name in sorted(environ):
        if not name.startswith("KB_") or "__" not in name:
            continue
        section, _, key = name.removeprefix("KB_").lower().partition("__")
        if section not in SECTIONS or section == "sources":
            known = [s for s in SECTIONS if s != "sources"]
            raise ConfigError(f"{name}: there is no section {section!r}{_nearest(section, known)}")
        fields = _model(Config, section).model_fields
        if key not in fields:
            raise ConfigError(f"{name}: [{section}] has no setting {key!r}{_nearest(key, list(fields))}")
        if not isinstance(values.get(section, {}), dict):
            continue  # said when the file's values are examined
        text = environ[name]
        is_list = typing.get_origin(fields[key].annotation) is tuple
        value: Any = [part.strip() for part in text.split(",") if part.strip()] if is_list else text
        values.setdefault(section, {})[key] = value
        origins[f"{section}.{key}"] = name


def _dotted(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    names = []
    for key, value in values.items():
        items = value if isinstance(value, list) and all(isinstance(v, dict) for v in value) and value else None
        if isinstance(value, dict):
            names += _dotted(value, f"{prefix}{key}.")
        elif items:
            names += [n for i, item in enumerate(items) for n in _dotted(item, f"{prefix}{key}[{i}].")]
        else:
            names.append(prefix + key)
    return names


def _say(error: Any, file: Path, origins: Mapping[str, str]) -> str:
    """What is wrong, after the file or the environment variable it stands in."""
    where = list(error["loc"])
    section: type[BaseModel] = Config
    if where[0] == "sources" and len(where) > 2:
        # The location of what is wrong in a source names its type too, which the file does not.
        section = SECTION_OF[where.pop(2)]
    where = [part for part in where if part != "file"]
    dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).removeprefix(".")
    origin = origins.get(dotted) or _variables(dotted, error["msg"], origins) or str(file)
    found = error["input"]
    if error["type"] == "extra_forbidden":
        inside = [part for part in where[2 if section is not Config else 0 : -1] if isinstance(part, str)]
        said = f"unknown key {dotted!r}{_nearest(str(where[-1]), _known(section, inside))}"
    elif error["type"] == "missing" and dotted in ("kb", "kb.name"):
        said = "[kb] name is missing"
    elif error["type"] == "missing":
        said = f"{dotted} is missing"
    elif error["type"] == "unknown_type":
        kind = str(type_of(found))
        said = f"{dotted}.type: there is no source of type {kind!r}{_nearest(kind, list(SECTION_OF))}"
    elif error["type"] == "tuple_type" and dotted == "sources":
        said = "sources are tables of an array: write [[sources]], with two brackets on each side"
    elif error["type"] == "tuple_type":
        said = f'{dotted} is a list: write ["{found}"]' if isinstance(found, str) else f"{dotted} is a list"
    elif error["type"] in ("model_type", "model_attributes_type"):
        said = f"{dotted} is a table: write [{dotted}] and its settings below (found {found!r})"
    else:
        # What stands where the name of a variable belongs may be the secret itself.
        secret = (
            dotted.endswith("_env") or isinstance(found, dict) or error["type"] in ("secret", "no_url", "clear_text")
        )
        shown = "" if secret else f" (found {_without_login(repr(found))})"
        said = f"{dotted or 'configuration'}: {error['msg'].removeprefix('Value error, ')}{shown}"
    return f"{origin}: {said}"


def _variables(section: str, said: str, origins: Mapping[str, str]) -> str:
    """Where what is wrong concerns several settings of a section: the environment variables of those that it names."""
    mine = {
        dotted.removeprefix(f"{section}."): name for dotted, name in origins.items() if dotted.startswith(f"{section}.")
    }
    return ", ".join(name for key, name in mine.items() if name.startswith("KB_") and re.search(rf"\b{key}\b", said))


def _without_login(text: str) -> str:
    """A value as it is shown, without the name and password or the query that a URL in it may carry."""
    text = re.sub(r"(\w://)[^\s'\"]*@", r"\1…@", text)
    return re.sub(r"(\w://[^\s'\"?]*)\?[^\s'\"]*", r"\1?…", text)


def _known(model: type[BaseModel], path: list[str]) -> list[str]:
    for part in path:
        model = _model(model, part)
    return [name for name in model.model_fields if name not in ("file", "origins")]


def _model(model: type[BaseModel], field: str) -> type[BaseModel]:
    annotation: Any = model.model_fields[field].annotation
    if typing.get_origin(annotation) in (tuple, types.UnionType):
        annotation = typing.get_args(annotation)[0]
    return typing.cast(type[BaseModel], annotation)


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


def effective(config: Config) -> list[tuple[str, Any, str]]:
    """Every setting as (dotted name, value, where it came from), in the order of the file format; what may be a secret (a
    login in a URL, its query, a parameter of a recipe) is not shown."""
    rows: list[tuple[str, Any, str]] = []

    def walk(value: Any, prefix: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{prefix}.{key}" if prefix else key)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for index, inner in enumerate(value):
                walk(inner, f"{prefix}[{index}]")
        else:
            secret = ".parameters." in prefix
            shown = "…" if secret and value else _without_login(value) if isinstance(value, str) else value
            if isinstance(value, list):
                shown = [_without_login(item) if isinstance(item, str) else item for item in value]
            rows.append((prefix, shown, config.origins.get(prefix, "default")))

    walk(config.model_dump(mode="json"), "")
    return rows
