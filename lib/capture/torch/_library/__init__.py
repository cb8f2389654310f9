# torch._library: fake classes for script objects, the older half of custom operators.
from torch import _custom_classes

register_fake_class = _custom_classes.register_fake_class
