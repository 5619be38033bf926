# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes copies of a user's functions in which captured numbers and tensors are traced values.

A copy has the function's code, with cells, globals and defaults that hold traced values in place of
numbers and tensors. The functions that it calls are copied too. The user's own objects do not
change. Anything else that decides how the function runs, such as a string, a bool or the code of a
function that it calls, is stored as a condition of the trace.
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Iterator
from typing import Any, Final, NoReturn, Protocol

from . import frameworks
from .error import error, is_library
from .paths import Cell, Global, Path, attribute, item
from .tensors import is_tensor
from .value import Traced

#: Types of values that decide how a function runs and are compared by value.
_PLAIN: Final = frozenset((bool, str, bytes, type(None), type(...), set, frozenset, range, complex))


class Registry(Protocol):
    """The part of the tracer that the rewriter calls."""

    def captured_number(self, path: Path, value: int | float, hint: str) -> Any:
        """A number as a traced value."""

    def captured_tensor(self, path: Path, value: Any, hint: str) -> Any:
        """A tensor as a traced array."""

    def require(self, path: Path, value: Any) -> None:
        """Requires `path` to lead to an object equal to `value`, or else the trace is not valid."""


class Rewriter:
    """Copies the functions of one trace."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._functions: dict[int, Any] = {}
        self._cells: dict[int, types.CellType] = {}
        self._recorders: dict[int, Recorder] = {}
        self._globals: dict[tuple[int, str], Any] = {}

    def wrapped(self, value: Any, path: Path, hint: str) -> Any:
        """`value` as a traced function sees it. `hint` is the user's name for it."""
        kind = type(value)
        if kind is int or kind is float:
            return self._registry.captured_number(path, value, hint)
        if kind is types.FunctionType:
            return self.function(value, path)
        if kind in _PLAIN or isinstance(value, enum.Enum):
            self._registry.require(path, value)
            return value
        if kind is types.ModuleType:
            left = frameworks.module_for(value)
            return self._recorder(value, path) if left is None else left
        if isinstance(value, type) and frameworks.has_live_attributes(value):
            return self._recorder(value, path)
        if kind is types.BuiltinFunctionType or isinstance(value, type):
            return self._built_in(value, path)
        if is_tensor(value):
            return self._registry.captured_tensor(path, value, hint)
        if kind is tuple or kind is list or hasattr(kind, "_fields"):
            return self._sequence(value, path, hint)
        if isinstance(value, dict):
            return self._dictionary(value, path)
        return self._object(value, path, hint)

    def _built_in(self, value: Any, path: Path) -> Any:
        owner = getattr(value, "__self__", None)
        autograd = frameworks.autograd_function(owner)
        if autograd is not None and value.__name__ == "apply":
            where = (*path, attribute("__self__"), attribute("forward"))
            return self.function(autograd.forward, where)
        return self._left(value, path)

    def _left(self, value: Any, path: Path) -> Any:
        """A function or object of a framework, which is called as it is."""
        self._registry.require(path, value)
        return frameworks.callable_for(value)

    def _object(self, value: Any, path: Path, hint: str) -> Any:
        if isinstance(value, Traced):
            raise error(
                "the function captures a traced value of another function; pass it as an argument"
            )
        number = frameworks.python_number(value)
        if isinstance(number, bool):
            self._registry.require(path, value)
            return number
        if number is not None:
            return self._registry.captured_number(path, number, hint)
        if isinstance(value, functools.partial):
            names = getattr(getattr(value.func, "__code__", None), "co_varnames", ())
            names = (*names[: len(value.args)], *(["argument"] * len(value.args)))
            return functools.partial(
                self.wrapped(value.func, (*path, attribute("func")), hint),
                *(
                    self.wrapped(each, (*path, attribute("args"), item(i)), names[i])
                    for i, each in enumerate(value.args)
                ),
                **self.wrapped(value.keywords, (*path, attribute("keywords")), hint),
            )
        if isinstance(value, types.MethodType):
            return self._method(value, path, hint)
        original = _original(value)
        if original is not None:
            return self.function(getattr(value, original), (*path, attribute(original)))
        if frameworks.is_frameworks(value):
            return self._left(value, path)
        return self._recorder(value, path)

    def _method(self, method: types.MethodType, path: Path, hint: str) -> Any:
        function, owner = method.__func__, method.__self__
        autograd = frameworks.autograd_function(owner)
        if autograd is not None and method.__name__ == "apply":
            where = (*path, attribute("__self__"), attribute("forward"))
            return self.function(autograd.forward, where)
        if not isinstance(function, types.FunctionType) or _is_left(function):
            return self._left(method, path)
        new = self.function(function, (*path, attribute("__func__")))
        if isinstance(owner, type):
            return types.MethodType(new, owner)
        return types.MethodType(new, self.wrapped(owner, (*path, attribute("__self__")), hint))

    def _sequence(self, values: Any, path: Path, hint: str) -> Any:
        self._registry.require((*path, len), len(values))
        each = [self.wrapped(x, (*path, item(i)), f"{hint}_{i}") for i, x in enumerate(values)]
        kind: Any = type(values)
        return kind(*each) if hasattr(kind, "_fields") else kind(each)

    def _dictionary(self, values: Any, path: Path) -> dict[Any, Any]:
        self._registry.require((*path, len), len(values))
        return {
            key: self.wrapped(each, (*path, item(key)), str(key)) for key, each in values.items()
        }

    def _recorder(self, value: Any, path: Path) -> Recorder:
        known = self._recorders.get(id(value))
        if known is None:
            self._registry.require((*path, type), type(value))
            known = self._recorders[id(value)] = Recorder(self, value, path)
        return known

    def function(self, function: Any, path: Path) -> Any:
        """The copy of a user's function."""
        known = self._functions.get(id(function))
        if known is not None:
            return known
        if not isinstance(function, types.FunctionType):
            return self.wrapped(function, path, "function")
        if _is_left(function):
            original = _original(function)
            if original is None:
                known = self._left(function, path)
            else:
                inner = getattr(function, original)
                known = self.function(inner, (*path, attribute(original)))
            self._functions[id(function)] = known
            return known
        code = function.__code__
        self._registry.require((*path, attribute("__code__")), code)
        namespace = _Globals(self, function, path)
        old = function.__closure__ or ()
        fresh = [id(cell) not in self._cells for cell in old]
        for cell in old:
            self._cells.setdefault(id(cell), types.CellType())
        closure = tuple(self._cells[id(cell)] for cell in old)
        new = types.FunctionType(code, namespace, function.__name__, None, closure)
        self._functions[id(function)] = new  # before the cells: functions may call each other
        for i, cell in enumerate(old):
            if fresh[i]:
                try:
                    value = cell.cell_contents
                except ValueError:  # the cell has no value yet
                    continue
                name = code.co_freevars[i]
                closure[i].cell_contents = self.wrapped(value, (*path, Cell(i)), name)
        self._defaults(function, new, path)
        for name, value in vars(function).items():
            if not name.startswith("_"):
                setattr(new, name, self.wrapped(value, (*path, attribute(name)), name))
        return new

    def global_name(self, function: types.FunctionType, path: Path, name: str) -> Any:
        """The value of a name of the function's module."""
        key = (id(function.__globals__), name)
        if key not in self._globals:
            value = function.__globals__[name]
            self._globals[key] = self.wrapped(value, (*path, Global(name)), name)
        return self._globals[key]

    def _defaults(self, function: types.FunctionType, new: types.FunctionType, path: Path) -> None:
        if function.__defaults__:
            last = function.__code__.co_argcount
            names = function.__code__.co_varnames[last - len(function.__defaults__) : last]
            new.__defaults__ = tuple(
                self.wrapped(value, (*path, attribute("__defaults__"), item(i)), names[i])
                for i, value in enumerate(function.__defaults__)
            )
        if function.__kwdefaults__:
            new.__kwdefaults__ = {
                name: self.wrapped(value, (*path, attribute("__kwdefaults__"), item(name)), name)
                for name, value in function.__kwdefaults__.items()
            }


