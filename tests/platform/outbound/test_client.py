import asyncio
import hashlib
import io
import ssl
from pathlib import Path
from time import monotonic

import pytest
import trustme

from loraplex.platform.outbound.addresses import Address
from loraplex.platform.outbound.errors import (
    AddressInvalid,
    AddressNotPublic,
    AnswerEncoded,
    AnswerTooLarge,
    AnswerTooSlow,
    HostUnknown,
    HostUnreachable,
    TooManyRedirects,
)
from tests.platform.outbound.conftest import ClientOf
from tests.web_server import Asked, Names, answering, serving

SECONDS = 20.0
LOOPBACK = "127.0.0.0/8"


async def test_a_call_reaches_the_host_and_says_which_it_meant(client_of: ClientOf) -> None:
    async with serving(answering(b"hello")) as web:
        names = Names({"files.example": [["127.0.0.1"]]})
        async with (
            client_of(web, names=names, private=LOOPBACK) as client,
            client.call(
                "POST",
                f"http://files.example:{web.port}/a%20b?c=d",
                seconds=SECONDS,
                headers={"x-kind": "test"},
                credentials={"authorization": "Bearer secret"},
                content=b"body",
            ) as answer,
        ):
            assert (answer.status, await answer.head(3)) == (200, b"hel")
    (asked,) = web.asked
    assert (asked.method, asked.target, asked.body) == ("POST", "/a%20b?c=d", b"body")
    assert asked.headers["host"] == f"files.example:{web.port}"
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.headers["x-kind"] == "test"
    assert asked.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::1"]])
async def test_a_name_that_leads_into_a_network_of_ours_is_not_connected_to(
    client_of: ClientOf, addresses: list[str]
) -> None:
    async with serving(answering()) as web:
        names = Names({"evil.example": [addresses]})
        async with client_of(web, names=names) as client:
            with pytest.raises(AddressNotPublic) as caught:
                async with client.call(
                    "GET", f"http://evil.example:{web.port}/?token=secret", seconds=SECONDS
                ):
                    pass
    assert not web.asked
    assert "10.0.0.1" not in caught.value.message, "our network's shape is nobody's business"
    assert "secret" not in caught.value.message


async def test_a_name_is_resolved_once_so_that_rebinding_it_changes_nothing(
    client_of: ClientOf,
) -> None:
    """The resolver gives a good address first and a forbidden one to whoever asks again."""
    async with serving(answering()) as web:
        names = Names({"rebind.example": [["127.0.0.1"], ["127.0.0.2"]]})
        async with client_of(web, names=names, private="127.0.0.1/32") as client:
            async with client.call(
                "GET", f"http://rebind.example:{web.port}/", seconds=SECONDS
            ) as answer:
                assert answer.status == 200
            assert names.questions == ["rebind.example"]
            # The next connection asks anew, and is judged anew.
            with pytest.raises(AddressNotPublic):
                async with client.call(
                    "GET", f"http://rebind.example:{web.port}/", seconds=SECONDS
                ):
                    pass
    assert len(web.asked) == 1


async def test_the_next_address_is_tried_when_one_does_not_answer(client_of: ClientOf) -> None:
    async with serving(answering()) as web:
        names = Names({"two.example": [["127.0.0.7", "127.0.0.1"]]})
        async with (
            client_of(web, names=names, private=LOOPBACK) as client,
            client.call("GET", f"http://two.example:{web.port}/", seconds=SECONDS) as answer,
        ):
            assert answer.status == 200


async def test_an_unknown_host_and_a_closed_port_are_told_apart(client_of: ClientOf) -> None:
    async with serving(answering()) as web:
        pass
    names = Names({"closed.example": [["127.0.0.1"]]})
    async with client_of(web, names=names, private=LOOPBACK) as client:
        with pytest.raises(HostUnknown):
            async with client.call("GET", "http://nowhere.example/", seconds=SECONDS):
                pass
        with pytest.raises(HostUnreachable, match="could not be connected to"):
            async with client.call("GET", f"http://closed.example:{web.port}/", seconds=SECONDS):
                pass


async def test_the_machines_own_resolver_is_asked_by_default(client_of: ClientOf) -> None:
    async with serving(answering()) as web, client_of(web, private=LOOPBACK) as client:
        async with client.call("GET", f"http://localhost:{web.port}/", seconds=SECONDS) as answer:
            assert answer.status == 200
        with pytest.raises(HostUnknown):
            async with client.call("GET", "http://nowhere.invalid/", seconds=SECONDS):
                pass


