"""Where Triton has no wheel (it has one for Linux), its kernels are not tested."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["test_compilation.py", "test_interpreted.py"]