class Recorder:
    """A user's object, class or module. Its attributes are wrapped when they are read."""

    __slots__ = ("_known", "_path", "_rewriter", "_value")

    def __init__(self, rewriter: Rewriter, value: Any, path: Path) -> None:
        object.__setattr__(self, "_rewriter", rewriter)
        object.__setattr__(self, "_value", value)
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_known", {})

    def __getattr__(self, name: str) -> Any:
        known: dict[str, Any] = self._known
        if name not in known:
            known[name] = self._wrapped(name)
        return known[name]

    def _wrapped(self, name: str) -> Any:
        value = getattr(self._value, name)
        where = (*self._path, attribute(name))
        if isinstance(value, types.MethodType) and value.__self__ is self._value:
            function = value.__func__
            if not isinstance(function, types.FunctionType) or _is_left(function):
                return value
            new = self._rewriter.function(function, (*where, attribute("__func__")))
            return types.MethodType(new, self)
        return self._rewriter.wrapped(value, where, name)

    def original(self) -> Any:
        """The object itself, for isinstance."""
        return self._value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self._value, type):
            self._rewriter._registry.require(self._path, self._value)
            return self._value(*args, **kwargs)
        name = "forward" if frameworks.is_module_of_torch(self._value) else "__call__"
        return self.__getattr__(name)(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        value = self._value[key]
        return self._rewriter.wrapped(value, (*self._path, item(key)), f"item_{key}")

    def __len__(self) -> int:
        length = len(self._value)
        self._rewriter._registry.require((*self._path, len), length)
        return length

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise error(f"a traced function cannot set the attribute '{name}'")


def _original(wrapper: Any) -> str | None:
    """The name of the attribute in which a framework's wrapper holds the user's function.

    functools.cache, torch.compile, torch.no_grad and jax.jit make such wrappers.
    """
    for name in ("__wrapped__", "_torchdynamo_orig_callable"):
        inner = getattr(wrapper, "__dict__", {}).get(name)
        if isinstance(inner, types.FunctionType) and not _is_left(inner):
            return name
    return None


def _is_left(function: types.FunctionType) -> bool:
    """Whether a function is called as it is, not copied.

    This holds for a framework's function, unless it calls user's functions, as PyTorch's and_masks
    does.
    """
    module = function.__module__ or ""
    return is_library(module) and not module.startswith("torch.nn.attention.flex_attention")


class _Globals(dict[str, Any]):
    """The globals of a copied function: a value is wrapped when its name is looked up."""

    def __init__(self, rewriter: Rewriter, function: types.FunctionType, path: Path) -> None:
        name = function.__globals__.get("__name__", "__main__")
        super().__init__(__builtins__=frameworks.BUILTINS, __name__=name)
        self._rewriter = rewriter
        self._function = function
        self._path = path

    def __missing__(self, name: str) -> Any:
        if name not in self._function.__globals__:
            raise KeyError(name)  # then Python looks among its built-in functions
        value = self[name] = self._rewriter.global_name(self._function, self._path, name)
        return value
