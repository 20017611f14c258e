"""Which blocks of its tokens a request finds in the prefix cache, and which it leaves there."""

from collections.abc import Sequence

from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.prefix_cache import PrefixCache
from loraplex.engine.protocol.cache_keys import BlockKey, KeyChain
from loraplex.engine.protocol.generation import GenerationRequest
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.request import Request


class PrefixSharing:
    """Full blocks only, and never one that the request still has to write: nothing is copied.

    With `is_enabled` false no request shares anything: a model whose keys and values depend on
    the prompt's length (dynamic NTK) has no prefix that two prompts could share.
    """

    def __init__(
        self, cache: PrefixCache, base_digest: Digest, block_tokens: int, *, is_enabled: bool
    ) -> None:
        self._cache = cache
        self._base_digest = base_digest
        self._block_tokens = block_tokens
        self._is_enabled = is_enabled

    def chain(self, message: GenerationRequest) -> KeyChain | None:
        """The keys of a new request, to be extended with its tokens."""
        if not (self._is_enabled and message.use_prefix_cache):
            return None
        return KeyChain(
            self._base_digest,
            None if message.adapter is None else message.adapter.spec.digest,
            message.namespace,
            self._block_tokens,
            min(message.public_prefix_tokens, len(message.prompt_token_ids)),
        )

    def match(self, request: Request) -> list[PageId]:
        """Pages of its longest cached prefix, held for it from now on.

        At most all tokens but one: a token has to be computed for the next one to be sampled.
        """
        return self._cache.match(self._matchable(request))

    def unmatch(self, pages: Sequence[PageId]) -> None:
        """Let go of a match whose request could not start."""
        self._cache.unmatch(pages)

    def share(self, request: Request) -> None:
        """Offer the blocks that settled steps have filled; what is cached already stays its own."""
        blocks = request.settled_tokens // self._block_tokens
        if request.chain is None or blocks <= request.shared_blocks:
            request.count_shared(blocks)
            return
        keys = request.chain.extend(request.fill())
        pages = request.pages_of(request.shared_blocks, blocks)
        for block, page in enumerate(pages, request.shared_blocks):
            self._cache.commit(keys[block], page)
        request.count_shared(blocks)

    def release(self, request: Request) -> None:
        """Give up its pages: its own are free, shared ones stay for whoever comes next."""
        self._cache.release(request.pages)
        request.drop_pages()

    def distrust(self, request: Request) -> None:
        """Something is wrong with what it computed: nobody else shall find its blocks."""
        self._cache.invalidate(request.pages)

    def _matchable(self, request: Request) -> list[BlockKey]:
        if request.chain is None:
            return []
        return request.chain.keys[: (request.wanted_tokens - 1) // self._block_tokens]
