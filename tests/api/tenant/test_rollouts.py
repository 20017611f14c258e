"""Rollouts, deletions and quarantine over HTTP, down to which version answers."""

from collections import Counter
from typing import Any

import httpx
import pytest

from loraplex.api.tenant.schemas import Rollout
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway
from tests.api.tenant.owners import Owner

ADAPTER = "/api/v1/adapters/support"
ROLLOUTS = f"{ADAPTER}/rollouts"


def start(owner: Owner, alias: str, **changes: Any) -> dict[str, Any]:
    owner.point(alias, 1).raise_for_status()
    plan = {"alias": alias, "version": 2, "weight": 30} | changes
    answer = owner.client.post(ROLLOUTS, json=plan)
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"{ROLLOUTS}/{answer.json()['id']}"
    found: dict[str, Any] = answer.json()
    return found


def served(owner: Owner, model: str, conversation: str, stream: bool = False) -> str:
    """Which version answers a conversation."""
    answer = owner.client.post(
        "/v1/completions",
        json={"model": model, "prompt": "hi", "max_tokens": 1, "stream": stream},
        headers={"x-conversation-id": conversation},
    )
    assert answer.status_code == 200, answer.text
    return answer.headers["x-adapter-version"].rsplit(":", 1)[1]


def test_a_rollout_splits_an_alias_and_each_conversation_keeps_its_version(owner: Owner) -> None:
    rollout = Rollout.model_validate(start(owner, "split"), strict=False)
    assert (rollout.stable_version, rollout.version, rollout.status) == (1, 2, "running")
    first = {str(n): served(owner, "support:split", str(n)) for n in range(30)}
    assert set(Counter(first.values())) == {"v1", "v2"}
    again = {name: served(owner, "support:split", name, stream=True) for name in first}
    assert again == first
    wider = owner.client.patch(f"{ROLLOUTS}/{rollout.id}", json={"weight": 100})
    assert wider.json()["weight"] == 100
    assert {served(owner, "support:split", name) for name in first} == {"v2"}
    owner.client.post(f"{ROLLOUTS}/{rollout.id}/pause").raise_for_status()
    assert served(owner, "support:split", "0") == "v1"
    owner.client.post(f"{ROLLOUTS}/{rollout.id}/resume").raise_for_status()
    promoted = owner.client.post(f"{ROLLOUTS}/{rollout.id}/promote")
    assert promoted.json()["status"] == "promoted"
    assert served(owner, "support:split", "0") == "v2"
    late = owner.client.post(f"{ROLLOUTS}/{rollout.id}/roll-back")
    assert (late.status_code, late.json()["code"]) == (409, "rollout_ended")


def test_while_a_rollout_is_open_its_alias_does_not_move(owner: Owner) -> None:
    rollout = start(owner, "held")
    refused = owner.point("held", 2, if_match='"1"')
    assert (refused.status_code, refused.json()["code"]) == (409, "rollout_open")
    second = owner.client.post(ROLLOUTS, json={"alias": "held", "version": 2, "weight": 1})
    assert second.json()["code"] == "rollout_open"
    owner.client.post(f"{ROLLOUTS}/{rollout['id']}/roll-back").raise_for_status()
    assert owner.point("held", 2, if_match='"1"').status_code == 200


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"weight": 101}, 400, "weight"),
        ({"weight": 0.5}, 400, "weight"),
        ({"version": 99}, 404, "version"),
        ({"alias": "nobody"}, 404, "alias"),
        ({"error_rate_limit": -1}, 400, "error_rate_limit"),
        ({"steps": 3}, 400, "steps"),
    ],
)
def test_a_refusal_names_the_field(
    change: dict[str, Any], status: int, field: str, owner: Owner
) -> None:
    owner.point("plain", 1)
    answer = owner.client.post(
        ROLLOUTS, json={"alias": "plain", "version": 2, "weight": 5} | change
    )
    assert (answer.status_code, answer.json()["field"]) == (status, field)


