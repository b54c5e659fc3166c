//! Scout A's facts on the real host: repositories in every language with what a person reads off them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use act_agent::scout::facts_a::FactsA;
use act_agent::scout::{OwnReport, check_facts};
use act_component::builtin::SCOUT_A;
use act_component::{ComponentHost, Grant, ScoutQuestion, Services};
use act_core::event::Events;
use act_workspace::{Profile, RepoView};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::hostile::{PLENTY, host, nothing};

fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = temp.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    temp
}

async fn raw(host: &ComponentHost, root: &Path, question: &str) -> String {
    let view = RepoView::open(root, Profile::Scout).unwrap();
    let asked =
        ScoutQuestion { text: question.to_owned(), facts_only: true, ..ScoutQuestion::default() };
    let services = Services { view: Some(view.clone()), ..nothing() };
    let scout = host
        .load(SCOUT_A.bytes, Grant::builtin_scout(), &Events::silent())
        .unwrap()
        .into_scout()
        .unwrap();
    let raw = scout.ask(asked, services, PLENTY, &CancellationToken::new()).await.unwrap();
    check_facts("scout-a", &raw, &OwnReport::new(None).unwrap(), &view).unwrap();
    raw
}

async fn facts(root: &Path, question: &str) -> FactsA {
    FactsA::parse(&raw(&host(), root, question).await).unwrap()
}

/// `from → to`.
fn imports(facts: &FactsA) -> Vec<String> {
    facts.imports.iter().map(|import| format!("{} → {}", import.from, import.to)).collect()
}

fn tests(facts: &FactsA) -> Vec<String> {
    facts.tests.iter().map(|test| format!("{}: {}", test.path, test.exercises.join(" "))).collect()
}

fn map(facts: &FactsA) -> Vec<&str> {
    facts.map.iter().map(|mapped| mapped.path.as_str()).collect()
}

fn convention<'f>(facts: &'f FactsA, topic: &str) -> (&'f str, u64, u64) {
    let found = facts.conventions.iter().find(|convention| convention.topic == topic);
    let found = found.unwrap_or_else(|| panic!("{topic}: {:?}", facts.conventions));
    (&found.value, found.count, found.total)
}

// SCOUT-A-7
#[tokio::test]
async fn rust() {
    let temp = repository(&[
        (
            "Cargo.toml",
            "[package]\nname = \"shop\"\n[[bin]]\nname = \"till\"\npath = \"src/till.rs\"\n",
        ),
        ("src/lib.rs", "pub mod cart;\npub mod price;\n"),
        (
            "src/cart.rs",
            "use crate::price::{Cents, round};\n\npub struct Cart {\n    items: Vec<Cents>,\n}\n\nimpl Cart {\n    pub fn total(&self) -> Cents {\n        round(self.items[0])\n    }\n}\n",
        ),
        (
            "src/price.rs",
            "pub type Cents = u64;\n\npub fn round(x: Cents) -> Cents {\n    x\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn rounds() {\n        assert_eq!(round(1), 1);\n    }\n}\n",
        ),
        ("src/till.rs", "use shop::cart::Cart;\n\nfn main() {}\n"),
        ("tests/cart_test.rs", "use shop::cart::Cart;\n\n#[test]\nfn adds_up() {}\n"),
    ]);
    let facts = facts(temp.path(), "").await;
    assert_eq!(
        imports(&facts),
        [
            "src/cart.rs → src/price.rs",
            "src/lib.rs → src/cart.rs",
            "src/lib.rs → src/price.rs",
            "src/till.rs → src/cart.rs",
            "tests/cart_test.rs → src/cart.rs",
        ]
    );
    assert_eq!(tests(&facts), ["src/price.rs: src/price.rs", "tests/cart_test.rs: src/cart.rs"]);
    assert_eq!(facts.entry_points, ["src/lib.rs", "src/till.rs"]);
    let symbol = facts.symbols.iter().find(|symbol| symbol.name == "total").unwrap();
    assert_eq!((&*symbol.path, symbol.start_line, symbol.end_line), ("src/cart.rs", 8, 10));
    assert_eq!((symbol.container.as_deref(), symbol.exported), (Some("Cart"), true));
    let price = facts.risk.iter().find(|risk| risk.path == "src/price.rs").unwrap();
    assert_eq!((price.fan_in, price.lines, price.tested, price.public_symbols), (2, 15, true, 2));
    assert_eq!(convention(&facts, "line_length"), ("at most 80", 26, 26));
    assert_eq!(facts.inventory.languages[0].lines, 2 + 11 + 15 + 3 + 4);
    assert!(!facts.truncated);
}

