"""The Triton backend costs nothing where it is not used, and says its shapes where it is."""

import subprocess
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from loraplex.engine.kernels.ops import kernels
from loraplex.engine.kernels.triton.tiles import shrink_splits

WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None  # an import of it fails, as on a machine that has none
import torch
from loraplex.engine.kernels.ops import kernels
pages = torch.zeros(1, 16)
kernels().write_kv(torch.ones(1, 2, 1, 8), pages, torch.tensor([0]), 0, 1, 1)
assert pages.sum() == 16
"""

WITHOUT_NEED = """
import sys
import loraplex.engine.models.decoder, loraplex.engine.lora.segments
assert "triton" not in sys.modules
"""


def test_a_machine_without_triton_serves() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_TRITON], check=True)


def test_a_process_that_needs_no_triton_does_not_import_it() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_NEED], check=True)


def test_partial_sums_are_part_of_the_shape_on_a_gpu_alone() -> None:
    rows, in_features, tiles = 33, 2048, 2
    for device, shape in (
        ("cuda", (shrink_splits(rows, 5, in_features), rows, 3, tiles * 16)),
        ("cpu", (rows, 3, tiles * 16)),
    ):
        inputs = (
            torch.empty(rows, in_features, dtype=torch.bfloat16, device="meta"),
            torch.empty(4, 8192, dtype=torch.bfloat16, device="meta"),
            torch.empty(5, 3, tiles, dtype=torch.int64, device="meta"),
            torch.empty(5, 3, dtype=torch.int32, device="meta"),
            torch.empty(5, 3, dtype=torch.int32, device="meta"),
        )
        with FakeTensorMode() as mode:
            x, *others = (FakeTensor(mode, tensor, torch.device(device)) for tensor in inputs)
            h = kernels().sgmv_shrink(x, *others, 16)
        assert h.shape == shape
        assert h.dtype == torch.float32
        assert h.device.type == device
