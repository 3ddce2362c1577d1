"""The document that describes the routes."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from kbcore.releases import ReleaseRow
from kbcore.serving.bases import Bases
from kbcore.serving.http.app import EVERYWHERE, routes
from kbcore.serving.http.health import OPEN_PATHS
from kbcore.serving.http.moving import OPERATOR_ACTS, needs_operator
from kbcore.serving.http.service import Service
from kbcore.types import Hit

DOCUMENT: dict[str, Any] = json.loads(json.dumps(routes(Service(Bases([]))).openapi()))
OPERATIONS = [
    (method, path, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]


def resolved(reference: str) -> Any:
    found: Any = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        found = found[part.replace("~1", "/")]
    return found


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for part in value.values() for found in references(part)]
    return [found for part in value for found in references(part)] if isinstance(value, list) else []


def test_it_is_of_openapi_3_1_and_every_reference_leads_somewhere() -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    assert references(DOCUMENT)
    for reference in references(DOCUMENT):
        assert resolved(reference), reference
    identifiers = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(identifiers)) == len(identifiers)


def test_a_validator_of_openapi_takes_it() -> None:
    validate = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed").validate
    validate(DOCUMENT)


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=[f"{m} {p}" for m, p, _ in OPERATIONS])
def test_every_operation_declares_its_answer_every_4xx_and_its_token(
    method: str, path: str, operation: dict[str, Any]
) -> None:
    assert operation["description"] or operation["summary"]
    for status in EVERYWHERE:
        content = operation["responses"][str(status)]["content"]["application/json"]["schema"]
        expected = "NotReadyAnswer" if (path, status) == ("/health/ready", 503) else "Error"
        assert content == {"$ref": f"#/components/schemas/{expected}"}, status
    (kind,) = operation["responses"]["200"]["content"]
    assert kind == ("text/plain" if path == "/metrics" else "application/json")
    assert operation["responses"]["200"]["content"][kind]["schema"]
    assert operation["security"] == ([] if path in OPEN_PATHS else [{"token": []}])


def test_questions_and_errors_have_examples_and_bounds() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    query = schemas["SearchBody"]["properties"]["query"]
    assert (query["maxLength"], bool(query["examples"])) == (2_000, True)
    assert schemas["SearchBody"]["additionalProperties"] is False
    assert all(part.get("examples") for part in schemas["Error"]["properties"].values())
    assert "HTTPValidationError" not in schemas


def test_what_an_operator_must_be_asked_for_is_what_moves_readers() -> None:
    moving = {path for method, path, operation in OPERATIONS if method == "post" and operation["tags"] == ["operators"]}
    assert moving == {f"/v1/{{kb}}/{act}" for act in OPERATOR_ACTS}
    for method, path, _ in OPERATIONS:
        assert needs_operator(method.upper(), path) is (path in moving)


def test_acts_that_move_readers_need_an_operator_whatever_the_base() -> None:
    assert needs_operator("POST", "/v1/any/promote")
    assert needs_operator("POST", "/v1/any/rollback/")
    assert not needs_operator("POST", "/v1/promote/search")
    assert not needs_operator("GET", "/v1/any/hold")


def test_the_schema_of_a_hit_is_what_a_hit_holds() -> None:
    properties = DOCUMENT["components"]["schemas"]["HitBody"]["properties"]
    assert set(properties) == {field.name for field in fields(Hit)} | {"citation"}


def test_the_schema_of_a_release_is_what_a_row_of_releases_holds() -> None:
    properties = DOCUMENT["components"]["schemas"]["ReleaseRowBody"]["properties"]
    assert set(properties) == {field.name for field in fields(ReleaseRow)}
