# torch.signal.windows: symmetric ones by default; of a periodic one, `sym=False`, the value after the last would be its first.
import math

import torch

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser",
           "nuttall"]


def _window(shape, M, sym, options, start, step):
    """shape(k) of M points `step` apart from `start`; both by how many points a period has, one of which a symmetric window has twice."""
    options = {key: value for key, value in options.items() if value is not None and key in ("dtype", "requires_grad")}
    if M < 0:
        raise ValueError(f"requires non-negative window length, got M={M}")
    if M == 0:
        return torch.empty(0, **options)
    period = M if not sym and M > 1 else M - 1
    start, step = start(period), step(period)
    return shape(torch.linspace(start, start + (M - 1) * step, M, **options))


def exponential(M, *, center=None, tau=1.0, sym=True, **options):
    if center is not None and sym:
        raise ValueError("Center must be None for symmetric windows")
    middle = (lambda period: -period / 2 / tau) if center is None else lambda period: -center / tau
    return _window(lambda k: torch.exp(-k.abs()), M, sym, options, middle, lambda period: 1 / tau)


def cosine(M, *, sym=True, **options):
    step = lambda period: math.pi / (period + 1)
    return _window(torch.sin, M, sym, options, lambda period: 0.5 * step(period), step)


def gaussian(M, *, std=1.0, sym=True, **options):
    step = 1 / (std * math.sqrt(2))
    return _window(lambda k: torch.exp(-k**2), M, sym, options, lambda period: -period / 2 * step, lambda period: step)


def kaiser(M, *, beta=12.0, sym=True, **options):
    if M == 1:
        return torch.ones(1, dtype=options.get("dtype"))
    rise = lambda k: torch.i0(torch.sqrt((beta * beta - k**2).clamp(min=0))) / torch.i0(torch.tensor(beta, dtype=k.dtype))
    return _window(rise, M, sym, options, lambda period: -beta, lambda period: 2 * beta / period)


def general_cosine(M, *, a, sym=True, **options):
    def shape(k):
        signed = torch.tensor([(-1) ** i * weight for i, weight in enumerate(a)], dtype=k.dtype)
        return (signed.unsqueeze(-1) * torch.cos(torch.arange(len(a), dtype=k.dtype).unsqueeze(-1) * k)).sum(0)

    if M == 1:
        return torch.ones(1, dtype=options.get("dtype"))
    return _window(shape, M, sym, options, lambda period: 0.0, lambda period: 2 * math.pi / period)


def general_hamming(M, *, alpha=0.54, sym=True, **options):
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, **options)


def hamming(M, *, sym=True, **options):
    return general_hamming(M, sym=sym, **options)


def hann(M, *, sym=True, **options):
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M, *, sym=True, **options):
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M, *, sym=True, **options):
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


def bartlett(M, *, sym=True, **options):
    if M == 1:
        return torch.ones(1, dtype=options.get("dtype"))
    return _window(lambda k: 1 - k.abs(), M, sym, options, lambda period: -1.0, lambda period: 2 / period)
