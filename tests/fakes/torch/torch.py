"""A stand-in for the little of PyTorch that the GPU benchmarks call: arrays of numpy, a device that is always there, and no
training (a step does nothing, but takes a millisecond)."""

import time
from types import SimpleNamespace

import numpy as np

uint8, float32, float64, bfloat16 = np.uint8, np.float32, np.float64, np.float16
cuda = SimpleNamespace(is_available=lambda: True, synchronize=lambda: time.sleep(0.001), empty_cache=lambda: None)


class Tensor:
    """An array with the methods that are called."""

    def __init__(self, array):
        self.array = np.asarray(array)

    def __getitem__(self, key):
        return Tensor(self.array[key])

    def element_size(self):
        return self.array.itemsize

    def clone(self):
        return Tensor(self.array.copy())

    def copy_(self, other, non_blocking=False):
        assert non_blocking
        self.array[...] = other.array
        return self

    def add_(self, other, alpha=1.0):
        self.array += alpha * other.array
        return self

    def mul_(self, factor):
        self.array *= factor
        return self

    def mean(self):
        return self

    square = float = mean

    def backward(self):
        time.sleep(0.001)


def _shape(shape):
    return shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape


def rand(*shape, device, dtype):
    assert device == "cuda"
    return Tensor(np.random.default_rng(0).random(_shape(shape)).astype(dtype))


def randn(*shape, device, dtype):
    return rand(*shape, device=device, dtype=dtype)


def empty(*shape, device="cpu", dtype=float32, pin_memory=False):
    assert device == "cuda" or pin_memory or shape == (0,)
    return Tensor(np.zeros(_shape(shape), dtype))


def empty_like(other):
    return Tensor(np.zeros_like(other.array))


def matmul(first, second, out):
    np.matmul(first.array, second.array, out=out.array)
    return out


def add(first, second, out):
    np.add(first.array, second.array, out=out.array)
    return out


class _Module:
    def __init__(self, *_parts, bias=True):
        del bias

    def to(self, device, _dtype):
        assert device == "cuda"
        return self

    def parameters(self):
        return []

    def __call__(self, data):
        return data


class _AdamW:
    def __init__(self, parameters, lr):
        assert not parameters and lr > 0

    def zero_grad(self, set_to_none):
        assert set_to_none

    def step(self):
        pass


nn = SimpleNamespace(Linear=_Module, GELU=_Module, Sequential=_Module)
optim = SimpleNamespace(AdamW=_AdamW)
dtype = type