async def test_redirects_are_followed_without_credentials_for_another_origin(
    client_of: ClientOf,
) -> None:
    async with serving(answering(b"the file")) as store:
        onward = f"location: http://store.example:{store.port}/blob?signed=1"
        async with serving(answering(status="302 Found", headers=[onward, "etag: 7"])) as hub:
            names = Names({"hub.example": [["127.0.0.1"]], "store.example": [["127.0.0.1"]]})
            async with (
                client_of(hub, store, names=names, private=LOOPBACK) as client,
                client.call(
                    "GET",
                    f"http://hub.example:{hub.port}/file",
                    seconds=SECONDS,
                    headers={"x-kind": "test"},
                    credentials={"authorization": "Bearer secret"},
                    redirects=1,
                ) as answer,
            ):
                assert await answer.head(100) == b"the file"
                assert [hop.status for hop in answer.hops] == [302, 200]
                assert answer.hops[0].headers["etag"] == "7"
    assert hub.asked[0].headers["authorization"] == "Bearer secret"
    assert "authorization" not in store.asked[0].headers
    assert store.asked[0].headers["x-kind"] == "test"
    assert store.asked[0].target == "/blob?signed=1"


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("http://169.254.169.254/latest/meta-data/", AddressNotPublic),
        ("http://inside.example/", AddressNotPublic),
        ("http://127.1/", AddressInvalid),
        ("//10.0.0.1/", AddressNotPublic),
        ("file:///etc/passwd", AddressInvalid),
        ("http://user:pass@hub.example/", AddressInvalid),
        ("http://[", AddressInvalid),
    ],
)
async def test_a_redirect_is_checked_like_the_first_address(
    client_of: ClientOf, location: str, error: type[Exception]
) -> None:
    respond = answering(status="302 Found", headers=[f"location: {location}"])
    async with serving(respond) as hub:
        names = Names({"hub.example": [["127.0.0.1"]], "inside.example": [["192.168.1.1"]]})
        async with client_of(hub, names=names, private="127.0.0.1/32") as client:
            with pytest.raises(error):
                async with client.call(
                    "GET", f"http://hub.example:{hub.port}/", seconds=SECONDS, redirects=3
                ):
                    pass


async def test_endless_redirects_end(client_of: ClientOf) -> None:
    async with (
        serving(answering(status="302 Found", headers=["location: /again"])) as web,
        client_of(web, private=LOOPBACK) as client,
    ):
        with pytest.raises(TooManyRedirects):
            async with client.call(
                "GET", f"http://127.0.0.1:{web.port}/", seconds=SECONDS, redirects=3
            ):
                pass
    assert len(web.asked) == 4


async def test_where_no_redirects_are_followed_one_is_an_answer(client_of: ClientOf) -> None:
    async with (
        serving(answering(status="307 Temporary", headers=["location: http://10.0.0.1/"])) as web,
        client_of(web, private=LOOPBACK) as client,
        client.call("POST", f"http://127.0.0.1:{web.port}/", seconds=SECONDS) as answer,
    ):
        assert answer.status == 307


async def test_a_body_is_saved_and_hashed_up_to_its_limit(client_of: ClientOf) -> None:
    body = bytes(range(256)) * 10_000
    async with serving(answering(body)) as web, client_of(web, private=LOOPBACK) as client:
        url = f"http://127.0.0.1:{web.port}/"
        file = io.BytesIO()
        async with client.call("GET", url, seconds=SECONDS) as answer:
            saved = await answer.save(file, len(body))
        assert file.getvalue() == body
        assert saved.size_bytes == len(body)
        assert saved.digest == f"sha256:{hashlib.sha256(body).hexdigest()}"
        with pytest.raises(AnswerTooLarge):
            async with client.call("GET", url, seconds=SECONDS) as answer:
                await answer.save(io.BytesIO(), len(body) - 1)


