//! Sources with what a person sees in them. A line of the expectation is `LINES KIND CONTAINER.NAME`, with `+` for
//! what other files can name.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn parsed(path: &str, source: &str) -> Outline {
    let language = Language::of(path, source.as_bytes()).unwrap();
    let parsed = outline(language, path, source.as_bytes(), &|| false).unwrap();
    assert!(parsed.lasting);
    parsed.outline
}

fn symbols(outline: &Outline) -> Vec<String> {
    let shown = |symbol: &Symbol| {
        let Symbol { name, kind, container, first_line, last_line, exported } = symbol;
        let container = container.as_ref().map_or(String::new(), |name| format!("{name}."));
        let lines = match first_line == last_line {
            true => first_line.to_string(),
            false => format!("{first_line}-{last_line}"),
        };
        let exported = if *exported { "+" } else { "" };
        format!("{lines} {} {exported}{container}{name}", kind.word())
    };
    outline.symbols.iter().map(shown).collect()
}

fn imports(outline: &Outline) -> Vec<String> {
    let shown = |import: &Import| {
        let names = import.names.join(",");
        let names = if names.is_empty() { names } else { format!(" ({names})") };
        format!("{} {}{names}", import.line, import.target)
    };
    outline.imports.iter().map(shown).collect()
}

#[test]
fn rust() {
    let outline = parsed(
        "src/a.rs",
        &r#"//! A file.
mod inner;
#[path = "odd/place.rs"]
mod odd;
use std::{fs, io::{self, Read as _}};
use CRATE::price::*;

pub const LIMIT: usize = 3;
static HIDDEN: u8 = 1;

#[derive(Debug)]
pub struct Cart<T> {
    items: Vec<T>,
}

impl<T> Cart<T> {
    pub(crate) fn total(&self) -> u64 {
        fn inside() {}
        CRATE::tax::rate() + super::shipping::cost()
    }
    fn quiet(&self) {}
}

impl std::fmt::Display for Cart<u8> {
    fn fmt(&self) {}
}

pub trait Priced {
    fn price(&self) -> u64;
}

macro_rules! cart { () => {} }

pub mod nested {
    pub(self) fn mine() {}
    pub fn theirs() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn adds_up() {}
}
"#
        .replace("CRATE", "crate"),
    );
    assert_eq!(
        symbols(&outline),
        [
            "8 constant +LIMIT",
            "9 constant HIDDEN",
            "12-14 type +Cart",
            "17-20 method +Cart.total",
            "21 method Cart.quiet",
            "25 method +Cart.fmt",
            "28-30 type +Priced",
            "29 method +Priced.price",
            "32 macro cart",
            "34-37 module +nested",
            "35 function nested.mine",
            "36 function +nested.theirs",
            "40-45 module tests",
            "44 test tests.adds_up",
        ]
    );
    assert_eq!(
        imports(&outline),
        [
            "2 self::inner",
            "4 odd/place.rs",
            "5 std::fs",
            "5 std::io",
            "5 std::io::Read",
            concat!("6 crate", "::price::*"),
            concat!("19 crate", "::tax::rate"),
            "19 super::shipping::cost",
            "41 self::*",
        ]
    );
    assert!(outline.complete);
    assert_eq!((outline.lines, outline.language), (45, Language::Rust));
}

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

#[test]
fn javascript_modules() {
    let outline = parsed(
        "src/cart.mjs",
        r#"import price, { tax } from './price.js';
import './side.js';
export * from "./all.js";
export { one as uno, two } from './named.js';

const LIMIT = 3;
export const total = (items) => {
  const inner = () => 1;
  return import('./late.js');
};
function quiet() {}
export default class Cart {
  #secret() {}
  add(item) {}
  remove = () => {};
}
class Later {}
export { Later };
"#,
    );
    assert_eq!(
        symbols(&outline),
        [
            "6 constant LIMIT",
            "7-10 function +total",
            "11 function quiet",
            "12-16 type +Cart",
            "13 method Cart.#secret",
            "14 method +Cart.add",
            "15 method +Cart.remove",
            "17 type +Later",
        ]
    );
    assert_eq!(
        imports(&outline),
        [
            "1 ./price.js (tax)",
            "2 ./side.js",
            "3 ./all.js",
            "4 ./named.js (one,two)",
            "9 ./late.js"
        ]
    );
}

