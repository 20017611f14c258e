"""A Hugging Face hub of the tests' own: the routes and headers that an import meets there."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

from tests.web_server import Asked, WebServer, serving

COMMITS = ("0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef")


@dataclass
class Hub:
    """One private repository, `acme/lora`, whose branch `main` is at the newest commit.

    Large files are sent from another host, as the hub's storage does.
    """

    commits: list[dict[str, bytes]]
    token: str = "hf_secret"
    web: WebServer = field(init=False)
    storage: WebServer = field(init=False)
    lies_about: str | None = None
    """The file whose announced digest is wrong."""
    moves_on: dict[str, bytes] | None = None
    """Files that somebody pushes after the first answer."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.web.port}"

    async def respond(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            return send(writer, "401 Unauthorized", {"X-Error-Code": "RepoNotFound"})
        owner, name, verb, revision, path = unquote(asked.target).lstrip("/").split("/", 4)
        if (owner, name, verb) != ("acme", "lora", "resolve"):
            return send(writer, "404 Not Found", {"X-Error-Code": "RepoNotFound"})
        known = dict(zip(COMMITS, self.commits, strict=False))
        known["main"] = self.commits[-1]
        files = known.get(revision)
        if files is None:
            return send(writer, "404 Not Found", {"X-Error-Code": "RevisionNotFound"})
        body = files.get(path)
        if body is None:
            return send(writer, "404 Not Found", {"X-Error-Code": "EntryNotFound"})
        commit = COMMITS[self.commits.index(files)]
        headers = {"X-Repo-Commit": commit}
        if self.moves_on is not None:
            self.commits.append(self.moves_on)
            self.moves_on = None
        if not path.endswith(".safetensors"):
            return send(writer, "200 OK", headers, body)
        digest = hashlib.sha256(b"" if path == self.lies_about else body).hexdigest()
        target = f"http://127.0.0.1:{self.storage.port}/{commit}/{path}?signature=hidden"
        headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(body))}
        return send(writer, "302 Found", headers | {"Location": target})

    async def store(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        commit, _, path = asked.target.partition("?")[0].lstrip("/").partition("/")
        if asked.target.partition("?")[2] != "signature=hidden":
            return send(writer, "403 Forbidden")
        return send(writer, "200 OK", {}, self.commits[COMMITS.index(commit)][path])


def send(
    writer: asyncio.StreamWriter,
    status: str,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
) -> None:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)


@asynccontextmanager
async def serving_hub(hub: Hub) -> AsyncIterator[Hub]:
    async with serving(hub.respond) as hub.web, serving(hub.store) as hub.storage:
        yield hub
