"""Two sequences share a key exactly where they may share KV."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.protocol.cache_keys import (
    BlockKey,
    KeyChain,
    TokenIds,
    barrier_record,
    block_record,
    prompt_keys,
    root_key,
    root_record,
    tenant_barrier,
)
from loraplex.engine.protocol.identity import Digest, TenantNamespace

TEXTS = st.text(max_size=8)
"""Any text: injectivity must not lean on what digests and namespaces happen to look like."""
DIGESTS = TEXTS.map(Digest)
NAMESPACES = TEXTS.map(TenantNamespace)
PARENTS = st.binary(max_size=40).map(BlockKey)
TOKENS = st.lists(
    st.sampled_from([0, 1, 255, 256, 65536, 2**31, 2**32, 2**63 - 1]), max_size=5
).map(lambda ids: np.array(ids, dtype=np.int64))

ROOTS = st.tuples(DIGESTS, st.none() | DIGESTS, st.none() | NAMESPACES).map(
    lambda fields: (("root", *fields), root_record(*fields))
)
BARRIERS = st.tuples(PARENTS, NAMESPACES).map(
    lambda fields: (("barrier", *fields), barrier_record(*fields))
)
BLOCKS = st.tuples(PARENTS, TOKENS).map(
    lambda fields: (
        ("block", fields[0], *fields[1].tolist()),
        block_record(fields[0], fields[1].tobytes()),
    )
)
RECORDS = ROOTS | BARRIERS | BLOCKS

BASE, OTHER_BASE = Digest("sha256:" + 64 * "0"), Digest("sha256:" + 64 * "1")
ADAPTER, OTHER_ADAPTER = Digest("sha256:" + 64 * "a"), Digest("sha256:" + 64 * "b")
ANN, BOB = TenantNamespace("ann"), TenantNamespace("bob")

PROMPTS = st.lists(st.integers(0, 1), max_size=24).map(lambda ids: np.array(ids, dtype=np.int64))
BLOCK_TOKENS = st.integers(1, 5)


@given(RECORDS, RECORDS)
def test_what_is_hashed_is_equal_only_where_every_field_is(
    one: tuple[object, bytes], other: tuple[object, bytes]
) -> None:
    assert (one[0] == other[0]) == (one[1] == other[1])


@given(RECORDS)
def test_what_is_hashed_can_be_read_back(record: tuple[object, bytes]) -> None:
    """Tag, length, bytes until the end: no record continues or contains another by accident."""
    rest = record[1][1:]
    tags = []
    while rest:
        length = int.from_bytes(rest[1:9], "little")
        assert len(rest) >= 9 + length
        tags.append(rest[0])
        rest = rest[9 + length :]
    assert tags == sorted(set(tags)), "each field at most once, in one order"


@given(PROMPTS, PROMPTS, BLOCK_TOKENS)
def test_keys_are_shared_exactly_as_far_as_whole_blocks_are(
    one: TokenIds, other: TokenIds, block_tokens: int
) -> None:
    keys = [prompt_keys(BASE, ADAPTER, ANN, prompt, block_tokens) for prompt in (one, other)]
    assert [len(k) for k in keys] == [len(p) // block_tokens for p in (one, other)]
    for block, (a, b) in enumerate(zip(*keys, strict=False)):
        end = (block + 1) * block_tokens
        assert (a == b) == (one[:end].tolist() == other[:end].tolist())


@given(PROMPTS, st.data(), BLOCK_TOKENS)
def test_a_chain_grows_as_the_sequence_does(
    prompt: TokenIds, data: st.DataObject, block_tokens: int
) -> None:
    public = data.draw(st.integers(0, len(prompt)))
    chain = KeyChain(BASE, None, ANN, block_tokens, public)
    for end in sorted(data.draw(st.lists(st.integers(0, len(prompt))))):
        keys = chain.extend(prompt[:end])
        assert keys == prompt_keys(BASE, None, ANN, prompt[:end], block_tokens, public)


@given(PROMPTS, st.integers(0, 30), BLOCK_TOKENS)
def test_tenants_share_the_whole_public_blocks_of_the_base_and_nothing_else(
    prompt: TokenIds, public_tokens: int, block_tokens: int
) -> None:
    ann, bob = (
        prompt_keys(BASE, None, namespace, prompt, block_tokens, public_tokens)
        for namespace in (ANN, BOB)
    )
    shared = min(public_tokens // block_tokens, len(ann))
    assert ann[:shared] == bob[:shared]
    assert not set(ann[shared:]) & set(bob)


@given(PROMPTS, st.integers(0, 30), BLOCK_TOKENS)
def test_the_blocks_of_an_adapter_are_its_tenants_alone_whatever_is_public(
    prompt: TokenIds, public_tokens: int, block_tokens: int
) -> None:
    ann, bob = (
        prompt_keys(BASE, ADAPTER, namespace, prompt, block_tokens, public_tokens)
        for namespace in (ANN, BOB)
    )
    assert not set(ann) & set(bob)
    assert ann == prompt_keys(BASE, ADAPTER, ANN, prompt, block_tokens)


@given(PROMPTS, st.integers(0, 30), BLOCK_TOKENS)
def test_bases_and_adapters_and_the_base_alone_share_nothing(
    prompt: TokenIds, public_tokens: int, block_tokens: int
) -> None:
    chains = [
        prompt_keys(base, adapter, ANN, prompt, block_tokens, public_tokens)
        for base in (BASE, OTHER_BASE)
        for adapter in (None, ADAPTER, OTHER_ADAPTER)
    ]
    keys = [key for chain in chains for key in chain]
    assert len(set(keys)) == len(keys)


def test_an_answer_after_a_public_prompt_is_not_public() -> None:
    prompt, answer = np.arange(8), np.arange(8, 12)
    ann, bob = (KeyChain(BASE, None, namespace, 4, public_tokens=8) for namespace in (ANN, BOB))
    assert ann.extend(prompt) == bob.extend(prompt)
    whole = np.concatenate((prompt, answer))
    assert ann.extend(whole)[2] != bob.extend(whole)[2]


def test_a_barrier_is_no_root_and_no_block() -> None:
    root = root_key(BASE, None, None)
    assert tenant_barrier(root, ANN) != root_key(BASE, None, ANN)
    assert tenant_barrier(root, TenantNamespace("")) != root


@pytest.mark.parametrize("dtype", [np.int32, np.int64, ">i8"])
def test_keys_do_not_depend_on_how_token_ids_are_stored(dtype: str) -> None:
    prompt = np.arange(1000, 1032)
    wanted = prompt_keys(BASE, None, ANN, prompt, 16)
    assert prompt_keys(BASE, None, ANN, prompt.astype(dtype), 16) == wanted
    assert prompt_keys(BASE, None, ANN, np.repeat(prompt, 2)[::2], 16) == wanted


def test_keys_are_the_same_in_every_process() -> None:
    """A changed record without a changed format would match blocks of another meaning."""
    first, second = prompt_keys(BASE, ADAPTER, ANN, np.arange(32), 16)
    assert first.hex() == "4cd121749a1e9d4d7779e97cd3e29339bd64bac318dff5146d710274b8fdcbdf"
    assert second.hex() == "5fa39e427fd144465159d09f2e29418e6bb79a58c4acd8110ba70ee68f00b57e"


def test_keys_need_no_torch() -> None:
    code = "import loraplex.engine.protocol.cache_keys, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
