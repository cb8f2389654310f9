# The public names of PyTorch 2.13, as data: names.txt has one line a module ("torch.fx Graph GraphModule ...").
#
# Only a name in that list may resolve to a placeholder: libraries probe for features by hasattr, and a name that PyTorch
# lacks must be an AttributeError here too. The file is searched, not parsed: a start touches few of its lines.
import functools


@functools.cache
def _text():
    with open(__file__.rpartition("/")[0] + "/names.txt", encoding="utf-8") as file:
        return "\n" + file.read()


def has_module(module):
    return f"\n{module} " in _text()


@functools.cache
def of(module):
    """The names of a module or class, in order; empty where it is unknown."""
    text = _text()
    start = text.find(f"\n{module} ")
    if start < 0:
        return ()
    start += len(module) + 2
    return tuple(text[start : text.index("\n", start)].split())


@functools.cache
def set_of(module):
    return frozenset(of(module))
