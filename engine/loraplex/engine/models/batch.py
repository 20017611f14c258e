"""One step's tensors, as a model reads them."""

from dataclasses import dataclass

from torch import Tensor

from loraplex.engine.lora.segments import LoraBatch


@dataclass(frozen=True)
class Batch:
    """Rows are the step's tokens, sequence after sequence.

    token_ids       [rows]              int64
    positions       [rows]              int64 place in the sequence
    prompt_tokens   [rows]              int64 length of the sequence's prompt
    slots           [rows]              int64 where the row's key and value go (see write_kv)
    block_tables    [sequences, blocks] int32
    query_starts    [sequences + 1]     int32 first row of each sequence
    context_tokens  [sequences]         int32 tokens in pages after this step
    sample_rows     [sampled]           int64 rows whose next token is wanted
    lora            None where no row has an adapter
    """

    token_ids: Tensor
    positions: Tensor
    prompt_tokens: Tensor
    slots: Tensor
    block_tables: Tensor
    query_starts: Tensor
    context_tokens: Tensor
    sample_rows: Tensor
    lora: LoraBatch | None