#[test]
fn javascript_of_node_and_its_tests() {
    let outline = parsed(
        "lib/index.js",
        "const fs = require('fs');\nconst { a } = require(\"./a\");\nfunction one() {}\nfunction two() {}\n\
         module.exports = { one, three: two };\nexports.four = function () {};\n",
    );
    assert_eq!(symbols(&outline), ["3 function +one", "4 function +two", "6 function +four"]);
    assert_eq!(imports(&outline), ["1 fs", "2 ./a"]);
    let tests = parsed(
        "cart.test.js",
        "describe('cart', () => {\n  it.only(`adds up`, async () => {});\n  test.each([1])('each %i', () => {});\n});\n\
         test('no function');\n",
    );
    assert_eq!(symbols(&tests), ["1-4 test cart", "2 test adds up", "3 test each %i"]);
}

#[test]
fn typescript() {
    let source = r#"import type { Item } from './item';
import fs = require('fs');
export interface Priced { price: number }
export type Cents = number;
enum Size { S, M }
export abstract class Cart<T> {
  private hidden(): void {}
  public total(): number { return 1 }
  protected abstract rate(): number;
}
export namespace Shop {
  export function open() {}
}
declare module 'other' {}
export const Button = <T,>(x: T) => x;
"#;
    let outline = parsed("src/cart.ts", source);
    assert_eq!(
        symbols(&outline),
        [
            "3 type +Priced",
            "4 type +Cents",
            "5 type Size",
            "6-10 type +Cart",
            "7 method Cart.hidden",
            "8 method +Cart.total",
            "9 method +Cart.rate",
            "11-13 module +Shop",
            "12 function +Shop.open",
            "14 module other",
            "15 function +Button",
        ]
    );
    assert_eq!(imports(&outline), ["1 ./item (Item)", "2 fs"]);
    let tsx = parsed(
        "src/b.tsx",
        "export function Button() {\n  return <b onClick={() => 1}>x</b>;\n}\n",
    );
    assert_eq!(symbols(&tsx), ["1-3 function +Button"]);
    assert!(tsx.complete);
}

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

// SYMBOLS-6
#[test]
fn java_of_one_package_needs_no_import() {
    let outline = parsed(
        "src/main/java/shop/Cart.java",
        r#"package shop.front;

import java.util.List;

public class Cart<T extends Item> extends Basket {
    private List<Line> lines = new Lines<Line>(Limits.MOST);
    private Outer.Inner inner;
    private java.time.Clock clock;

    @Marked
    public Price total(T from) throws Broken {
        Rates.of(from).stream().map(Tax::on).forEach(line -> { new Sink(); });
        lines.clear();
        return CONSTANT;
    }

    static class Inner {}
}
"#,
    );
    assert_eq!(
        imports(&outline),
        [
            "1 shop.front (Basket,Broken,Item,Limits,Line,Lines,Outer,Price,Rates,Sink,Tax)",
            "3 java.util.List",
        ]
    );
    let nameless = parsed("A.java", "class A { B b; }\n");
    assert_eq!(imports(&nameless), ["1 . (B)"]);
}

#[test]
fn java() {
    let outline = parsed(
        "src/main/java/shop/Cart.java",
        r#"package shop;

import java.util.List;
import static shop.Price.of;
import shop.tax.*;

public class Cart<T> implements Priced {
    public static final int LIMIT = 3;
    private static final int LOW = 1;
    private int count;

    public Cart() {}

    @Override
    public long total() { return 1; }

    private void quiet() {}

    static class Line {
        int cents() { return 1; }
    }
}

interface Priced { long total(); }
enum Size { S, M }
record Point(int x) {}
"#,
    );
    assert_eq!(
        symbols(&outline),
        [
            "7-22 type +Cart",
            "8 constant +Cart.LIMIT",
            "9 constant Cart.LOW",
            "12 method +Cart.Cart",
            "14-15 method +Cart.total",
            "17 method Cart.quiet",
            "19-21 type +Cart.Line",
            "20 method +Line.cents",
            "24 type +Priced",
            "24 method +Priced.total",
            "25 type +Size",
            "26 type +Point",
        ]
    );
    assert_eq!(imports(&outline), ["3 java.util.List", "4 shop.Price.of", "5 shop.tax.*"]);
    let tests = parsed(
        "CartTest.java",
        "class CartTest {\n  @Test void adds() {}\n  @BeforeEach void up() {}\n}\n",
    );
    assert_eq!(
        symbols(&tests),
        ["1-4 type +CartTest", "2 test CartTest.adds", "3 method +CartTest.up"]
    );
}

