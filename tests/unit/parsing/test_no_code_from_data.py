"""Nothing in the package makes code out of data."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "joblib", "dill", "cloudpickle"}
CALLS = {"eval", "exec", "__import__"}
YAML = {"load", "load_all", "unsafe_load", "full_load", "unsafe_load_all", "full_load_all"}


def findings(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            found += [module] if module in MODULES else []
            found += [f"yaml.{alias.name}" for alias in node.names if module == "yaml" and alias.name in YAML]
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in CALLS:
                found.append(called.id)
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                name = f"{called.value.id}.{called.attr}"
                found += [name] if called.value.id == "yaml" and called.attr in YAML else []
                found += [name] if called.value.id == "builtins" and called.attr in CALLS else []
            found += ["allow_pickle" for keyword in node.keywords if keyword.arg == "allow_pickle" and not off(keyword)]
    return found


def off(keyword: ast.keyword) -> bool:
    return isinstance(keyword.value, ast.Constant) and keyword.value.value is False


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "eval('1')",
        "import yaml\nyaml.load(x, Loader=y)",
        "from yaml import unsafe_load",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_the_check_sees_what_it_is_for(source: str) -> None:
    assert findings(source)


def test_no_module_uses_them() -> None:
    files = [*(ROOT / "kbcore").rglob("*.py"), *(ROOT / "flows").rglob("*.py")]
    assert len(files) > 10
    used = {str(path.relative_to(ROOT)): found for path in files if (found := findings(path.read_text("utf-8")))}
    assert used == {}