def test_a_neighbours_rollout_is_404(
    owner: Owner, gateway: RunningGateway, neighbour: Tenant
) -> None:
    rollout = start(owner, "theirs")
    path = f"{ROLLOUTS}/{rollout['id']}"
    with gateway.client(neighbour.key) as theirs:
        answers = [theirs.get(ROLLOUTS), theirs.get(path)]
        answers += [theirs.post(f"{path}/{verb}") for verb in ("pause", "promote", "roll-back")]
        answers += [theirs.patch(path, json={"weight": 0}), theirs.delete(ADAPTER)]
    assert {answer.status_code for answer in answers} == {404}
    assert owner.client.get(path).json() == rollout


def test_a_deleted_version_is_not_called_and_comes_back(
    owner: Owner, gateway_settings: Settings
) -> None:
    owner.upload(gateway_settings, "spare", "pirate", "shout")
    path = "/api/v1/adapters/spare/versions/2"
    owner.point("prod", 2, adapter="spare").raise_for_status()
    named = owner.client.delete(path)
    assert (named.status_code, named.json()["code"]) == (409, "version_in_use")
    alias = "/api/v1/adapters/spare/aliases/prod"
    owner.client.delete(alias, headers={"If-Match": '"1"'}).raise_for_status()
    assert owner.client.delete(path).json()["deleted_at"] is not None
    assert served(owner, "spare", "x") == "v1"
    assert call(owner, "spare:v2").status_code == 404
    versions = "/api/v1/adapters/spare/versions"
    assert [one["version"] for one in owner.client.get(versions).json()["data"]] == [1]
    bin_ = owner.client.get(versions, params={"deleted": True}).json()["data"]
    assert [one["version"] for one in bin_] == [2]
    assert owner.client.post(f"{path}/restore").json()["deleted_at"] is None
    assert served(owner, "spare", "x") == "v2"


def test_a_deleted_adapter_keeps_its_name_and_comes_back_whole(
    owner: Owner, gateway_settings: Settings
) -> None:
    owner.upload(gateway_settings, "gone", "pirate")
    owner.point("prod", 1, adapter="gone").raise_for_status()
    path = "/api/v1/adapters/gone"
    assert owner.client.delete(path).json()["deleted_at"] is not None
    assert call(owner, "gone:prod").status_code == 404
    names = [one["name"] for one in owner.client.get("/api/v1/adapters").json()["data"]]
    assert "gone" not in names
    with pytest.raises(httpx.HTTPStatusError) as refused:
        owner.upload(gateway_settings, "gone", "shout")
    assert refused.value.response.json()["code"] == "adapter_deleted"
    owner.client.post(f"{path}/restore").raise_for_status()
    assert served(owner, "gone:prod", "x") == "v1"


def test_an_operators_quarantine_holds_from_the_next_request_on(
    owner: Owner, gateway: RunningGateway, operator_key: str
) -> None:
    path = f"/api/v1/admin/tenants/{owner.name}/adapters/support/versions/2"
    assert call(owner, "support:v2").status_code == 200
    with gateway.client(operator_key) as operator:
        assert operator.post(f"{path}/quarantine", json={}).json()["field"] == "reason"
        done = operator.post(f"{path}/quarantine", json={"reason": "leaks a licence key"})
        assert done.json()["quarantine_reason"] == "leaks a licence key"
        refused = call(owner, "support:v2")
        assert refused.status_code == 404
        assert "leaks a licence key" in refused.json()["error"]["message"]
        assert operator.post(f"{path}/release").json()["quarantine_reason"] is None
        nobody = path.replace(owner.name, "nobody")
        assert operator.post(f"{nobody}/release").status_code == 404
    assert call(owner, "support:v2").status_code == 200


def call(owner: Owner, model: str) -> httpx.Response:
    return owner.client.post(
        "/v1/completions", json={"model": model, "prompt": "hi", "max_tokens": 1}
    )