async def test_a_body_without_an_announced_size_is_cut_off_at_the_limit(
    client_of: ClientOf,
) -> None:
    async def respond(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            await writer.drain()

    async with serving(respond) as web, client_of(web, private=LOOPBACK) as client:
        file = io.BytesIO()
        with pytest.raises(AnswerTooLarge):
            async with client.call(
                "GET", f"http://127.0.0.1:{web.port}/", seconds=SECONDS
            ) as answer:
                await answer.save(file, 1_000_000)
        assert file.tell() <= 1_000_000


async def test_a_body_that_breaks_off_is_no_body(client_of: ClientOf) -> None:
    async def respond(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort")

    async with serving(respond) as web, client_of(web, private=LOOPBACK) as client:
        with pytest.raises(HostUnreachable, match="broke off"):
            async with client.call(
                "GET", f"http://127.0.0.1:{web.port}/", seconds=SECONDS
            ) as answer:
                await answer.save(io.BytesIO(), 1000)


async def test_a_compressed_body_is_refused(client_of: ClientOf) -> None:
    async with (
        serving(answering(b"\x1f\x8b", headers=["content-encoding: gzip"])) as web,
        client_of(web, private=LOOPBACK) as client,
    ):
        with pytest.raises(AnswerEncoded):
            async with client.call(
                "GET", f"http://127.0.0.1:{web.port}/", seconds=SECONDS
            ) as answer:
                await answer.save(io.BytesIO(), 1000)


async def test_a_trickle_ends_at_the_deadline_however_often_a_byte_comes(
    client_of: ClientOf,
) -> None:
    async def respond(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        for _byte in range(1000):
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serving(respond) as web, client_of(web, private=LOOPBACK) as client:
        began = monotonic()
        with pytest.raises(AnswerTooSlow):
            async with client.call("GET", f"http://127.0.0.1:{web.port}/", seconds=0.3) as answer:
                await answer.save(io.BytesIO(), 1000)
        assert monotonic() - began < 5


async def test_a_host_that_never_answers_and_a_resolver_that_hangs_end_at_the_deadline(
    client_of: ClientOf,
) -> None:
    async def silent(_: Asked, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    class Hanging(Names):
        async def __call__(self, host: str, port: int) -> list[Address]:
            await asyncio.sleep(5)
            return []

    async with serving(silent) as web:
        for client in (client_of(web, private=LOOPBACK), client_of(web, names=Hanging({}))):
            async with client:
                host = "127.0.0.1" if client.rules.private_hosts.networks else "slow.example"
                with pytest.raises(AnswerTooSlow):
                    async with client.call("GET", f"http://{host}:{web.port}/", seconds=0.2):
                        pass


async def test_nothing_is_remembered_between_calls(
    client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither cookies, nor a proxy or a .netrc that the environment speaks of."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with (
        serving(answering(headers=["set-cookie: tenant=acme; path=/"])) as web,
        client_of(web, private=LOOPBACK) as client,
    ):
        for _ in range(2):
            async with client.call(
                "GET", f"http://127.0.0.1:{web.port}/", seconds=SECONDS
            ) as answer:
                assert await answer.head(10) == b"hello"
    assert all("cookie" not in asked.headers for asked in web.asked)


async def test_the_certificate_and_sni_are_the_names_though_the_address_is_pinned(
    client_of: ClientOf, tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("files.example").configure_cert(context)
    asked_for: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked_for.append(name)
    names = Names({"files.example": [["127.0.0.1"]], "other.example": [["127.0.0.1"]]})
    async with serving(answering(), context) as web:
        async with client_of(
            web, names=names, private=LOOPBACK, ca_file=tmp_path / "ca.pem"
        ) as client:
            async with client.call(
                "GET", f"https://files.example.:{web.port}/", seconds=SECONDS
            ) as answer:
                assert answer.status == 200
            with pytest.raises(HostUnreachable, match="certificate"):
                async with client.call(
                    "GET", f"https://other.example:{web.port}/", seconds=SECONDS
                ):
                    pass
        async with client_of(web, names=names, private=LOOPBACK) as client:
            with pytest.raises(HostUnreachable, match="certificate"):
                async with client.call(
                    "GET", f"https://files.example:{web.port}/", seconds=SECONDS
                ):
                    pass
    assert asked_for[:2] == ["files.example", "other.example"]


async def test_a_redirect_never_leaves_encryption(client_of: ClientOf, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("files.example").configure_cert(context)
    names = Names({"files.example": [["127.0.0.1"]]})
    respond = answering(status="302 Found", headers=["location: http://files.example/"])
    async with (
        serving(respond, context) as web,
        client_of(web, names=names, private=LOOPBACK, ca_file=tmp_path / "ca.pem") as client,
    ):
        with pytest.raises(AddressInvalid, match="not encrypted"):
            async with client.call(
                "GET", f"https://files.example:{web.port}/", seconds=SECONDS, redirects=2
            ):
                pass
