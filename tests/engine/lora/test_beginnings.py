"""How an adapter begins (init_lora_weights), where PEFT looks at weights or data before training.

Beginnings that change the base are refused as they were trained, and served once PEFT has turned
them into plain LoRA.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import (
    EvaConfig,
    LoftQConfig,
    LoraConfig,
    PeftModel,
    get_peft_model,
    initialize_lora_eva_weights,
)
from peft.tuners.lora.config import CordaConfig, LoraGAConfig
from peft.tuners.lora.loraga import preprocess_loraga

from loraplex.adapters_registry.rejection import AdapterRejected, ReasonCode
from tests.engine.lora.options import (
    ALL,
    Served,
    differences_from_peft,
    option,
    save,
    uploaded,
)
from tests.engine.models.test_architectures import PROMPT
from tests.engine.tiny import VOCABULARY, oracle, oracle_logits, peft_oracle

pytestmark = [
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def look_at_inputs(model: Any, config: LoraConfig) -> None:
    """CorDA takes the directions of W · C with C the covariance of a linear's inputs, times C⁻¹.

    PEFT's own function for it imports attrs, which PEFT does not ask for; the rest is PEFT's.
    """
    inputs: dict[Any, torch.Tensor] = {}
    linears = [one for name, one in model.named_modules() if name.rsplit(".", 1)[-1] in ALL]
    with torch.no_grad(), ExitStack() as hooked:
        for one in linears:
            hooked.callback(
                one.register_forward_hook(
                    lambda module, given, _: inputs.update({module: given[0][0]})
                ).remove
            )
        model(samples())
    for one in linears:
        covariance = inputs[one].T @ inputs[one] + torch.eye(one.in_features)
        u, s, v = torch.linalg.svd(one.weight.data @ covariance, full_matrices=False)
        v = (v @ torch.linalg.inv(covariance)).T
        largest = slice(0, config.r)
        one.eigens = SimpleNamespace(
            S_WC=s[largest].clone(), U_WC=u[:, largest].clone(), V_WC=v[:, largest].clone()
        )


def look_at_gradients(model: Any, config: LoraConfig) -> None:
    """LoRA-GA takes them from the first gradients."""
    ids = samples()
    preprocess_loraga(model, config, lambda: model(ids, labels=ids).loss.backward())


def samples() -> torch.Tensor:
    """`[1, tokens]`: something to look at before training."""
    generator = torch.Generator().manual_seed(5)
    return torch.randint(3, VOCABULARY, (1, 60), generator=generator)


def nothing(model: Any, config: LoraConfig) -> None:
    """The others look at the weights alone."""


Preparation = Callable[[Any, LoraConfig], None]

BEGINNINGS: dict[str, tuple[Preparation, dict[str, Any]]] = {
    "pissa": (nothing, {"rank_pattern": {"q_proj": 3}, "alpha_pattern": {"mlp.up_proj": 11}}),
    "pissa_niter_4": (nothing, {"use_rslora": True}),
    "olora": (nothing, {}),
    "corda": (look_at_inputs, {"corda_config": CordaConfig(corda_method="ipm")}),
    "lora_ga": (look_at_gradients, {"lora_ga_config": LoraGAConfig()}),
}


def begun(name: str, base: Served) -> PeftModel:
    """A model as PEFT hands it to the trainer: what A and B hold is taken out of the base."""
    prepare, fields = BEGINNINGS[name]
    torch.manual_seed(7)
    model = oracle(base.directory)
    own: dict[str, Any] = {"init_lora_weights": name, **fields}
    config = LoraConfig(r=5, lora_alpha=7, target_modules=ALL, **own)
    prepare(model, config)
    return get_peft_model(model, config)


def train(model: PeftModel) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))


def refusal(folder: Path, base: Served) -> str:
    with pytest.raises(AdapterRejected) as rejected:
        uploaded(folder, base)
    (reason,) = rejected.value.reasons
    assert (reason.code, reason.field) == (ReasonCode.NOT_SERVED, "init_lora_weights")
    return reason.message


def test_what_is_relative_to_a_changed_base_is_refused_and_its_conversion_is_served(
    bases: dict[str, Served], tmp_path: Path
) -> None:
    base = bases["llama"]
    converted = {name: tmp_path / name / "converted" for name in BEGINNINGS}
    for name, folder in converted.items():
        model = begun(name, base)
        beginning = tmp_path / name / "beginning"
        model.save_pretrained(str(beginning))
        train(model)
        model.save_pretrained(str(tmp_path / name / "trained"))
        message = refusal(tmp_path / name / "trained", base)
        assert name in message
        assert "path_initial_model_for_weight_conversion" in message
        wanted = oracle_logits(model.eval(), PROMPT[:19], PROMPT[19:22])
        model.save_pretrained(str(folder), path_initial_model_for_weight_conversion=str(beginning))
        found = oracle_logits(peft_oracle(base.directory, folder), PROMPT[:19], PROMPT[19:22])
        assert (found - wanted).abs().max() < 5e-4, f"PEFT's own conversion of {name}"
    differences = differences_from_peft(base, converted)
    assert max(differences.values()) < 5e-4, differences


def test_what_is_relative_to_a_quantised_base_is_refused(
    bases: dict[str, Served], tmp_path: Path
) -> None:
    # PEFT makes LoftQ's beginning with bitsandbytes on a GPU, and asks for SciPy; what it saves of
    # it is LoRA's tensors under this configuration.
    late = {"init_lora_weights": "loftq", "loftq_config": vars(LoftQConfig(loftq_bits=4))}
    with pytest.raises(AdapterRejected):
        save(option(target_modules=ALL, late=late), bases["llama"], tmp_path, 0)
    message = refusal(tmp_path, bases["llama"])
    assert "'loftq', which changes the base" in message
    assert "no exact conversion" in message


def test_ranks_that_eva_moved_between_modules_are_served(
    bases: dict[str, Served], tmp_path: Path
) -> None:
    base = bases["llama"]
    torch.manual_seed(3)
    config = LoraConfig(
        r=4,
        lora_alpha=7,
        target_modules=ALL,
        init_lora_weights="eva",
        eva_config=EvaConfig(rho=2.0),
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(oracle(base.directory), config)
    ids = samples()
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    initialize_lora_eva_weights(model, [batch] * 4, show_progress_bar=False)
    train(model)
    model.save_pretrained(str(tmp_path))
    spec = uploaded(tmp_path, base).spec
    assert len({module.rank for module in spec.modules}) > 1
    differences = differences_from_peft(base, {"eva": tmp_path})
    assert max(differences.values()) < 5e-4, differences
