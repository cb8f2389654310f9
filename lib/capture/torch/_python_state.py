# Where Python of the user's assigns an attribute, for what is said of state that forward changes.
import dis


def assignments(module, name):
    """(code, offset) of each `self.name = ...` in the methods of a module, forward's first; __init__ does not count."""
    methods = {}
    for kind in type(module).__mro__:
        for label, member in vars(kind).items():
            methods.setdefault(label, member)
    codes = [getattr(methods[label], "__code__", None) for label in sorted(methods, key=lambda label: label != "forward")
             if label != "__init__"]
    return [(code, step.offset) for code in codes if code is not None and name in code.co_names
            for step in dis.get_instructions(code) if step.opname == "STORE_ATTR" and step.argval == name]
