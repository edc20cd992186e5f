"""Conditions, expressions and prices read from texts: what `str` writes, and what people write by hand.

new age > old age            0 < new amount < 100000          old job is A171        old job is not A172
2 * (new education - old education) + 1                       new `Education num` < 16.5
5        |age|        |hours| / 10        (amount / old amount)^2        5 + 2 * |age|
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NoReturn

from turnabout.actions.expressions import Condition, Expression, Sense, as_expression
from turnabout.actions.numbers import checked
from turnabout.actions.prices import Absolute, ConstantPrice, Price, PriceTerm, Squared
from turnabout.errors import ActionError
from turnabout.typing import Level

TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
        | (?P<quoted>`(?:[^`]|``)*`)
        | (?P<string>"(?:[^"\\]|\\.)*"|'[^']*')
        | (?P<word>[^\W\d][\w.]*)
        | (?P<sign><=|>=|!=|==|[-+*/()<>=|^])
        | (?P<odd>\S))""",
    re.VERBOSE,
)
COMPARISONS: dict[str, Sense] = {
    **{"<": "<", "<=": "<=", ">": ">", ">=": ">="},
    **{"=": "is", "==": "is", "is": "is", "!=": "is not"},
}


@dataclass(frozen=True)
class Token:
    """A piece of text: its kind, what it says, and where it starts and ends."""

    kind: str
    text: str
    start: int
    end: int


class Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str, what: str):
        self.text, self.what, self.place = text, what, 0
        self.tokens: list[Token] = []
        for match in TOKEN.finditer(text):
            kind = match.lastgroup or "odd"
            self.tokens.append(Token(kind, match[kind], match.start(kind), match.end(kind)))

    def fail(self, why: str) -> NoReturn:
        examples = {
            "cost": "'5', '|age|', '|hours| / 10', '(amount / old amount)^2' or sums of these",
            "expression": "'2 * new age - old age + 1'",
            "condition": "'new age > old age', '0 < new amount < 1000' or 'old job is none'",
        }
        raise ActionError(f"the {self.what} {self.text!r} cannot be read: {why}.", hint=f"write {examples[self.what]}.")

    def peek(self) -> str:
        """The next token's text; empty at the end."""
        return self.tokens[self.place].text if self.place < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.place].kind if self.place < len(self.tokens) else "end"

    def take(self, *wanted: str) -> str:
        """The next token's text, which must be one of those wanted, if any are."""
        if self.kind() == "end":
            self.fail(f"it ends where {' or '.join(map(repr, wanted)) or 'more'} should come")
        if wanted and self.peek() not in wanted:
            self.fail(f"{self.peek()!r} stands where {' or '.join(map(repr, wanted))} should")
        self.place += 1
        return self.tokens[self.place - 1].text

    def end(self) -> None:
        if self.kind() != "end":
            self.fail(f"{self.peek()!r} is left over")

    def number(self) -> float:
        if self.kind() != "number":
            self.fail(f"{self.peek()!r} stands where a number should" if self.peek() else "a number is missing")
        return checked(float(self.take()), f"a number in the {self.what} {self.text!r}")

    def name(self) -> str:
        if self.kind() == "quoted":
            return self.take()[1:-1].replace("``", "`")
        if self.kind() != "word":
            self.fail(f"{self.peek()!r} stands where a feature should" if self.peek() else "a feature is missing")
        return self.take()

    # -- expressions ------------------------------------------------------------------------------------------

    def expression(self) -> Expression:
        out = self.term()
        while self.peek() in ("+", "-"):
            out = out + self.term() if self.take() == "+" else out - self.term()
        return out

    def term(self) -> Expression:
        out = self.factor()
        while self.peek() in ("*", "/", "(", "old", "new"):
            sign = self.take() if self.peek() in ("*", "/") else "*"
            other = self.factor()
            if sign == "/":
                if not other.is_constant or other.constant == 0:
                    self.fail(f"'{out}' is divided by '{other}'")
                out = out / other.constant
            elif other.is_constant:
                out = out * other.constant
            elif out.is_constant:
                out = other * out.constant
            else:
                self.fail(f"'{out}' times '{other}' is not linear")
        return out

    def factor(self) -> Expression:
        if self.peek() in ("-", "+"):
            return -self.factor() if self.take() == "-" else self.factor()
        if self.peek() == "(":
            self.take()
            inside = self.expression()
            self.take(")")
            return inside
        if self.peek() in ("old", "new"):
            return Expression(((self.take(), self.name(), 1.0),))  # type: ignore[arg-type]
        if self.kind() in ("word", "quoted"):
            self.fail(f"{self.peek()!r} stands alone; say whether its old or its new value is meant")
        return as_expression(self.number())

    # -- conditions -------------------------------------------------------------------------------------------

    def conditions(self) -> tuple[Condition, ...]:
        left, out = self.expression(), []
        while self.kind() != "end":
            sense = COMPARISONS.get(self.take()) or self.fail(f"{self.tokens[self.place - 1].text!r} compares nothing")
            if sense == "is" and self.peek() == "not":
                self.take()
                sense = "is not"
            right = self.right(sense)
            out.append(Condition(left, sense, right))
            if not isinstance(right, Expression):
                self.end()
                break
            left = right
        if not out:
            self.fail("it compares nothing")
        return tuple(out)

    def right(self, sense: Sense) -> Expression | Level:
        """What stands right of a comparison: an expression, or a level that ends the text."""
        last = self.place == len(self.tokens) - 1
        if self.kind() == "string" and last:
            text = self.take()
            return str(json.loads(text)) if text[0] == '"' else text[1:-1]
        if self.kind() == "number" and last and sense in ("is", "is not"):
            text = self.tokens[self.place].text
            return int(self.take()) if text.isdigit() else self.number()
        if self.kind() == "word" and self.peek() not in ("old", "new"):
            if self.peek() in ("true", "false") and last:
                return self.take() == "true"
            rest = self.text[self.tokens[self.place].start :].strip()
            if any(token.text in ("<", ">", "<=", ">=", "=", "==", "!=") for token in self.tokens[self.place :]):
                self.fail(f"the level {rest!r} holds a comparison; put it in double quotes")
            self.place = len(self.tokens)
            return rest
        return self.signed_level(sense) if self.peek() == "-" else self.expression()

    def signed_level(self, sense: Sense) -> Expression | Level:
        """A negative number after "is" is a level or a value, as a positive one is."""
        expression = self.expression()
        if sense in ("is", "is not") and expression.is_constant:
            value = expression.constant
            return int(value) if value.is_integer() else value
        return expression

    # -- prices -----------------------------------------------------------------------------------------------

    def price(self) -> Price:
        terms = [self.priced()]
        while self.peek() == "+":
            self.take()
            terms.append(self.priced())
        self.end()
        return Price(tuple(terms))

    def priced(self) -> PriceTerm:
        weight = 1.0
        if self.kind() == "number" or self.peek() == "-":
            sign = -1.0 if self.peek() == "-" and self.take() else 1.0
            weight = sign * self.number()
            if self.peek() != "*":
                return ConstantPrice(weight)
            self.take()
        if self.take("|", "(") == "|":
            feature, relative = self.changed()
            self.take("|")
            return Absolute(feature, self.divisor(), relative, weight)
        feature, relative = self.changed()
        per = self.divisor()
        self.take(")")
        self.take("^")
        self.take("2")
        return Squared(feature, per, relative, weight)

    def changed(self) -> tuple[str, bool]:
        """A feature, and whether its change is taken relative to its old value."""
        feature = self.name()
        following = self.tokens[self.place + 1].text if self.place + 1 < len(self.tokens) else ""
        if self.peek() != "/" or following != "old":
            return feature, False
        self.take("/")
        self.take("old")
        if (base := self.name()) != feature:
            self.fail(f"the change of '{feature}' is divided by the old value of '{base}'")
        return feature, True

    def divisor(self) -> float:
        if self.peek() != "/":
            return 1.0
        self.take("/")
        return self.number()


def read_expression(text: str) -> Expression:
    """An expression from its text."""
    reader = Reader(text, "expression")
    out = reader.expression()
    reader.end()
    return out


def read_conditions(text: str) -> tuple[Condition, ...]:
    """Conditions from a text; a chain such as "0 < new amount < 1000" gives two."""
    return Reader(text, "condition").conditions()


def read_price(text: str) -> Price:
    """A price from its text."""
    return Reader(text, "cost").price()
