//! JavaScript and TypeScript.

use super::*;

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
