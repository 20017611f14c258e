"""Writes the tokenizer a GGUF file carries as Hugging Face's files.

The result is the `tokenizer.json` that Transformers makes of the same file, byte-level BPE only:
what a tenant's adapter was trained on and what the gateway counts must be the same tokens.
"""

import json
from pathlib import Path
from typing import Any, Final

from loraplex.engine.importing.errors import CorruptModelSource
from loraplex.engine.protocol.errors import UnsupportedModel

_CONTROL_TOKEN: Final = 3


def write_tokenizer(metadata: dict[str, Any], directory: Path, max_model_tokens: int) -> None:
    """Write tokenizer.json, tokenizer_config.json and, where there is one, chat_template.jinja.

    Raises UnsupportedModel unless the tokenizer is byte-level BPE ("gpt2" in GGUF's words).
    """
    kind = metadata.get("tokenizer.ggml.model")
    if kind != "gpt2":
        raise UnsupportedModel(
            f"The GGUF file has a tokenizer of kind {kind!r}; only byte-level BPE is imported.",
            field="tokenizer.ggml.model",
            rule="gpt2",
            value=str(kind),
        )
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    _write_json(directory / "tokenizer.json", _tokenizer(metadata, tokens))
    special = {
        f"{role}_token": tokens[metadata[f"tokenizer.ggml.{key}_token_id"]]
        for role, key in _SPECIAL_ROLES.items()
        if f"tokenizer.ggml.{key}_token_id" in metadata
    }
    _write_json(
        directory / "tokenizer_config.json",
        {
            "add_bos_token": bool(metadata.get("tokenizer.ggml.add_bos_token", False)),
            "clean_up_tokenization_spaces": False,
            "model_max_length": max_model_tokens,
            "tokenizer_class": "PreTrainedTokenizerFast",
        }
        | special,
    )
    if template := metadata.get("tokenizer.chat_template"):
        (directory / "chat_template.jinja").write_text(template)


_SPECIAL_ROLES: Final = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}


def _tokenizer(metadata: dict[str, Any], tokens: list[str]) -> dict[str, Any]:
    types: list[int] = metadata["tokenizer.ggml.token_type"]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _special_token(token_id, tokens[token_id])
            for token_id, token_type in enumerate(types)
            if token_type == _CONTROL_TOKEN
        ],
        "normalizer": None,
        "pre_tokenizer": _byte_level(add_prefix_space=False),
        "post_processor": _post_processor(metadata, tokens),
        "decoder": _byte_level(add_prefix_space=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": [_merge(merge) for merge in metadata["tokenizer.ggml.merges"]],
        },
    }


def _merge(merge: str) -> list[str]:
    pair = merge.split(" ")
    if len(pair) != 2:
        raise CorruptModelSource(
            f"The tokenizer's merge {merge!r} is not a pair.",
            field="tokenizer.ggml.merges",
            rule="two tokens and a space",
            value=merge,
        )
    return pair


def _special_token(token_id: int, content: str) -> dict[str, Any]:
    return {
        "id": token_id,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _byte_level(*, add_prefix_space: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": True,
        "use_regex": True,
    }


def _post_processor(metadata: dict[str, Any], tokens: list[str]) -> dict[str, Any]:
    first = {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 1}}
    if not metadata.get("tokenizer.ggml.add_bos_token", False):
        return _template([first], [first, second], {})
    bos_id: int = metadata["tokenizer.ggml.bos_token_id"]
    bos = tokens[bos_id]
    begin = {"SpecialToken": {"id": bos, "type_id": 0}}
    return _template(
        [begin, first],
        [begin, first, second],
        {bos: {"id": bos, "ids": [bos_id], "tokens": [bos]}},
    )


def _template(
    single: list[dict[str, Any]], pair: list[dict[str, Any]], special: dict[str, Any]
) -> dict[str, Any]:
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": special,
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
