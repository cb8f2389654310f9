# torch.testing.assert_close, by which scripts compare what they have exported with their model.
from collections.abc import Mapping, Sequence

import torch

__all__ = ["assert_close"]

_TOLERANCES = {  # relative, absolute; other types are compared exactly
    torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5), torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7),
}


def _is_sequence(value):
    return isinstance(value, Sequence) and not isinstance(value, str)


def _as_tensor(value):
    wide = torch.float64 if isinstance(value, float) else torch.complex128 if isinstance(value, complex) else None
    return torch.as_tensor(value, dtype=wide)


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True, check_dtype=True,
                 check_layout=True, check_stride=False, msg=None):
    """Raises an AssertionError unless both have the same structure and |actual - expected| <= atol + rtol * |expected| everywhere."""
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")

    def fail(text, path):
        if path:
            text += f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in path)}"
        raise AssertionError(msg(text) if callable(msg) else msg or text)

    def compare(actual, expected, path):
        if isinstance(actual, Mapping) and isinstance(expected, Mapping):
            if actual.keys() != expected.keys():
                fail(f"The keys of the mappings do not match: {list(actual)} and {list(expected)}", path)
            for key in actual:
                compare(actual[key], expected[key], (*path, key))
        elif _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path)
            for i, (a, b) in enumerate(zip(actual, expected)):
                compare(a, b, (*path, i))
        elif actual is None or expected is None:
            if actual is not expected:
                fail(f"None mismatch: {actual} is not {expected}", path)
        elif isinstance(actual, torch.Tensor) != isinstance(expected, torch.Tensor):
            raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")
        else:
            compare_tensors(_as_tensor(actual), _as_tensor(expected), path)

    def compare_tensors(actual, expected, path):
        if actual.shape != expected.shape:
            fail(f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}.", path)
        if check_dtype and actual.dtype != expected.dtype:
            fail(f"The values for attribute 'dtype' do not match: {actual.dtype} != {expected.dtype}.", path)
        if check_stride and actual.stride() != expected.stride():
            fail(f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}.", path)
        pairs = [_TOLERANCES.get(each.dtype, (0.0, 0.0)) for each in (actual, expected)]
        relative, absolute = (max(pair) for pair in zip(*pairs)) if rtol is None else (rtol, atol)
        common = torch.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.detach().to(common), expected.detach().to(common)
        if relative == absolute == 0 and not (common.is_floating_point or common.is_complex):
            differs = actual != expected  # of large integers, too
        else:
            differs = torch.isclose(actual, expected, rtol=relative, atol=absolute, equal_nan=equal_nan).logical_not()
        if not differs.any():
            return
        wide = torch.complex128 if common.is_complex else torch.float64
        error = (actual.to(wide) - expected.to(wide)).abs().masked_fill(~differs, 0)
        count, total = int(differs.sum()), differs.numel()
        lines = [f"{'Tensor-likes' if actual.dim() else 'Scalars'} are not {'close' if relative or absolute else 'equal'}!\n",
                 f"Mismatched elements: {count} / {total} ({count / total:.1%})"]
        for kind, values, allowed in ("absolute", error, absolute), ("relative", error / expected.to(wide).abs(), relative):
            place = int(values.flatten().masked_fill(~differs.flatten(), -1).argmax())
            index = tuple(map(int, torch.unravel_index(torch.tensor(place), values.shape)))
            lines.append(f"Greatest {kind} difference: {values.flatten()[place].item()} at index {index} (up to {allowed} allowed)")
        fail("\n".join(lines), path)

    compare(actual, expected, ())
