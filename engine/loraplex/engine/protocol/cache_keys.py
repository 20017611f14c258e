"""The one key of cached KV everywhere: pool, tiers, events, router and transfers compare these.

A key names the KV of one full block of tokens and of everything before it. It is the SHA-256 of a
record that holds the key before it, so that equal keys mean equal prefixes of the same adapter of
the same tenant on the same base:

    root     = H(ROOT,    format, base digest, adapter digest?, namespace?)
    barrier  = H(BARRIER, parent, namespace)
    block    = H(BLOCK,   parent, token ids)

Each field is a tag, its length and its bytes, token ids in full width: no value can stand for
another field, a longer value or a narrower number.
"""

import hashlib
import struct
from typing import Final, NewType

import numpy as np
import numpy.typing as npt

from loraplex.engine.protocol.identity import Digest, TenantNamespace

BlockKey = NewType("BlockKey", bytes)
"""32 bytes."""

TokenIds = npt.NDArray[np.int64]

_FORMAT: Final = b"loraplex kv 1"
"""Changes with the record's meaning: keys of another meaning never match."""

_ROOT, _BARRIER, _BLOCK = b"\x01", b"\x02", b"\x03"
_FORMAT_FIELD, _BASE, _ADAPTER, _PARENT, _NAMESPACE, _TOKENS = range(1, 7)
_FIELD_HEAD: Final = struct.Struct("<BQ")
_BLOCK_HEAD: Final = _BLOCK + _FIELD_HEAD.pack(_PARENT, 32)
_TOKEN_TYPE: Final = np.dtype("<i8")


def root_key(
    base_digest: Digest, adapter_digest: Digest | None, namespace: TenantNamespace | None
) -> BlockKey:
    """What comes before the first token: whose weights, and whose cache unless it is public."""
    return _hash(root_record(base_digest, adapter_digest, namespace))


def tenant_barrier(parent: BlockKey, namespace: TenantNamespace) -> BlockKey:
    """Where a public prefix ends: what follows `parent` belongs to one tenant."""
    return _hash(barrier_record(parent, namespace))


def root_record(
    base_digest: Digest, adapter_digest: Digest | None, namespace: TenantNamespace | None
) -> bytes:
    """The bytes that are hashed; different arguments give different bytes."""
    fields = [_ROOT, _field(_FORMAT_FIELD, _FORMAT), _field(_BASE, base_digest.encode())]
    if adapter_digest is not None:
        fields.append(_field(_ADAPTER, adapter_digest.encode()))
    if namespace is not None:
        fields.append(_field(_NAMESPACE, namespace.encode()))
    return b"".join(fields)


def barrier_record(parent: BlockKey, namespace: TenantNamespace) -> bytes:
    return b"".join((_BARRIER, _field(_PARENT, parent), _field(_NAMESPACE, namespace.encode())))


def block_record(parent: BlockKey, tokens: bytes) -> bytes:
    return b"".join((_BLOCK, _field(_PARENT, parent), _field(_TOKENS, tokens)))


def _bytes_of(token_ids: TokenIds) -> bytes:
    return token_ids.astype(_TOKEN_TYPE, copy=False).tobytes()


def _field(tag: int, value: bytes) -> bytes:
    return _FIELD_HEAD.pack(tag, len(value)) + value


def _hash(record: bytes) -> BlockKey:
    return BlockKey(hashlib.sha256(record).digest())


class KeyChain:
    """The keys of one sequence's full blocks, which grow with it.

    With an adapter the namespace is in the root, whatever is public: nobody learns from timing
    which adapters another tenant has. For the base, blocks that lie wholly within the first
    `public_tokens` tokens come before the tenant barrier and are the same for everybody.
    `public_tokens` is at most the prompt's length: an answer is never public.
    """

    def __init__(
        self,
        base_digest: Digest,
        adapter_digest: Digest | None,
        namespace: TenantNamespace,
        block_tokens: int,
        public_tokens: int = 0,
    ) -> None:
        self.keys: list[BlockKey] = []
        self._block_tokens = block_tokens
        self._namespace = namespace
        if adapter_digest is None:
            self._public_blocks = public_tokens // block_tokens
            self._last = root_key(base_digest, None, None)
            self._is_public = True
        else:
            self._public_blocks = 0
            self._last = root_key(base_digest, adapter_digest, namespace)
            self._is_public = False

    def extend(self, token_ids: TokenIds) -> list[BlockKey]:
        """Hash the full blocks of the sequence so far `[tokens]` that have no key yet.

        Returns `keys`, all of them. Costs nothing while no block has become full.
        """
        keys, parent = self.keys, self._last
        first, end = len(keys), len(token_ids) // self._block_tokens
        tokens = _bytes_of(token_ids[first * self._block_tokens : end * self._block_tokens])
        block_bytes = self._block_tokens * _TOKEN_TYPE.itemsize
        # As `block_record`, whose heads are the same for every block of a chain.
        tokens_head = _FIELD_HEAD.pack(_TOKENS, block_bytes)
        for number, start in enumerate(range(0, len(tokens), block_bytes), first):
            if self._is_public and number >= self._public_blocks:
                parent = tenant_barrier(parent, self._namespace)
                self._is_public = False
            record = _BLOCK_HEAD + parent + tokens_head + tokens[start : start + block_bytes]
            parent = BlockKey(hashlib.sha256(record).digest())
            keys.append(parent)
        self._last = parent
        return keys


def prompt_keys(
    base_digest: Digest,
    adapter_digest: Digest | None,
    namespace: TenantNamespace,
    token_ids: TokenIds,
    block_tokens: int,
    public_tokens: int = 0,
) -> list[BlockKey]:
    """The keys of all full blocks of `token_ids` `[tokens]`; see KeyChain."""
    chain = KeyChain(base_digest, adapter_digest, namespace, block_tokens, public_tokens)
    return chain.extend(token_ids)
