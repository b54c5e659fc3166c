//! Java.

use super::*;

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
