# torch.torch_version: torch.__version__ is a string that compares as a version does: 2.13 comes after 2.9, and (2, 9) may be asked for.
#
# The order is that of PEP 440: epoch, release, pre-release, post-release, development, local part.
import re
from collections.abc import Iterable

from torch.version import __version__ as internal_version

__all__ = ["TorchVersion"]

_pattern = r"""\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<stage>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre>\d*))?
    (?:-(?P<implicit>\d+)|(?P<posted>[-_.]?(?:post|rev|r)[-_.]?(?P<post>\d*)))?
    (?P<developed>[-_.]?dev[-_.]?(?P<dev>\d*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*"""
_stages = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


def _order(version):
    """What is compared in place of a version, or None where it is none. A part that is left out comes first or last: (0,) or (2,)."""
    found = re.fullmatch(_pattern, version, re.VERBOSE | re.IGNORECASE | re.ASCII)  # compiled when first asked for
    if not found:
        return None
    release = [int(number) for number in found["release"].split(".")]
    while len(release) > 1 and not release[-1]:
        release.pop()
    post = found["implicit"] if found["implicit"] else found["post"] or 0 if found["posted"] else None
    dev = found["dev"] or 0 if found["developed"] else None
    if stage := found["stage"]:
        pre = (1, _stages.get(stage.lower(), stage.lower()), int(found["pre"] or 0))
    else:
        pre = (0,) if post is None and dev is not None else (2,)
    local = re.split(r"[-_.]", found["local"].lower()) if found["local"] else []
    return (int(found["epoch"] or 0), release, pre, (0,) if post is None else (1, int(post)), (2,) if dev is None else (1, int(dev)),
            [(1, int(part)) if part.isdigit() else (0, part) for part in local])


class TorchVersion(str):
    __slots__ = ()
    __hash__ = str.__hash__


def _comparison(name):
    def compare(self, other):
        text = other if isinstance(other, str) else ".".join(map(str, other)) if isinstance(other, Iterable) else ""
        mine, theirs = _order(self), _order(text)
        if mine is None or theirs is None:  # as strings
            return getattr(str, name)(self, other)
        return getattr(mine, name)(theirs)

    return compare


# != stays that of strings, as it is in PyTorch.
for _name in ("__gt__", "__lt__", "__eq__", "__ge__", "__le__"):
    setattr(TorchVersion, _name, _comparison(_name))

__version__ = TorchVersion(internal_version)
