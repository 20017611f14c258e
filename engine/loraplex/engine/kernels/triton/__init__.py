"""The ops as Triton kernels. Only `backend` and the kernels' own modules import Triton."""
