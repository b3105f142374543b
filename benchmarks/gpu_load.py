"""Keep one NVIDIA GPU busy with arithmetic until the process is stopped. The script needs only the driver.

python benchmarks/gpu_load.py [GPU]
"""

from __future__ import annotations

import ctypes
import sys

_THREADS, _BLOCKS, _TURNS = 256, 4096, 1 << 16
# The driver compiles this code for the installed GPU.
_PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u32 turns)
{
    .reg .u32 %r<3>;
    .reg .f32 %f<3>;
    .reg .pred %p;
    ld.param.u32 %r1, [turns];
    mov.u32 %r2, 0;
    mov.f32 %f1, 0f3F800000;
    mov.f32 %f2, 0f3F7FFFFF;
again:
    fma.rn.f32 %f1, %f1, %f2, %f2;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p, %r2, %r1;
    @%p bra again;
    ret;
}
"""


class CudaError(Exception):
    """A failed call of the driver."""


class Cuda:
    """The driver's library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the driver. Raise CudaError if the call fails."""
        code = getattr(self._library, name)(*arguments)
        if code:
            raise CudaError(f"{name}: error {code}")


def spin(gpu: int) -> None:
    """Launch kernels on this GPU, one after another."""
    cuda, device, module = Cuda(), ctypes.c_int(), ctypes.c_void_p()
    context, function, turns = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint(_TURNS)
    cuda.call("cuInit", 0)
    cuda.call("cuDeviceGet", ctypes.byref(device), gpu)
    cuda.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    cuda.call("cuModuleLoadData", ctypes.byref(module), _PTX)
    cuda.call("cuModuleGetFunction", ctypes.byref(function), module, b"spin")
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(turns))
    print("busy", flush=True)
    while True:
        cuda.call("cuLaunchKernel", function, _BLOCKS, 1, 1, _THREADS, 1, 1, 0, None, arguments, None)
        cuda.call("cuCtxSynchronize")


if __name__ == "__main__":
    try:
        spin(int(sys.argv[1]) if sys.argv[1:] else 0)
    except (CudaError, OSError) as error:
        sys.exit(f"gpu_load.py: {error}")
    except KeyboardInterrupt:
        sys.exit(0)
