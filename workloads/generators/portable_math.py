"""log and exp from IEEE 754 +, -, *, / alone: the same bits on every machine.

numpy picks its own vector code for `np.log` and `np.exp` by CPU, and the C library's differ in the
last bit too. One such bit can move an arrival by a nanosecond and change a trace's digest.
"""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 32 bits of ln 2: times an exponent, exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")  # the rest
_SQRT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
_LOG_TERMS = 11  # s <= 0.0295 in `log`: s^11 is below 2^-53
_EXP_TERMS = 14  # |r| <= 0.347 in `exp`: r^14 / 14! is below 2^-53


def log(x: Floats) -> Floats:
    """Natural logarithm of positive finite numbers, good to about 1e-15 relative.

    x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh(f), f = (m - 1) / (m + 1), by its
    power series.
    """
    mantissa, exponent = np.frexp(x)
    low = mantissa < _SQRT_HALF
    mantissa = np.where(low, mantissa * 2.0, mantissa)
    power = (exponent - low).astype(np.float64)
    f = (mantissa - 1.0) / (mantissa + 1.0)
    s = f * f
    series = np.zeros_like(f)
    for k in range(_LOG_TERMS, -1, -1):
        series = series * s + 1.0 / (2 * k + 1)
    return np.asarray(power * _LN2_HIGH + (2.0 * f * series + power * _LN2_LOW), dtype=np.float64)


def exp(x: Floats) -> Floats:
    """E to the x, for |x| below 700, good to about 1e-15 relative.

    x = k ln 2 + r with |r| <= ln 2 / 2; e^r by its power series, then 2^k exactly.
    """
    k = np.rint(x * (1.0 / math.log(2)))
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    series = np.ones_like(r)
    for n in range(_EXP_TERMS, 0, -1):
        series = series * (r / n) + 1.0
    return np.asarray(np.ldexp(series, k.astype(np.int32)), dtype=np.float64)
