"""Aliases over HTTP: ETag and If-Match, 412 and 428, problem+json that names the field."""

from typing import Any

import pytest

from loraplex.api.tenant.schemas import Alias
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway
from tests.api.tenant.owners import Owner
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import EchoEngine

ADAPTER = "/api/v1/adapters/support"
ALIASES = f"{ADAPTER}/aliases"


def test_an_alias_is_set_read_moved_rolled_back_and_removed(owner: Owner) -> None:
    made = owner.point("moving", 1)
    assert made.status_code == 201, made.text
    alias = Alias.model_validate_json(made.content)
    assert (alias.alias, alias.version, alias.generation) == ("moving", 1, 1)
    assert alias.model == f"{owner.name}/support:moving"
    assert made.headers["ETag"] == '"1"'
    path = made.headers["Location"]
    assert path == "/api/v1/adapters/support/aliases/moving"
    read = owner.client.get(path)
    assert (read.json(), read.headers["ETag"]) == (made.json(), '"1"')

    moved = owner.point("moving", 2, if_match=read.headers["ETag"])
    assert (moved.status_code, moved.json()["version"]) == (200, 2)
    back = owner.client.post(f"{path}/rollback", headers={"If-Match": moved.headers["ETag"]})
    assert (back.status_code, back.json()["version"]) == (200, 1)
    assert back.headers["ETag"] == '"3"'
    moves = owner.client.get(f"{path}/moves", params={"limit": 2}).json()
    assert [one["kind"] for one in moves["data"]] == ["rolled_back", "set"]
    rest = owner.client.get(f"{path}/moves", params={"cursor": moves["next_cursor"]}).json()
    assert [one["generation"] for one in rest["data"]] == [1]

    gone = owner.client.delete(path, headers={"If-Match": '"3"'})
    assert (gone.status_code, gone.content) == (204, b"")
    assert owner.client.get(path).json()["code"] == "alias_not_found"
    listed = {one["alias"]: one for one in owner.client.get(ALIASES).json()["data"]}
    assert "moving" not in listed
    assert (listed["latest"]["version"], listed["latest"]["generation"]) == (2, None)


def test_what_an_alias_will_mean_is_brought_near_before_it_is_called(
    owner: Owner, engine: EchoEngine
) -> None:
    digests = [one["digest"] for one in owner.client.get(f"{ADAPTER}/versions").json()["data"]]
    before = len(engine.foretold)
    owner.point("soon", 1).raise_for_status()
    owner.point("soon", 2, if_match='"1"').raise_for_status()
    eventually("the worker is told of both", lambda: len(engine.foretold) >= before + 2)
    assert [ref.spec.digest for ref in engine.foretold[before:]] == digests[::-1]


def test_who_does_not_say_what_was_seen_or_saw_something_older_is_refused(owner: Owner) -> None:
    owner.point("kept", 1).raise_for_status()
    unconditional = owner.point("kept", 2)
    assert unconditional.status_code == 428
    assert unconditional.headers["content-type"] == "application/problem+json"
    assert unconditional.json()["field"] == "If-Match"
    stale = owner.point("kept", 2, if_match='"7"')
    assert (stale.status_code, stale.json()["code"]) == (412, "alias_changed")
    early = owner.point("fresh", 1, if_match='"1"')
    assert early.status_code == 412
    assert owner.client.get("/api/v1/adapters/support/aliases/kept").json()["version"] == 1


@pytest.mark.parametrize("condition", ["1", "*", 'W/"1"', '"1", "2"', '"x"', '"0"', ""])
def test_a_condition_that_is_no_generation_is_400(condition: str, owner: Owner) -> None:
    refused = owner.point("prod", 1, if_match=condition)
    assert (refused.status_code, refused.json()["field"]) == (400, "If-Match")


@pytest.mark.parametrize(
    ("alias", "body", "status", "field"),
    [
        ("v7", {"version": 1}, 400, "alias"),
        ("latest", {"version": 1}, 400, "alias"),
        ("prod", {"version": 9}, 404, "version"),
        ("prod", {"version": "1"}, 400, "version"),
        ("prod", {}, 400, "version"),
        ("prod", {"version": 1, "force": True}, 400, "force"),
    ],
)
def test_a_refusal_names_the_field(
    alias: str, body: dict[str, Any], status: int, field: str, owner: Owner
) -> None:
    refused = owner.client.put(f"/api/v1/adapters/support/aliases/{alias}", json=body)
    assert (refused.status_code, refused.json()["field"]) == (status, field)


def test_a_neighbours_alias_is_404(
    owner: Owner, gateway: RunningGateway, neighbour: Tenant
) -> None:
    owner.point("mine", 1).raise_for_status()
    path = ALIASES
    condition = {"If-Match": '"1"'}
    with gateway.client(neighbour.key) as theirs:
        answers = [
            theirs.get(path),
            theirs.get(f"{path}/mine"),
            theirs.get(f"{path}/mine/moves"),
            theirs.put(f"{path}/mine", json={"version": 1}),
            theirs.put(f"{path}/mine", json={"version": 2}, headers=condition),
            theirs.post(f"{path}/mine/rollback", headers=condition),
            theirs.delete(f"{path}/mine", headers=condition),
        ]
    assert {(one.status_code, one.json()["code"]) for one in answers} == {
        (404, "adapter_not_found")
    }
    assert owner.client.get(f"{path}/mine").json()["generation"] == 1


def test_models_lists_aliases_and_answers_for_every_name(owner: Owner) -> None:
    owner.point("prod", 1).raise_for_status()
    owner.point("canary", 2).raise_for_status()
    listed = [one["id"] for one in owner.client.get("/v1/models").json()["data"]]
    mine = f"{owner.name}/support"
    assert {mine, f"{mine}:prod", f"{mine}:canary"} <= set(listed)
    for name in (*listed, f"{mine}:latest", f"{mine}:v1"):
        answer = owner.client.get(f"/v1/models/{name}")
        assert answer.status_code == 200
        assert answer.json()["id"] in listed
