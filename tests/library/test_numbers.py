"""`decimal` and `fractions`, in one graph."""

from __future__ import annotations

import copy
import math
import sys
from decimal import (
    ROUND_DOWN,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    ROUND_UP,
    Context,
    Decimal,
    Inexact,
    getcontext,
    localcontext,
)

from tests.library.outcomes import outcomes
from tests.values.programs import Programs, x

programs = Programs()


@programs(args=(x(), Decimal("1.10"), 2), fullgraph=True)
def decimals(x, d, n):
    return (
        x * float(d),
        d + n,
        d * 2,
        n / d,
        d // 1,
        d % 1,
        d**2,
        -d,
        abs(-d),
        d.quantize(Decimal("0.1")),
        d.normalize(),
        d == 1.1,
        d < 2,
        int(d),
        round(d, 1),
        round(d),
        str(d),
        repr(d),
        f"{d:.3f}",
        d.as_tuple(),
        d.sqrt(),
        d.ln().quantize(Decimal("0.001")),
        d.to_integral_value(),
        hash(d) == hash(Decimal("1.1")),
        bool(d),
        d.is_nan(),
        max(d, Decimal(3)),
        sum([d, d]),
        d.compare(Decimal(2)),
        d.copy_sign(Decimal(-1)),
        d.adjusted(),
        math.floor(d),
        math.ceil(d),
        divmod(d, 1),
        d.fma(2, 3),
        d.scaleb(2),
        d.as_integer_ratio(),
        d.exp().quantize(Decimal("1.00")),
        d.log10().quantize(Decimal("1.00")),
        d.number_class(),
        d.same_quantum(Decimal("2.22")),
        d.to_eng_string(),
        d.is_signed(),
        copy.deepcopy(d),
        complex(d),
        d.conjugate(),
        d.real,
        d.imag,
        d.shift(1),
        d.rotate(1),
        d.next_plus() > d,
        d.logb(),
        d.radix(),
        d.canonical(),
        d.is_finite(),
        d.max(2),
        d.min(2),
        d.remainder_near(1),
        d.compare_total(d),
    )


@programs(fullgraph=True)
def errors_and_contexts(x):
    out = outcomes(
        lambda: Decimal("a"),
        lambda: Decimal(1) / 0,
        lambda: Decimal("nan") < 1,
        lambda: Decimal(1) + 1.5,
        lambda: Decimal([]),
        lambda: Decimal(-1).sqrt(),
        lambda: int(Decimal("inf")),
        lambda: Decimal(0) / 0,
        lambda: Decimal("1").quantize(Decimal("1e-50")),
        lambda: Decimal(1, 2, 3),
        lambda: Decimal((0, (1, 2), -1)),
        lambda: Decimal.from_float(0.5),
        lambda: Decimal(True),
        lambda: Decimal("1_0"),
        lambda: Decimal(" 1 "),
        lambda: round(Decimal("nan")),
        lambda: hash(Decimal("sNaN")),
    )
    with localcontext() as c:
        c.prec = 5
        a = Decimal(1) / 3
        c.rounding = ROUND_UP
        b = Decimal(2) / 3
    with localcontext(prec=3) if sys.version_info >= (3, 11) else localcontext():
        d = Decimal(1) / 7
    ctx = Context(prec=4, rounding=ROUND_DOWN)
    e = ctx.divide(1, 3)
    f = ctx.create_decimal("1.234567")
    return (
        x + float(a),
        out,
        a,
        b,
        d,
        e,
        f,
        getcontext().prec,
        Decimal("1.5").quantize(Decimal(1), rounding=ROUND_HALF_EVEN),
        Decimal("2.675").quantize(Decimal("0.01"), ROUND_HALF_UP),
        getcontext().flags[Inexact] in (True, False),
    )


test_programs = programs.test()
