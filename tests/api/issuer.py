"""A small OpenID provider for tests: codes work once, and only with their challenge's verifier."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "loraplex", "client-secret"
BASIC = "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()


@dataclass
class Issuer:
    """People it knows by their claims, and codes that are out."""

    url: str = ""
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "first"}))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def sign_in(self, address: str, claims: dict[str, Any], **changed: str) -> dict[str, str]:
        """What the person's browser brings back from `address`, where they were sent to."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT_ID)
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked | changed | {"claims": json.dumps(claims)}
        return {"code": code, "state": asked["state"]}

    def rotate(self) -> None:
        """Sign with another key from now on."""
        self.key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4)})

    def exchange(self, form: dict[str, str], authorization: str | None) -> dict[str, object] | None:
        """Tokens for a code; None where anything does not hold."""
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or authorization != BASIC:
            return None
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (challenge, form.get("redirect_uri")) != (
            asked["code_challenge"],
            asked["redirect_uri"],
        ):
            return None
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
        } | json.loads(asked["claims"])
        header = {"alg": "RS256", "kid": self.key.kid}
        id_token = jwt.encode(header, claims, self.key)
        return {"access_token": secrets.token_hex(), "token_type": "Bearer", "id_token": id_token}


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """An issuer that listens on loopback."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/keys":
                self._answer(200, {"keys": [issuer.key.as_dict(private=False)]})
            elif self.path == "/.well-known/openid-configuration":
                self._answer(
                    200,
                    {
                        "issuer": issuer.url,
                        "authorization_endpoint": f"{issuer.url}/authorize",
                        "token_endpoint": f"{issuer.url}/token",
                        "jwks_uri": f"{issuer.url}/keys",
                    },
                )
            else:
                self._answer(404, {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            tokens = issuer.exchange(form, self.headers.get("Authorization"))
            self._answer(200 if tokens else 400, tokens or {"error": "invalid_grant"})

        def log_message(self, *_: object) -> None:
            """The tests' output is long enough."""

        def _answer(self, status: int, body: dict[str, object]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