// SCOUT-A-7
#[tokio::test]
async fn python() {
    let temp = repository(&[
        ("src/shop/__init__.py", ""),
        (
            "src/shop/cart.py",
            "from .price import total\n\n\ndef checkout_all(items):\n    return total(items)\n",
        ),
        ("src/shop/price.py", "def total(items):\n    return sum(items)\n"),
        ("src/shop/__main__.py", "from shop.cart import checkout_all\n"),
        (
            "tests/test_price.py",
            "from shop import price\n\n\ndef test_total():\n    assert price.total([1]) == 1\n",
        ),
        ("tests/conftest.py", "import pytest\n"),
        ("tests/test_checkout.py", "import shop.cart\n\n\ndef test_checkout():\n    pass\n"),
    ]);
    let facts = facts(temp.path(), "why is the price wrong").await;
    assert_eq!(
        imports(&facts),
        [
            "src/shop/__main__.py → src/shop/cart.py",
            "src/shop/cart.py → src/shop/price.py",
            "tests/test_checkout.py → src/shop/cart.py",
            "tests/test_price.py → src/shop/price.py",
        ]
    );
    assert_eq!(
        tests(&facts),
        ["tests/test_checkout.py: src/shop/cart.py", "tests/test_price.py: src/shop/price.py"]
    );
    assert_eq!(facts.entry_points, ["src/shop/__main__.py"]);
    assert_eq!(map(&facts)[0], "src/shop/price.py");
    assert_eq!(convention(&facts, "indent"), ("4 spaces", 3, 3));
    assert_eq!(convention(&facts, "function_naming"), ("snake_case", 3, 3));
    assert_eq!(convention(&facts, "line_ending"), ("LF", 3, 3));
}

