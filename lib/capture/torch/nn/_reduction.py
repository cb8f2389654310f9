# torch.nn._reduction: how losses of other packages name what is done with the elements' losses.
_ENUMS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}  # ATen/core/Reduction.h


def get_enum(reduction):
    if reduction not in _ENUMS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _ENUMS[reduction]


def legacy_get_string(size_average, reduce, emit_warning=True):
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def legacy_get_enum(size_average, reduce, emit_warning=True):
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
