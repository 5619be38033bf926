# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Replacements for Python's built-in functions, `math` and jax.numpy while a function is traced.

PyTorch and NumPy call methods of a traced value. But `min(q, k)` would ask it for a truth value,
`math.exp(x)` for a float, and jax.numpy accepts only its own arrays. So a traced function sees
replacements, which check whether an argument is a traced value.
"""

from __future__ import annotations

import builtins
import enum
import functools
import types
from collections.abc import Callable
from typing import Any, Final

from . import state
from .error import TraceError, is_library
from .graph import F32
from .value import TABLE, Traced, Value, call, find

_JAX: Final = frozenset(("jax", "jaxlib"))


def is_traced(value: Any) -> bool:
    """Whether an argument is a traced value, or contains one."""
    if isinstance(value, (tuple, list)):
        return any(is_traced(each) for each in value)
    return isinstance(value, Traced)


def _instead(function: Any, name: str, framework: str) -> Callable[..., Any]:
    """Calls `function`, or for traced arguments the function `name` of the table."""
    if framework == "math.":
        own = f"math.{name}" if find(f"math.{name}") is not None else name
    else:
        own = f"lax.{name}" if ".lax" in str(getattr(function, "__module__", "")) else name

    @functools.wraps(function, updated=())
    def chosen(*args: Any, **kwargs: Any) -> Any:
        if any(map(is_traced, args)) or any(map(is_traced, kwargs.values())):
            if framework.startswith("jax") and name == "gelu":
                kwargs.setdefault("approximate", True)
            if framework == "math." and find(own) is None:
                return _of_known(function, args, kwargs)
            result = call(own if find(own) is not None else name, args, kwargs, framework)
            if framework == "math." and name in ("floor", "ceil", "trunc"):
                return TABLE["int"](result)
            return result
        return function(*args, **kwargs)

    return chosen


def _of_known(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of `math` that the language has not, of captured numbers' present values."""
    try:
        return function(*map(_as_known, args), **kwargs)
    except TraceError:
        call(function.__name__, args, kwargs, "math.")  # raises the error
        raise


def _as_known(value: Any) -> Any:
    """Captured numbers as their present values. The trace is valid while these stay the same."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_as_known, value))
    return value.item() if isinstance(value, Value) else value


class _Module:
    """A module whose functions are replaced when they are read."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, types.ModuleType):
            return module_for(value)
        replaced = callable_for(value)
        self.__dict__[name] = replaced
        return replaced


_modules: dict[str, _Module] = {}


def module_for(module: types.ModuleType) -> Any:
    """A module as a traced function sees it; None for a user's module."""
    name = module.__name__
    if name == "math" or name.partition(".")[0] in _JAX:
        if name not in _modules:
            _modules[name] = _Module(module)
        return _modules[name]
    return module if is_library(name) or name.startswith("tesela") else None


def callable_for(value: Any) -> Any:
    """A framework's function or class as a traced function sees it."""
    if isinstance(value, type) or not callable(value):
        return value
    module = getattr(value, "__module__", None) or type(value).__module__
    root = str(module).partition(".")[0]
    if root == "math" or root in _JAX or type(value).__module__.partition(".")[0] in _JAX:
        return _instead(value, getattr(value, "__name__", "function"), f"{root}.")
    if value in _BUILTINS_INSTEAD:
        return _BUILTINS_INSTEAD[value]
    return value


def is_frameworks(value: Any) -> bool:
    """Whether an object belongs to a framework, such as a dtype or a device."""
    kind = type(value)
    root = kind.__module__.partition(".")[0]
    if root in ("torch", "numpy", "jax", "jaxlib"):
        return True
    return is_library(kind.__module__) and callable(value)


def is_module_of_torch(value: Any) -> bool:
    """Whether an object is a torch.nn.Module."""
    torch = state.framework("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def autograd_function(owner: Any) -> Any:
    """`owner`, if it is a subclass of torch.autograd.Function whose forward takes no context."""
    torch = state.framework("torch")
    if torch is None or not isinstance(owner, type):
        return None
    base = torch.autograd.Function
    if not issubclass(owner, base):
        return None
    return owner if owner.setup_context is not base.setup_context else None  # type: ignore[attr-defined]


def has_live_attributes(kind: type) -> bool:
    """Whether a class is the user's, so that its attributes may change between two calls."""
    bases: tuple[type, ...] = (BaseException, enum.Enum)
    torch = state.framework("torch")
    if torch is not None:
        bases += (torch.autograd.Function,)
    module = kind.__module__
    return not (is_library(module) or module.startswith("tesela") or issubclass(kind, bases))


def python_number(value: Any) -> bool | int | float | None:
    """The value of a NumPy scalar, or of a subclass of int or float; None for anything else."""
    if isinstance(value, (bool, int, float)):
        return float(value) if isinstance(value, float) else int(value)
    numpy = state.framework("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        number = value.item()
        if isinstance(number, (bool, int, float)):
            return number
    return None


# Python's built-in functions


def _extreme(name: str) -> Callable[..., Any]:
    function = getattr(builtins, name)

    @functools.wraps(function)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        values = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        if kwargs or not is_traced(list(values) if isinstance(values, tuple) else values):
            return function(*args, **kwargs)
        result = values[0]
        for value in values[1:]:
            both = isinstance(result, Traced) or isinstance(value, Traced)
            result = TABLE[f"{name}imum"](result, value) if both else function(result, value)
        return result

    return chosen


def _conversion(kind: type) -> Callable[..., Any]:
    """int, float or bool; for a traced value the result is a traced value."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Traced):
            return TABLE[kind.__name__](args[0])
        return kind(*args, **kwargs)

    chosen.__name__ = kind.__name__
    _CLASSES[chosen] = kind
    return chosen


_CLASSES: Final[dict[Any, type]] = {}


def _is_instance(value: Any, classes: Any) -> bool:
    """isinstance, for which captured numbers and captured objects are what they stand for."""
    if isinstance(classes, tuple):
        return any(_is_instance(value, each) for each in classes)
    kind: Any = classes
    if isinstance(classes, types.FunctionType):
        kind = _CLASSES[classes]
    kind = _original(kind)
    if isinstance(value, Traced):
        if isinstance(value, Value) and value.node.op == "scalar":
            return issubclass(float if value.node.type == F32 else int, kind)
        return isinstance(value, kind) or kind.__name__ in ("Tensor", "ndarray", "Array")
    return isinstance(_original(value), kind)


def _original(value: Any) -> Any:
    """What a captured object or class stands for."""
    return getattr(type(value), "original", lambda x: x)(value)


def _is_subclass(value: Any, classes: Any) -> bool:
    if isinstance(classes, tuple):
        return any(_is_subclass(value, each) for each in classes)
    return issubclass(_original(value), _CLASSES.get(classes, _original(classes)))


_BUILTINS_INSTEAD: Final[dict[Any, Any]] = {
    builtins.min: _extreme("min"),
    builtins.max: _extreme("max"),
    builtins.isinstance: _is_instance,
}

BUILTINS: Final[dict[str, Any]] = {
    **vars(builtins),
    "min": _BUILTINS_INSTEAD[builtins.min],
    "max": _BUILTINS_INSTEAD[builtins.max],
    "isinstance": _is_instance,
    "issubclass": _is_subclass,
    "int": _conversion(int),
    "float": _conversion(float),
    "bool": _conversion(bool),
}
