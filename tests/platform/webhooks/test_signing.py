import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from loraplex.platform.webhooks.signing import new_secret, sign, signed_headers

BODY = json.dumps({"type": "alias.moved", "data": {"adapter": "ü"}}).encode()


def now() -> datetime:
    return datetime.now(UTC)


@given(data=st.dictionaries(st.text(), st.text() | st.integers()))
def test_the_stock_library_verifies_what_we_sign(data: dict[str, object]) -> None:
    secret, body = new_secret(), json.dumps(data).encode()
    headers = signed_headers("msg_1", now(), body, [secret])
    assert Webhook(secret).verify(body, headers) == data


def test_we_sign_as_the_stock_library_does() -> None:
    secret, moment = new_secret(), now()
    theirs = Webhook(secret).sign("msg_1", moment, BODY.decode())
    assert sign("msg_1", str(int(moment.timestamp())), BODY, secret) == theirs


def test_while_two_secrets_are_valid_a_receiver_with_either_verifies() -> None:
    old, new = new_secret(), new_secret()
    headers = signed_headers("msg_1", now(), BODY, [new, old])
    assert Webhook(old).verify(BODY, headers) == Webhook(new).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, headers)


def test_another_body_another_id_or_an_old_message_does_not_verify() -> None:
    secret = new_secret()
    headers = signed_headers("msg_1", now(), BODY, [secret])
    for body, changed in [(b"{}", headers), (BODY, headers | {"webhook-id": "msg_2"})]:
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, changed)
    old = signed_headers("msg_1", now() - timedelta(hours=1), BODY, [secret])
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY, old)
