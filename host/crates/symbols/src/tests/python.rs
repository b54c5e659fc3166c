//! Python.

use super::*;

#[test]
fn python() {
    let outline = parsed(
        "shop/cart.py",
        r#"import os, json as j
from . import price
from ..tax.rates import rate as r, table
from typing import *

LIMIT = 3
lower = 4

class Cart(Base):
    SIZE = 1

    @property
    def total(self):
        import shop.late
        def inner(): pass
        return 1

    def _quiet(self): pass

if True:
    def helper(): pass

async def _hidden():
    pass
"#,
    );
    assert_eq!(
        symbols(&outline),
        [
            "6 constant +LIMIT",
            "9-18 type +Cart",
            "13-16 method +Cart.total",
            "18 method Cart._quiet",
            "21 function +helper",
            "23-24 function _hidden",
        ]
    );
    assert_eq!(
        imports(&outline),
        [
            "1 os",
            "1 json",
            "2 . (price)",
            "3 ..tax.rates (rate,table)",
            "4 typing (*)",
            "14 shop.late",
        ]
    );
    let listed = parsed(
        "a.py",
        "__all__ = ['one', \"Two\"]\ndef one(): pass\ndef other(): pass\nclass Two: pass\n",
    );
    assert_eq!(symbols(&listed), ["2 function +one", "3 function other", "4 type +Two"]);
    let tests = parsed(
        "tests/test_cart.py",
        "class TestCart:\n    def test_total(self): pass\n    def helper(self): pass\n",
    );
    assert_eq!(
        symbols(&tests),
        ["1-3 type +TestCart", "2 test TestCart.test_total", "3 method +TestCart.helper"]
    );
}

// SYMBOLS-4
#[test]
fn a_python_block_ends_with_its_last_statement() {
    let outline = parsed(
        "a.py",
        "class A:\n    x = 1\n    # about x\n\n# of the file\ndef f():\n    if x:\n        y()\n        # why\n    # so\n",
    );
    assert_eq!(symbols(&outline)[0], "1-2 type +A");
    assert_eq!(symbols(&outline).last().unwrap(), "6-8 function +f");
}
