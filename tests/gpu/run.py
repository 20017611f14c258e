"""Checks or measures the CUDA path: `python tests/gpu/run.py test` or `bench`.

Needs a checkout, Python 3.11, PyTorch with CUDA and Triton; for the engine's cases also numpy,
msgspec and safetensors. Prints a JSON line a case; exits with 1 where one failed. `--dry-run`
follows the same steps on a CPU, at tiny sizes and on the `reference` kernels.
"""

import argparse
import faulthandler
import sys
from importlib.util import find_spec
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "engine"), str(CHECKOUT / ".cache/gpu-packages")]

import torch  # noqa: E402

from tests.gpu.kernel_cases import run_kernel_cases  # noqa: E402
from tests.gpu.report import Report  # noqa: E402
from tests.gpu.speed_cases import run_speed_cases  # noqa: E402

DEADLINE_SECONDS = 240.0
"""No case is begun later, so that the last still ends within five minutes."""

LAST_SECONDS = 295.0
"""Whatever hangs is ended then, and its stack printed; the exit code is 1."""

ENGINE_PACKAGES = ("numpy", "msgspec", "safetensors")
INSTALL = "pip install --target .cache/gpu-packages msgspec safetensors"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=["test", "bench"])
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--deadline", type=float, default=DEADLINE_SECONDS)
    arguments = parser.parse_args()
    faulthandler.dump_traceback_later(LAST_SECONDS, exit=True)
    report = Report(arguments.deadline)
    if not arguments.dry_run and not torch.cuda.is_available():
        report.say(error="PyTorch sees no CUDA device here; --dry-run needs none.")
        return 1
    device = torch.device("cpu" if arguments.dry_run else "cuda:0")
    missing = [name for name in ENGINE_PACKAGES if not _is_there(name)]
    report.say(
        mode=arguments.mode,
        device="none: a dry run" if arguments.dry_run else torch.cuda.get_device_name(device),
        python=sys.version.split()[0],
        torch=torch.__version__,
        missing=missing,
    )
    if missing:
        report.say(note=f"The engine's cases are left out; with them: {INSTALL}")
    _run(arguments.mode, report, device, has_engine=not missing)
    return report.end()


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _run(mode: str, report: Report, device: torch.device, *, has_engine: bool) -> None:
    if mode == "test":
        if has_engine:
            from tests.gpu.model_cases import run_model_cases

            run_model_cases(report, device)
        else:
            report.skip("the engine's cases", "packages are missing")
        run_kernel_cases(report, device)
        return
    copy_rate = run_speed_cases(report, device)
    if has_engine:
        from tests.gpu.decode_cases import run_decode_cases

        run_decode_cases(report, device, copy_rate)
    else:
        report.skip("decode steps", "packages are missing")


if __name__ == "__main__":
    sys.exit(main())