// SCOUT-A-7
#[tokio::test]
async fn javascript_and_typescript() {
    let temp = repository(&[
        ("package.json", r#"{"name": "shop", "bin": {"shop": "./src/cli.js"}}"#),
        ("src/cli.js", "const { total } = require('./price');\n\nconsole.log(total([1]));\n"),
        (
            "src/price.js",
            "function total(items) {\n  return items.length;\n}\n\nmodule.exports = { total };\n",
        ),
        (
            "src/cart.ts",
            "import { total } from './price.js';\n\nexport class Cart {\n  sum() {\n    return total([]);\n  }\n}\n",
        ),
        (
            "src/price.test.js",
            "const { total } = require('./price');\n\ntest('total', () => {\n  expect(total([])).toBe(0);\n});\n",
        ),
    ]);
    let facts = facts(temp.path(), "").await;
    assert_eq!(
        imports(&facts),
        [
            "src/cart.ts → src/price.js",
            "src/cli.js → src/price.js",
            "src/price.test.js → src/price.js",
        ]
    );
    assert_eq!(tests(&facts), ["src/price.test.js: src/price.js"]);
    assert_eq!(facts.entry_points, ["src/cli.js"]);
    assert_eq!(map(&facts)[0], "src/price.js");
    assert_eq!(convention(&facts, "quotes").0, "single");
    assert_eq!(convention(&facts, "semicolons").0, "always");
}

// SCOUT-A-7
#[tokio::test]
async fn go() {
    let temp = repository(&[
        ("go.mod", "module example.com/shop\n\ngo 1.22\n"),
        (
            "cmd/till/main.go",
            "package main\n\nimport \"example.com/shop/price\"\n\nfunc main() {\n\tprice.Total(nil)\n}\n",
        ),
        (
            "price/price.go",
            "package price\n\nfunc Total(items []int) int {\n\treturn len(items) * factor\n}\n",
        ),
        ("price/factor.go", "package price\n\nconst factor = 1\n"),
        (
            "price/price_test.go",
            "package price\n\nimport \"testing\"\n\nfunc TestTotal(t *testing.T) {\n\tTotal(nil)\n}\n",
        ),
    ]);
    let facts = facts(temp.path(), "").await;
    assert_eq!(
        imports(&facts),
        [
            "cmd/till/main.go → price/factor.go",
            "cmd/till/main.go → price/price.go",
            "price/price.go → price/factor.go",
            "price/price_test.go → price/price.go",
        ]
    );
    assert_eq!(tests(&facts), ["price/price_test.go: price/price.go"]);
    assert_eq!(facts.entry_points, ["cmd/till/main.go"]);
    assert_eq!(convention(&facts, "indent"), ("tabs", 3, 3));
}

// SCOUT-A-7
#[tokio::test]
async fn java() {
    let temp = repository(&[
        (
            "src/main/java/shop/Cart.java",
            "package shop;\n\nimport shop.price.Price;\n\npublic class Cart {\n    public static void main(String[] args) {}\n}\n",
        ),
        (
            "src/main/java/shop/price/Price.java",
            "package shop.price;\n\npublic final class Price {\n    public long cents() { return 1; }\n}\n",
        ),
        (
            "src/test/java/shop/CartTest.java",
            "package shop;\n\nimport org.junit.jupiter.api.Test;\n\nclass CartTest {\n    @Test void adds() { new Cart(); }\n}\n",
        ),
    ]);
    let facts = facts(temp.path(), "").await;
    assert_eq!(
        imports(&facts),
        [
            "src/main/java/shop/Cart.java → src/main/java/shop/price/Price.java",
            "src/test/java/shop/CartTest.java → src/main/java/shop/Cart.java",
        ]
    );
    assert_eq!(tests(&facts), ["src/test/java/shop/CartTest.java: src/main/java/shop/Cart.java"]);
    assert_eq!(facts.entry_points, ["src/main/java/shop/Cart.java"]);
}

// SCOUT-A-7
#[tokio::test]
async fn c_and_cpp() {
    let temp = repository(&[
        ("include/shop/price.h", "#pragma once\nint price_total(int n);\n"),
        ("src/price.c", "#include <shop/price.h>\n\nint price_total(int n)\n{\n\treturn n;\n}\n"),
        (
            "src/main.c",
            "#include <stdio.h>\n#include \"shop/price.h\"\n\nint main(void)\n{\n\treturn price_total(1);\n}\n",
        ),
        (
            "tests/price_test.cpp",
            "#include \"shop/price.h\"\n\nTEST(Price, Total) {\n  EXPECT_EQ(price_total(1), 1);\n}\n",
        ),
    ]);
    let facts = facts(temp.path(), "").await;
    assert_eq!(
        imports(&facts),
        [
            "src/main.c → include/shop/price.h",
            "src/price.c → include/shop/price.h",
            "tests/price_test.cpp → include/shop/price.h",
        ]
    );
    assert_eq!(tests(&facts), ["tests/price_test.cpp: include/shop/price.h src/price.c"]);
    assert_eq!(facts.entry_points, ["src/main.c"]);
    assert_eq!(map(&facts)[0], "include/shop/price.h");
    let languages =
        facts.inventory.languages.iter().map(|language| (&*language.name, language.files));
    assert_eq!(languages.collect::<Vec<_>>(), [("C", 3), ("C++", 1)]);
}

// SCOUT-A-9
#[tokio::test]
async fn the_same_repository_gives_the_same_bytes_with_and_without_what_was_kept() {
    let files = (0..120).map(|n| {
        let text = format!(
            "from m{} import f{}\n\n\ndef f{n}(x):\n    return x\n",
            (n * 7) % 120,
            (n * 7) % 120
        );
        (format!("src/m{n}.py"), text)
    });
    let files = files.collect::<Vec<_>>();
    let files = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>();
    let temp = repository(&files);
    let kept = tempfile::tempdir().unwrap();
    fs::set_permissions(kept.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let cold = ComponentHost::new(Some(kept.path()));
    let first = raw(&cold, temp.path(), "what calls f7").await;
    assert!(kept.path().join("index.sqlite").is_file());
    let warm = ComponentHost::new(Some(kept.path()));
    assert_eq!(first, raw(&warm, temp.path(), "what calls f7").await);
    // Old enough to be known by their state: first stored so, then found so.
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    for _ in 0..2 {
        assert_eq!(first, raw(&warm, temp.path(), "what calls f7").await);
    }
    assert_eq!(first, raw(&ComponentHost::new(None), temp.path(), "what calls f7").await);
}

// SCOUT-A-10
#[tokio::test]
async fn what_is_excluded_is_in_no_fact() {
    let temp = repository(&[
        ("app.py", "import credentials\nfrom node_modules import hidden_module\nimport built\n"),
        ("credentials.py", "SECRET_TOKEN = 'x'\n"),
        (".env", "SECRET_TOKEN=x\n"),
        ("node_modules/hidden_module.py", "def hidden_function(): pass\n"),
        ("built.py", "def built_function(): pass\n"),
        (".gitignore", "built.py\n"),
    ]);
    fs::create_dir(temp.path().join(".git")).unwrap();
    let raw =
        raw(&host(), temp.path(), "SECRET_TOKEN hidden_function built_function credentials").await;
    let facts: Value = serde_json::from_str(&raw).unwrap();
    assert_eq!(facts["imports"], json!([]));
    let told =
        raw.replace("\"question\":\"SECRET_TOKEN hidden_function built_function credentials\"", "");
    for hidden in ["SECRET_TOKEN", "hidden", "built", "credentials", ".env"] {
        assert!(!told.contains(hidden), "{hidden}: {told}");
    }
    assert_eq!(facts["inventory"]["files"], 2);
}

// SCOUT-A-10
#[tokio::test]
async fn facts_that_do_not_hold_do_not_leave_the_host() {
    let temp = repository(&[("a.py", "def one():\n    pass\n"), ("credentials.py", "x\n")]);
    let view = RepoView::open(temp.path(), Profile::Scout).unwrap();
    let good: Value = serde_json::from_str(&raw(&host(), temp.path(), "").await).unwrap();
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut facts = good.clone();
        change(&mut facts);
        let own = OwnReport::new(None).unwrap();
        check_facts("scout-a", &facts.to_string(), &own, &view).unwrap_err()
    };
    assert!(wrong(&|f| f["entry_points"] = json!(["ghost.py"])).contains("ghost.py"));
    assert!(wrong(&|f| f["map"][0]["path"] = json!("credentials.py")).contains("credentials.py"));
    assert!(wrong(&|f| f["imports"] = json!([{"from": "a.py", "to": "../x"}])).contains("../x"));
    assert!(wrong(&|f| f["symbols"][0]["end_line"] = json!(3)).contains("lines 3-3"));
    assert!(wrong(&|f| f["risk"][0]["lines"] = json!(9)).contains("a.py"));
    assert!(wrong(&|f| f["secrets"] = json!([])).contains("unknown field `secrets`"));
    assert!(wrong(&|f| f["schema_version"] = json!("2")).contains("schema_version"));
}

// SCOUT-A-11
#[tokio::test]
async fn hostile_sources_do_not_keep_the_facts_from_coming() {
    let deep = "(".repeat(300_000);
    let long = format!("x = '{}'\n", "y".repeat(900_000));
    let nested =
        (0..3_000).map(|n| format!("class C{n}:\n{}", " ".repeat(n % 90 + 1))).collect::<String>();
    let latin = String::from_utf8_lossy(b"def caf\xe9(): pass\n").into_owned();
    let temp = repository(&[
        ("deep.js", &deep),
        ("long.py", &long),
        ("nested.py", &nested),
        ("latin.py", &latin),
        ("good.py", "def good():\n    pass\n"),
        ("package.json", &"[".repeat(100_000)),
        ("Cargo.toml", &"[".repeat(100_000)),
        ("tsconfig.json", "{\"compilerOptions\": {\"paths\": {\"*\": [\"../../../etc/*\"]}}}"),
        ("odd\nname.py", "def odd(): pass\n"),
    ]);
    let facts = facts(temp.path(), "good").await;
    assert_eq!(map(&facts)[0], "good.py");
    assert!(facts.symbols.iter().any(|symbol| symbol.name == "good"));
}

// SCOUT-10
#[test]
fn facts_of_an_added_scout_fit_the_schema_of_its_manifest() {
    let temp = tempfile::tempdir().unwrap();
    let view = RepoView::open(temp.path(), Profile::Scout).unwrap();
    let none = OwnReport::new(None).unwrap();
    assert_eq!(check_facts("notes", r#"{"summary":"2 notes"}"#, &none, &view).unwrap(), "2 notes");
    assert!(check_facts("notes", "2 notes", &none, &view).unwrap_err().contains("no JSON"));
    let schema = r#"{"type":"object","required":["summary"],
                     "properties":{"summary":{"type":"string"},"notes":{"type":"array"}}}"#;
    let own = OwnReport::new(Some(schema)).unwrap();
    assert_eq!(check_facts("notes", r#"{"summary":"one"}"#, &own, &view).unwrap(), "one");
    for (facts, why) in [(r#"{"notes":[]}"#, "summary"), (r#"{"summary":"x","notes":1}"#, "/notes")]
    {
        let wrong = check_facts("notes", facts, &own, &view).unwrap_err();
        assert!(wrong.contains(why), "{wrong}");
    }
}
