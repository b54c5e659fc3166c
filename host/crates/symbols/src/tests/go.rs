//! Go.

use super::*;

#[test]
fn go() {
    let outline = parsed(
        "cart/cart.go",
        r#"package cart

import "fmt"
import (
	p "example.com/shop/price"
	_ "embed"
)

const Limit, low = 3, 4
var registry = map[string]int{}

type (
	Cart struct{ items []int }
	hidden interface{ Do() }
)

func New() *Cart { return func() *Cart { return nil }() }

func (c *Cart) Total() int {
	const inner = 1
	return p.Of(fmt.Sprint(inner))
}
"#,
    );
    assert_eq!(
        symbols(&outline),
        [
            "9 constant +Limit",
            "9 constant low",
            "10 constant registry",
            "13 type +Cart",
            "14 type hidden",
            "17 function +New",
            "19-22 method +Cart.Total",
        ]
    );
    assert_eq!(
        imports(&outline),
        ["1 . (int,string)", "3 fmt", "5 example.com/shop/price", "6 embed"]
    );
    let tests = parsed(
        "cart/cart_test.go",
        "package cart\nfunc TestTotal(t *testing.T) {}\nfunc helper() {}\n",
    );
    assert_eq!(symbols(&tests), ["2 test TestTotal", "3 function helper"]);
}

// SYMBOLS-6
#[test]
fn go_of_one_package_needs_no_import() {
    let outline = parsed(
        "cart/cart.go",
        r#"package cart

import "example.com/shop/price"

type Cart struct {
	lines []Line
	Owner *people.Owner
}

func Total[T Number](c *Cart, from T) (sum int, err error) {
	for i, line := range c.lines {
		if tax, ok := rates[i]; ok {
			sum += round(price.Of(line), tax)
		}
	}
	switch kind := any(from).(type) {
	case Special:
		return kind.Sum, errEmpty
	}
	point := Point{Left: limit, "x": 1}
	return point.Left, nil
}
"#,
    );
    assert_eq!(
        imports(&outline),
        [
            "1 . (Line,Number,Point,Special,any,errEmpty,error,int,limit,rates,round)",
            "3 example.com/shop/price",
        ]
    );
}
