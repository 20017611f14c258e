"""What a person reads when the platform is up: where it is, who may call it, and how."""

import json
import shlex
from pathlib import Path
from typing import Any

QUESTION = "Why is the sky blue?"


def read_credentials(file: Path) -> dict[str, Any]:
    """The credentials that the demo wrote; empty when there are none."""
    try:
        credentials: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return credentials


def summary(base_url: str, file: Path, *, shows_admin_key: bool) -> str:
    """Several lines, ready to print; the admin key is in them only when asked for."""
    credentials = read_credentials(file)
    lines = ["", f"Loraplex is running at {base_url}", ""]
    if shows_admin_key and "admin" in credentials:
        lines.append(f"  admin key, shown this once: {credentials['admin']['api_key']}")
    elif "admin" in credentials:
        lines.append(f"  admin key: in {file}")
    if "link" in credentials.get("admin", {}):
        admin = credentials["admin"]
        lines.append(f"  admin {admin['email']}: choose a password at {admin['link']}")
    tenants: dict[str, Any] = credentials.get("tenants", {})
    width = max(map(len, tenants), default=0)
    for name, tenant in tenants.items():
        adapters = ", ".join(tenant["adapters"]) or "none yet"
        lines.append(f"  tenant {name:<{width}}  key {tenant['api_key']}  adapters {adapters}")
    if credentials:
        lines.append(f"  all of it is in {file}")
    examples = [
        curl(base_url, tenant["api_key"], tenant["adapters"][0])
        for tenant in tenants.values()
        if tenant["adapters"]
    ]
    if examples:
        lines += ["", "Ask as either tenant:", "", *examples]
    return "\n".join([*lines, "", "Ctrl-C stops everything."])


def curl(base_url: str, api_key: str, model: str) -> str:
    """One line for a shell that asks a model."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": 48,
        "temperature": 0,
    }
    parts = [
        "curl",
        "-s",
        f"{base_url}/v1/chat/completions",
        "-H",
        f"Authorization: Bearer {api_key}",
        "-H",
        "Content-Type: application/json",
        "-d",
        json.dumps(body),
    ]
    return shlex.join(parts)
