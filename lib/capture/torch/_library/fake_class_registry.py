# Where libraries import register_fake_class from.
from torch._custom_classes import FakeScriptObject, has_fake_class, register_fake_class
