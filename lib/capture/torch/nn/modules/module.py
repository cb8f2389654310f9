# nn.Module: parameters, buffers and submodules by attribute; hooks; state dicts.
#
# Attribute names (_parameters, _buffers, _forward_hooks ...) are PyTorch's, because libraries reach for them. A call tells the
# native module which module runs, so that each node of the graph knows its module path.
import functools
import itertools
from collections import OrderedDict, namedtuple

import _atenon

from torch._functional import typename
from torch._modes import no_grad
from torch._placeholder import Unsupported
from torch._tensor import Tensor, parse_to
from torch.nn.parameter import Buffer, Parameter
from torch.utils.hooks import RemovableHandle

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"

# The globals that no hook is ever in are read by libraries that call modules themselves.
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None
_global_forward_hooks = OrderedDict()
_global_forward_pre_hooks = OrderedDict()
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _registered(hooks, hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    return _registered(_global_forward_hooks, hook)


def register_module_forward_pre_hook(hook):
    return _registered(_global_forward_pre_hooks, hook)


def register_module_buffer_registration_hook(hook):
    return _registered(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    return _registered(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    return _registered(_global_parameter_registration_hooks, hook)


def _addindent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first] + [" " * spaces + line for line in rest])


def _register(module, kind, held, hooks, name, value):
    """Holds a value by its name, as the hooks change it."""
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if hasattr(module, name) and name not in held:
        raise KeyError(f"attribute '{name}' already exists")
    for hook in hooks.values():
        replaced = hook(module, name, value)
        value = value if replaced is None else replaced
    held[name] = value


class Module:
    dump_patches = False
    _version = 1
    training: bool
    call_super_init = False
    _compiled_call_impl = None

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and (args or kwargs):
            unexpected = f"{len(args) + 1} were given" if args else f"got an unexpected keyword argument '{next(iter(kwargs))}'"
            raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but {unexpected}" if args
                            else f"{type(self).__name__}.__init__() {unexpected}")
        state = self.__dict__
        state["training"] = True
        state["_parameters"] = {}
        state["_buffers"] = {}
        state["_non_persistent_buffers_set"] = set()
        state["_backward_pre_hooks"] = OrderedDict()
        state["_backward_hooks"] = OrderedDict()
        state["_is_full_backward_hook"] = None
        state["_forward_hooks"] = OrderedDict()
        state["_forward_hooks_with_kwargs"] = OrderedDict()
        state["_forward_hooks_always_called"] = OrderedDict()
        state["_forward_pre_hooks"] = OrderedDict()
        state["_forward_pre_hooks_with_kwargs"] = OrderedDict()
        state["_state_dict_hooks"] = OrderedDict()
        state["_state_dict_pre_hooks"] = OrderedDict()
        state["_load_state_dict_pre_hooks"] = OrderedDict()
        state["_load_state_dict_post_hooks"] = OrderedDict()
        state["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # --- Calls

    def forward(self, *input):
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args, **kwargs):
        _atenon.push_module(self)
        try:
            if not (self._forward_hooks or self._forward_pre_hooks or _global_forward_hooks or _global_forward_pre_hooks):
                return self.forward(*args, **kwargs)
            return self._call_with_hooks(args, kwargs)
        finally:
            _atenon.pop_module()

    def _call_impl(self, *args, **kwargs):
        return Module.__call__(self, *args, **kwargs)

    _wrapped_call_impl = _call_impl

    def _slow_forward(self, *input, **kwargs):  # libraries with a call of their own name it beside forward
        return self.forward(*input, **kwargs)

    def _call_with_hooks(self, args, kwargs):
        for key, hook in (*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for key, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
            if key in self._forward_hooks_with_kwargs:
                changed = hook(self, args, kwargs, result)
            else:
                changed = hook(self, args, result)
            if changed is not None:
                result = changed
        return result

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        handle = RemovableHandle(self._forward_pre_hooks, extra_dict=self._forward_pre_hooks_with_kwargs)
        self._forward_pre_hooks[handle.id] = hook
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        if prepend:
            self._forward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        handle = RemovableHandle(self._forward_hooks,
                                 extra_dict=[self._forward_hooks_with_kwargs, self._forward_hooks_always_called])
        self._forward_hooks[handle.id] = hook
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        if prepend:
            self._forward_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_full_backward_hook(self, hook, prepend=False):
        return _registered(self._backward_hooks, hook)

    def register_backward_hook(self, hook):
        return _registered(self._backward_hooks, hook)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        return _registered(self._backward_pre_hooks, hook)

    # --- Registration

    def register_buffer(self, name, tensor, persistent=True):
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                            "(torch Tensor or None required)")
        _register(self, "buffer", self._buffers, _global_buffer_registration_hooks, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{typename(param)}' object to parameter '{name}' "
                            "(torch.nn.Parameter or None required)")
        _register(self, "parameter", self._parameters, _global_parameter_registration_hooks, name, param)

    def add_module(self, name, module):
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        _register(self, "module", self._modules, _global_module_registration_hooks, name, module)

    def register_module(self, name, module):
        self.add_module(name, module)

    def __getattr__(self, name):
        state = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            entries = state.get(kind)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _forget(self, name, *kinds):
        for kind in ("__dict__", "_parameters", "_buffers", "_modules"):
            if kind not in kinds:
                (self.__dict__ if kind == "__dict__" else self.__dict__.get(kind, {})).pop(name, None)
        if "_buffers" not in kinds:
            self.__dict__.get("_non_persistent_buffers_set", set()).discard(name)

    def __setattr__(self, name, value):
        state = self.__dict__
        parameters = state.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
            return
        if parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as parameter '{name}' "
                                "(torch.nn.Parameter or None expected)")
            self.register_parameter(name, value)
            return
        modules = state.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            for hook in _global_module_registration_hooks.values():
                replaced = hook(self, name, value)
                value = value if replaced is None else replaced
            modules[name] = value
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as child module '{name}' "
                                "(torch.nn.Module or None expected)")
            modules[name] = value
            return
        buffers = state.get("_buffers")
        if buffers is not None and (name in buffers or isinstance(value, Buffer)):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{typename(value)}' as buffer '{name}' "
                                "(torch.nn.Buffer, torch.Tensor or None expected)")
            if value is not None and value.is_sparse and _atenon.is_tracing():
                raise Unsupported(f"forward assigns a sparse tensor to the buffer '{name}', which no program keeps", "torch.sparse")
            if name in buffers:
                for hook in _global_buffer_registration_hooks.values():
                    replaced = hook(self, name, value)
                    value = value if replaced is None else replaced
                buffers[name] = value
            else:
                self._forget(name, "_buffers")
                self.register_buffer(name, value, persistent=value.persistent)
            return
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __dir__(self):
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[0].isdigit())

    # --- Looking up

    def get_submodule(self, target):
        module = self
        for name in filter(None, target.split(".")):
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        setattr(parent, name, module)

    def _get_member(self, target, kind, entries):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in getattr(module, entries):
            raise AttributeError(f"`{name}` is not {kind}")
        return getattr(module, entries)[name]

    def get_parameter(self, target):
        return self._get_member(target, "an nn.Parameter", "_parameters")

    def get_buffer(self, target):
        return self._get_member(target, "a buffer", "_buffers")

    def get_extra_state(self):
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state):
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    # --- Walks, in the order of registration, each object once

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield path + ("." if path else "") + name, value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self):
        seen = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self):
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    def modules(self, remove_duplicate=True):
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    # --- Changes to the whole tree

    def _apply(self, fn, recurse=True):
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                applied = fn(parameter)
                if applied is not parameter:
                    parameter.data = applied
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def apply(self, fn):
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args, **kwargs):
        device, dtype, _, _ = parse_to(*args, **kwargs)
        _atenon.check_device(device)
        if dtype is None:
            return self
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() or t.is_complex() else t)

    def to_empty(self, *, device, recurse=True):
        _atenon.check_device(device)
        return self

    def type(self, dst_type):
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self):
        return self

    def cuda(self, device=None):
        _atenon.check_device("cuda")
        return self

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        for parameter in self.parameters():
            parameter.grad = None

    def share_memory(self):
        return self

    def compile(self, *args, **kwargs):
        pass

    # --- State dicts

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("Cannot register the same function as the state dict post hook that was previously "
                               "registered via register_state_dict_post_hook")
        return _registered(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        hook._from_public_api = True
        return _registered(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook):
        return _registered(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _registered(self._load_state_dict_pre_hooks, functools.partial(hook, self) if with_module else hook)

    def register_load_state_dict_pre_hook(self, hook):
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        return _registered(self._load_state_dict_post_hooks, hook)

    def _has_extra_state(self):
        return type(self).get_extra_state is not Module.get_extra_state

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._has_extra_state():
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        given = dict(zip(("destination", "prefix", "keep_vars"), args))
        destination, prefix = given.get("destination", destination), given.get("prefix", prefix)
        keep_vars = given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, local_metadata)
            if not getattr(hook, "_from_public_api", False) and replaced is not None:
                destination = replaced
        return destination

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        persistent = ((n, b) for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set)
        local_state = {n: v for n, v in itertools.chain(self._parameters.items(), persistent) if v is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, value in local_state.items():
            key = prefix + name
            if key in state_dict:
                self._load_entry(key, name, value, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    name, *rest = key[len(prefix):].split(".", 1)
                    if name not in (self._modules if rest else local_state):
                        unexpected_keys.append(key)

    def _load_entry(self, key, name, value, loaded, assign, error_msgs):
        if not isinstance(loaded, Tensor):
            error_msgs.append(f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                              f"checkpoint but received {type(loaded)}")
            return
        if len(value.shape) == 0 and tuple(loaded.shape) == (1,):
            loaded = loaded[0]
        if loaded.shape != value.shape:
            error_msgs.append(f"size mismatch for {key}: copying a param with shape {loaded.shape} from checkpoint, "
                              f"the shape in current model is {value.shape}.")
            return
        with no_grad():
            if not assign:
                value.copy_(loaded)
            elif isinstance(value, Parameter) and not isinstance(loaded, Parameter):
                setattr(self, name, Parameter(loaded, requires_grad=value.requires_grad))
            else:
                setattr(self, name, loaded)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        missing_keys, unexpected_keys, error_msgs = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, local_state_dict, prefix=""):
            local_metadata = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(local_state_dict, prefix, local_metadata, True, missing_keys, unexpected_keys,
                                         error_msgs)
            for name, child in module._modules.items():
                if child is not None:
                    child_prefix = f"{prefix}{name}."
                    load(child, {k: v for k, v in local_state_dict.items() if k.startswith(child_prefix)}, child_prefix)
            incompatible = _IncompatibleKeys(missing_keys, unexpected_keys)
            for hook in module._load_state_dict_post_hooks.values():
                hook(module, incompatible)

        load(self, state_dict)
        if strict:
            for kind, keys in (("Unexpected", unexpected_keys), ("Missing", missing_keys)):
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    error_msgs.insert(0, f"{kind} key(s) in state_dict: {listed}. ")
        if error_msgs:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(error_msgs))
        return _IncompatibleKeys(missing_keys, unexpected_keys)

    # --- Printing

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        lines = extra_lines + child_lines
        if not lines:
            return f"{self._get_name()}()"
        if len(extra_lines) == 1 and not child_lines:
            return f"{self._get_name()}({extra_lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"