#[test]
fn c() {
    let header = parsed(
        "include/cart.h",
        "#ifndef CART_H\n#define CART_H\n#define LIMIT 3\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\n#include <stdio.h>\n\
         #include \"price.h\"\nstruct cart { int count; };\ntypedef struct cart cart_t;\nint cart_total(const cart_t *cart);\n\
         extern int (*hook)(int);\n#endif\n",
    );
    assert_eq!(
        symbols(&header),
        [
            "3 constant +LIMIT",
            "4 macro +MAX",
            "7 type +cart",
            "8 type +cart_t",
            "9 function +cart_total",
        ]
    );
    assert_eq!(imports(&header), ["5 stdio.h", "6 price.h"]);
    let source = parsed(
        "src/cart.c",
        "#include \"cart.h\"\nstatic int twice(int x) { return 2 * x; }\nint *\ncart_total(const cart_t *cart)\n{\n  return 0;\n}\n",
    );
    assert_eq!(symbols(&source), ["2 function twice", "3-7 function +cart_total"]);
}

#[test]
fn cpp() {
    let outline = parsed(
        "src/cart.cpp",
        r#"#include "cart.hpp"
namespace shop {
template <typename T> class Box { public: T get() { return t; } T t; };
int Cart::total() const { auto f = [] { return 1; }; return f(); }
namespace { int hidden() { return 1; } }
}
using Cents = long;
enum class Size { S };
TEST(CartTest, AddsUp) { EXPECT_EQ(1, 1); }
"#,
    );
    assert_eq!(
        symbols(&outline),
        [
            "2-6 module +shop",
            "3 type +shop.Box",
            "3 method +Box.get",
            "4 method +Cart.total",
            "5 function hidden",
            "7 type +Cents",
            "8 type +Size",
            "9 test CartTest.AddsUp",
        ]
    );
    let header = "class Cart {\n public:\n  int total() const;\n};\n";
    assert_eq!(Language::of("cart.h", header.as_bytes()), Some(Language::Cpp));
    assert_eq!(symbols(&parsed("cart.h", header)), ["1-4 type +Cart", "3 method +Cart.total"]);
}

#[test]
fn what_does_not_parse_as_a_whole_still_says_what_was_found() {
    let broken = parsed("a.py", "def one():\n    pass\n\n)))(((\n\ndef two():\n    pass\n");
    assert!(!broken.complete);
    assert!(symbols(&broken).contains(&"1-2 function +one".to_owned()), "{broken:?}");
    let latin = b"def caf\xe9(): pass\ndef one(): pass\n";
    let outline = outline(Language::Python, "a.py", latin, &|| false).unwrap().outline;
    assert!(outline.symbols.iter().any(|symbol| symbol.name == "one"), "{outline:?}");
}

fn hostile() -> Vec<(&'static str, String)> {
    let mut sources = vec![];
    for path in ["a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.java", "a.c", "a.cpp"] {
        for piece in [
            "(", "[", "{", "a(", "if x ", "\"", "`${", "<", "/*", "#", "a.", "r#\"", "@", "::",
            "'a ",
        ] {
            sources.push((path, piece.repeat(200_000 / piece.len())));
        }
        sources.push((path, "x".repeat(MAX_SOURCE)));
        sources.push((path, "a;".repeat(200_000)));
    }
    sources.push(("a.py", (0..900).map(|n| format!("{}if x:\n", " ".repeat(n))).collect()));
    sources.push(("a.rs", format!("use a::{{{}}};", "b::{c,".repeat(30_000))));
    sources.push(("a.rs", "mod a { ".repeat(30_000)));
    sources.push(("a.java", "class A { ".repeat(30_000)));
    sources.push(("a.js", "function f() { it('x', () => { ".repeat(10_000)));
    sources.push(("a.c", "int (*".repeat(30_000)));
    sources.push(("a.rs", format!("fn {}() {{}}", "long".repeat(10_000))));
    sources
}

