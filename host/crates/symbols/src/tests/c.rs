//! C and C++.

use super::*;

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
