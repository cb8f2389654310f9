# Where libraries import register_fake_class from.
from torch import _placeholder
from torch._custom_classes import FakeScriptObject, has_fake_class, register_fake_class

__getattr__ = _placeholder.getter(__name__)