// SYMBOLS-4
#[test]
fn hostile_sources_cost_little_and_stay_inside_the_bounds() {
    for (path, source) in hostile() {
        let started = Instant::now();
        let language = Language::of(path, source.as_bytes()).unwrap();
        let parsed = outline(language, path, source.as_bytes(), &|| false).unwrap();
        let shown: String = source.chars().take(20).collect();
        // A shared machine may be slow; what is caught here takes minutes or for ever.
        assert!(started.elapsed() < Duration::from_secs(30), "{path} {shown}");
        assert!(parsed.lasting, "the count sees it: {path} {shown}");
        let Outline { symbols, imports, lines, .. } = parsed.outline;
        assert!(symbols.len() <= 5_000 && imports.len() <= 2_000, "{path} {shown}");
        for symbol in symbols {
            assert!(symbol.name.len() <= 203, "{path} {shown}");
            assert!(
                1 <= symbol.first_line && symbol.last_line <= lines,
                "{path} {symbol:?} {lines}"
            );
        }
    }
}

#[test]
fn a_parse_that_nobody_waits_for_ends() {
    let source = "fn a() { b(c); }\n".repeat(20_000);
    assert_eq!(outline(Language::Rust, "a.rs", source.as_bytes(), &|| true), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Whatever stands in a file: the same outline twice, lines inside the file, in order.
    #[test]
    fn outlines_are_the_same_twice_and_stay_inside_their_file(
        pieces in proptest::collection::vec(prop_oneof![
            Just("def f():\n  "), Just("class A {\n"), Just("}"), Just("fn x() {"), Just("import a.b"), Just("\n"),
            Just("use a::{b, c};"), Just("\"'"), Just("#include <x>"), Just("func (a) B() {"), Just("\r\n\t"), Just("é"),
        ], 0..40),
        at in 0_usize..9,
    ) {
        let path = ["a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.java", "a.c", "a.cpp"][at];
        let source = pieces.concat();
        let first = parsed(path, &source);
        prop_assert_eq!(&first, &parsed(path, &source));
        prop_assert!(first.symbols.is_sorted_by_key(|symbol| symbol.first_line));
        for symbol in &first.symbols {
            prop_assert!(1 <= symbol.first_line && symbol.first_line <= symbol.last_line);
            prop_assert!(symbol.last_line <= first.lines, "{:?}", symbol);
        }
        for import in &first.imports {
            prop_assert!(1 <= import.line && import.line <= first.lines);
        }
    }
}

fn bytes(path: &str, source: &[u8]) -> Outline {
    outline(Language::of(path, source).unwrap(), path, source, &|| false).unwrap().outline
}

// SYMBOLS-4
#[test]
fn no_name_is_invented_from_bytes_that_are_no_utf8_or_from_the_part_of_a_long_one() {
    let latin = bytes(
        "a.py",
        b"# \xe9\ndef h\xe9llo(): pass\ndef plain(): pass\nclass \xc9l:\n    def m(self): pass\n",
    );
    assert_eq!(symbols(&latin), ["3 function +plain", "5 method +m"], "{latin:?}");
    assert!(!latin.complete && latin.lines == 5);
    let long = bytes("a.py", format!("def {}(): pass\n", "a".repeat(300)).as_bytes());
    assert!(long.symbols[0].name.ends_with("a…") && !long.complete);
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

// SYMBOLS-4
#[test]
fn waiting_is_no_work() {
    let source = "def f(): pass\n".repeat(2_000);
    let asked = std::cell::Cell::new(0);
    // Each look takes long by the clock on the wall.
    let slow = || {
        asked.set(asked.get() + 1);
        if asked.get() < 7 {
            std::thread::sleep(Duration::from_secs(1));
        }
        false
    };
    let parsed = outline(Language::Python, "a.py", source.as_bytes(), &slow).unwrap();
    assert!(parsed.lasting && parsed.outline.complete, "{}", asked.get());
    assert_eq!(parsed.outline.symbols.len(), 2_000);
    assert!(asked.get() > 6, "the parser asked {} times", asked.get());
}
