"""A small base model, as the gateway knows one."""

from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.module_table import ModuleTable

TABLE = ModuleTable(
    base_name="base",
    base_digest=Digest("sha256:" + "0" * 64),
    architecture="LlamaForCausalLM",
    layers=1,
    hidden_size=8,
    vocabulary_size=100,
    max_model_tokens=50,
    eos_token_ids=(2, 3),
    modules=(),
)
