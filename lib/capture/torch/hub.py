# torch.hub: models of a folder with a hubconf.py, and what an earlier download left in the cache; nothing is downloaded here.
import contextlib
import importlib.util
import os
import re
import sys
from urllib.parse import urlparse

from torch import serialization


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_directory = []


def _get_torch_home():
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir():
    return _directory[-1] if _directory else os.path.join(_get_torch_home(), "hub")


def set_dir(d):
    _directory.append(os.path.expanduser(d))


def load(repo_or_dir, model, *args, source="github", trust_repo="check", force_reload=False, verbose=True,
         skip_validation=False, **kwargs):
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    directory = repo_or_dir if source == "local" else _cached(repo_or_dir)
    with _importable(directory):
        return _entry(directory, model)(*args, **kwargs)


def _cached(repository):
    """The folder where PyTorch keeps `owner/name[:ref]`; without a ref, which branch is the default one shows only there."""
    name, _, ref = repository.partition(":")
    for branch in [ref] if ref else ["main", "master"]:
        directory = os.path.join(get_dir(), f"{name}_{branch}".replace("/", "_"))
        if os.path.exists(directory):
            return directory
    raise NotImplementedError(f"{repository} is not in {get_dir()}, and capture downloads nothing; "
                              "torch.hub.load(DIRECTORY, ..., source='local') loads from a folder")


@contextlib.contextmanager
def _importable(directory):
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path.remove(directory)


def _entry(directory, model):
    spec = importlib.util.spec_from_file_location("hubconf.py", path := os.path.join(directory, "hubconf.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    serialization.files_loaded.append(os.path.abspath(path))  # it is in no sys.modules, where --depfile looks
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    if missing := [name for name in getattr(module, "dependencies", None) or () if not importlib.util.find_spec(name)]:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    if not callable(function := getattr(module, model, None)):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


def load_state_dict_from_url(url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None, weights_only=False):
    path = os.path.join(model_dir or os.path.join(get_dir(), "checkpoints"), file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        download_url_to_file(url, path)
    return serialization.load(path, map_location=map_location, weights_only=weights_only)


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    fix = f"put the file at {dst}, or give the weights by `atenon capture --weights FILE`"
    raise NotImplementedError(f"{url}: capture downloads nothing; {fix}")
