"""Small changes to Python source, one at a time: what a mutant of a module is made of."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
}  # fmt: skip
NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOOPED: Final = {"range", "reversed", "sorted", "enumerate", "islice"}
CONDITIONS: Final = (ast.If, ast.While, ast.IfExp)
SKIPPED: Final = {"annotation", "returns", "decorator_list", "type_params", "bases"}


@dataclass(frozen=True, slots=True)
class Change:
    """One change to a tree, not yet made. `put` makes it, in place.

    `scope` is the function that can be replaced to bring the change about, None outside of any.
    """

    what: str
    scope: str | None
    statement: ast.stmt
    body: list[ast.stmt]  # the list that the statement is in
    put: Callable[[], None]

    @property
    def line(self) -> int:
        return self.statement.lineno

    @property
    def head(self) -> str:
        """The statement as it is now, without what is indented under it."""
        if self.statement not in self.body:
            return "pass"
        shown: Any = copy.copy(self.statement)
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            if getattr(shown, name, None):
                setattr(shown, name, [])
        if isinstance(shown, ast.If | ast.While | ast.For | ast.With | ast.FunctionDef):
            shown.body = [ast.Expr(ast.Constant(...))]
        return ast.unparse(shown).removesuffix("\n    ...")


def changes(tree: ast.Module) -> list[Change]:
    """All changes of a module, in the order of the source."""
    return list(_in_body(tree.body, "", None))


def _in_body(body: list[ast.stmt], prefix: str, scope: str | None) -> Iterator[Change]:
    for statement in body:
        match statement:
            case ast.ClassDef():
                yield from _in_body(statement.body, f"{prefix}{statement.name}.", scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _in_body(statement.body, prefix, scope or f"{prefix}{statement.name}")
            case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Assert() | ast.Pass():
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case _:
                yield from _of_statement(statement, body, scope)
                for nested in _bodies(statement):
                    yield from _in_body(nested, prefix, scope)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _of_statement(statement: ast.stmt, body: list[ast.stmt], scope: str | None) -> Iterator[Change]:
    def made(what: str, put: Callable[[], None]) -> Change:
        return Change(what, scope, statement, body, put)

    if scope and not _is_docstring(statement) and _may_be_dropped(statement):
        yield made("statement dropped", _dropped(statement, body))
    if isinstance(statement, ast.AugAssign) and type(statement.op) in COMPUTED:
        yield made("operator", _set(statement, "op", COMPUTED[type(statement.op)]()))
    if isinstance(statement, ast.Continue | ast.Break):
        other = ast.Break() if isinstance(statement, ast.Continue) else ast.Continue()
        yield made("break or continue", _replaced(statement, body, other))
    if isinstance(statement, ast.For):
        yield made("nothing to loop over", _set(statement, "iter", ast.Tuple([], ast.Load())))
    for node, put in _expressions(statement):
        for what, change in _of_expression(node, put):
            yield made(what, change)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _may_be_dropped(statement: ast.stmt) -> bool:
    """A call or an assignment to what exists without it; a new name would only be missing."""
    match statement:
        case ast.Expr(value=ast.Call() | ast.Yield()) | ast.AugAssign() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            return True
        case _:
            return False


def _expressions(node: ast.AST) -> Iterator[tuple[ast.expr, Callable[[ast.expr], None]]]:
    """Expressions of a statement, without those of statements in it, and what replaces each."""
    for name, value in ast.iter_fields(node):
        if name in SKIPPED or isinstance(node, ast.JoinedStr):
            continue
        parts = value if isinstance(value, list) else [value]
        for index, part in enumerate(parts):
            if not isinstance(part, ast.AST) or isinstance(part, ast.stmt | ast.excepthandler):
                continue
            if isinstance(part, ast.match_case):
                part = part.guard  # noqa: PLW2901 - patterns are left as they are
                if part is None:
                    continue
            if isinstance(part, ast.expr):
                at = index if isinstance(value, list) else None
                yield part, _put_at(node, name, at)
            yield from _expressions(part)


def _put_at(node: ast.AST, name: str, index: int | None) -> Callable[[ast.expr], None]:
    def put(new: ast.expr) -> None:
        if index is None:
            setattr(node, name, new)
        else:
            getattr(node, name)[index] = new

    return put


def _of_expression(  # noqa: C901, PLR0912 - one case a kind of change
    node: ast.expr, put: Callable[[ast.expr], None]
) -> Iterator[tuple[str, Callable[[], None]]]:
    match node:
        case ast.Compare():
            for index, compared in enumerate(node.ops):
                yield "comparison", _set_item(node.ops, index, COMPARED[type(compared)]())
        case ast.BinOp() if type(node.op) in COMPUTED:
            yield "operator", _set(node, "op", COMPUTED[type(node.op)]())
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and or or", _set(node, "op", other)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "not or minus dropped", lambda: put(node.operand)
        case ast.Constant(value=bool()):
            yield "constant", _set(node, "value", not node.value)
        case ast.Constant(value=int()):
            yield "constant", _set(node, "value", 0 if node.value == 1 else int(node.value) + 1)
        case ast.IfExp():
            yield "condition", _set(node, "test", ast.UnaryOp(ast.Not(), node.test))
        case ast.Call():
            yield from _of_call(node)
        case ast.Slice():
            for name in ("lower", "upper"):
                if getattr(node, name) is not None:
                    yield "bound of a slice dropped", _set(node, name, None)
        case _:
            pass


def _of_call(node: ast.Call) -> Iterator[tuple[str, Callable[[], None]]]:
    if isinstance(node.func, ast.Name) and node.func.id in NAMES:
        yield "function", _set(node, "func", ast.Name(NAMES[node.func.id], ast.Load()))
    if isinstance(node.func, ast.Name) and node.func.id in LOOPED and node.args:
        yield "emptied", _set(node, "args", [ast.Constant(0)] if node.func.id == "range" else [
            ast.Tuple([], ast.Load()), *node.args[1:]
        ])  # fmt: skip
    for index, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            kept = node.keywords[:index] + node.keywords[index + 1 :]
            yield "keyword dropped", _set(node, "keywords", kept)


def _set(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, name, value)


def _set_item(items: list[Any], index: int, value: object) -> Callable[[], None]:
    return lambda: items.__setitem__(index, value)


def _dropped(statement: ast.stmt, body: list[ast.stmt]) -> Callable[[], None]:
    return _replaced(statement, body, ast.Pass())


def _replaced(statement: ast.stmt, body: list[ast.stmt], new: ast.stmt) -> Callable[[], None]:
    return lambda: body.__setitem__(body.index(statement), new)
