//! Imports of every language, and the files that a person would open for them.

use super::*;
use act_kit::testing::Files;

fn resolved(
    files: &Files,
    language: &str,
    from: &str,
    target: &str,
    names: &[&str],
) -> Vec<String> {
    let inventory = Inventory::of(files).unwrap();
    let resolver = Resolver::new(files, &inventory);
    let import = Imported { target, names: names.to_vec() };
    let found = resolver.files(from, language, &import);
    found.into_iter().map(|at| inventory.files[at].path.clone()).collect()
}

fn empty(paths: &[&str]) -> Files {
    Files::of(&paths.iter().map(|path| (*path, "")).collect::<Vec<_>>())
}

#[test]
fn rust() {
    let files = Files::of(&[
        ("host/Cargo.toml", "[package]\nname = \"agent-tool\"\n[lib]\nname = \"act\"\n"),
        ("host/src/lib.rs", ""),
        ("host/src/cli/mod.rs", ""),
        ("host/src/cli/run.rs", ""),
        ("host/src/cli/run/args.rs", ""),
        ("host/src/store.rs", ""),
        ("host/build.rs", ""),
        ("tests/system/main.rs", ""),
        ("tests/system/json.rs", ""),
        ("guest/Cargo.toml", "[package]\nname = \"scout-a\"\n"),
        ("guest/src/lib.rs", ""),
    ]);
    let from = |from: &str, target: &str| resolved(&files, "rust", from, target, &[]);
    assert_eq!(from("host/src/cli/run.rs", "crate::store::Store"), ["host/src/store.rs"]);
    assert_eq!(from("host/src/cli/run.rs", "crate::MAX"), ["host/src/lib.rs"]);
    assert_eq!(from("host/src/cli/run.rs", "super::Shared"), ["host/src/cli/mod.rs"]);
    assert_eq!(from("host/src/cli/run.rs", "self::args"), ["host/src/cli/run/args.rs"]);
    assert_eq!(from("host/src/cli/run.rs", "super::super::store::X"), ["host/src/store.rs"]);
    assert_eq!(from("host/src/cli/mod.rs", "self::run"), ["host/src/cli/run.rs"]);
    assert_eq!(from("host/src/cli/mod.rs", "super::store"), ["host/src/store.rs"]);
    assert_eq!(from("host/src/cli/mod.rs", "run::Args"), ["host/src/cli/run.rs"]);
    assert_eq!(from("host/build.rs", "src/store.rs"), ["host/src/store.rs"]);
    assert_eq!(from("tests/system/json.rs", "act::cli::run::Args"), ["host/src/cli/run.rs"]);
    assert_eq!(from("tests/system/json.rs", "act::Exit"), ["host/src/lib.rs"]);
    assert_eq!(from("tests/system/main.rs", "self::json"), ["tests/system/json.rs"]);
    assert_eq!(from("host/src/lib.rs", "scout_a::ask"), ["guest/src/lib.rs"]);
    assert_eq!(from("host/src/lib.rs", "std::fs"), [""; 0]);
}

#[test]
fn python() {
    let files = empty(&[
        "src/shop/__init__.py",
        "src/shop/price.py",
        "src/shop/tax/__init__.py",
        "src/shop/tax/rates.py",
        "tests/test_price.py",
        "tools/helper.py",
        "tools/run.py",
        "other/json.py",
    ]);
    let from =
        |from: &str, target: &str, names: &[&str]| resolved(&files, "python", from, target, names);
    assert_eq!(from("tests/test_price.py", "shop.price", &["total"]), ["src/shop/price.py"]);
    assert_eq!(
        from("tests/test_price.py", "shop", &["price", "VERSION"]),
        ["src/shop/__init__.py", "src/shop/price.py"]
    );
    assert_eq!(from("src/shop/price.py", ".tax", &["rates"]), ["src/shop/tax/rates.py"]);
    assert_eq!(from("src/shop/tax/rates.py", "..price", &["total"]), ["src/shop/price.py"]);
    assert_eq!(from("src/shop/tax/rates.py", "..", &["price"]), ["src/shop/price.py"]);
    assert_eq!(from("tools/run.py", "helper", &[]), ["tools/helper.py"]);
    assert_eq!(from("tools/run.py", "json", &[]), [""; 0]);
    assert_eq!(from("tools/run.py", ".....", &["x"]), [""; 0]);
}

// SCOUT-A-7
#[test]
fn inside_a_python_package_an_absolute_import_is_no_sibling() {
    let files = empty(&[
        "src/app/__init__.py",
        "src/app/logging.py",
        "src/app/queue.py",
        "src/app/m.py",
        "src/app/sub/__init__.py",
        "src/app/sub/m.py",
        "src/app/sub/price.py",
        "src/price.py",
        "unittest/__init__.py",
        "unittest/test/__init__.py",
        "unittest/test/support.py",
        "unittest/test/case.py",
        "tools/logging.py",
        "tools/run.py",
        "tools/deep/run.py",
    ]);
    let from =
        |from: &str, target: &str, names: &[&str]| resolved(&files, "python", from, target, names);
    for name in ["logging", "queue", "subprocess"] {
        assert_eq!(from("src/app/m.py", name, &[]), [""; 0], "{name}");
        assert_eq!(from("src/app/sub/m.py", name, &[]), [""; 0], "{name}");
    }
    assert_eq!(from("src/app/m.py", ".logging", &["x"]), ["src/app/logging.py"]);
    assert_eq!(from("src/app/m.py", "app.logging", &["x"]), ["src/app/logging.py"]);
    assert_eq!(from("src/app/sub/m.py", "price", &[]), ["src/price.py"]);
    assert_eq!(from("unittest/test/case.py", "test.support", &["x"]), [""; 0]);
    // A script begins where it lies, and hides what it likes there.
    assert_eq!(from("tools/run.py", "logging", &[]), ["tools/logging.py"]);
    assert_eq!(from("tools/deep/run.py", "logging", &[]), [""; 0]);
}

#[test]
fn javascript_and_typescript() {
    let files = Files::of(&[
        (
            "packages/core/package.json",
            r#"{"name": "@shop/core", "main": "./dist/index.js", "source": "src/index.ts"}"#,
        ),
        ("packages/core/src/index.ts", ""),
        ("packages/core/src/price.ts", ""),
        ("packages/web/src/app.tsx", ""),
        ("packages/web/src/lib/index.js", ""),
        ("packages/web/src/style.css", ""),
        (
            "packages/web/tsconfig.json",
            "{\n // short\n \"compilerOptions\": {\"baseUrl\": \".\", \"paths\": {\"@/*\": [\"src/*\"],}, /* x */ },\n}",
        ),
    ]);
    let from = |from: &str, target: &str| resolved(&files, "typescript", from, target, &[]);
    let app = "packages/web/src/app.tsx";
    assert_eq!(from("packages/core/src/index.ts", "./price"), ["packages/core/src/price.ts"]);
    assert_eq!(from("packages/core/src/index.ts", "./price.js"), ["packages/core/src/price.ts"]);
    assert_eq!(from(app, "./lib"), ["packages/web/src/lib/index.js"]);
    assert_eq!(from(app, "./style.css"), ["packages/web/src/style.css"]);
    assert_eq!(from(app, "@shop/core"), ["packages/core/src/index.ts"]);
    assert_eq!(from(app, "@shop/core/price"), ["packages/core/src/price.ts"]);
    assert_eq!(from(app, "@/lib"), ["packages/web/src/lib/index.js"]);
    assert_eq!(from(app, "react"), [""; 0]);
    assert_eq!(from(app, "../../../../../etc/passwd"), [""; 0]);
}

#[test]
fn go() {
    let files = Files::of(&[
        ("go.mod", "module example.com/shop // ours\n"),
        ("main.go", ""),
        ("price/price.go", ""),
        ("price/price_test.go", ""),
        ("tools/go.mod", "module example.com/shop/tools\n"),
        ("tools/gen/gen.go", ""),
    ]);
    let from = |target: &str| resolved(&files, "go", "main.go", target, &[]);
    assert_eq!(from("example.com/shop/price"), ["price/price.go"]);
    assert_eq!(from("example.com/shop/tools/gen"), ["tools/gen/gen.go"]);
    assert_eq!(from("example.com/shop"), ["main.go"]);
    assert_eq!(from("example.com/shopping/price"), [""; 0]);
    assert_eq!(from("fmt"), [""; 0]);
}

#[test]
fn java() {
    let files = empty(&[
        "core/src/main/java/shop/Cart.java",
        "core/src/main/java/shop/tax/Rates.java",
        "core/src/test/java/shop/tax/RatesTest.java",
        "web/src/main/java/shop/Cart.java",
        "web/src/main/java/web/App.java",
    ]);
    let from = |from: &str, target: &str| resolved(&files, "java", from, target, &[]);
    let app = "web/src/main/java/web/App.java";
    assert_eq!(from(app, "shop.Cart"), ["web/src/main/java/shop/Cart.java"]);
    assert_eq!(from(app, "shop.tax.Rates.of"), ["core/src/main/java/shop/tax/Rates.java"]);
    assert_eq!(from(app, "shop.tax.*"), ["core/src/main/java/shop/tax/Rates.java"]);
    assert_eq!(from(app, "java.util.List"), [""; 0]);
    let test = "core/src/test/java/shop/tax/RatesTest.java";
    let own = |target: &str, names: &[&str]| resolved(&files, "java", test, target, names);
    let rates = ["core/src/main/java/shop/tax/Rates.java"];
    assert_eq!(own("shop.tax", &["Cart", "Rates", "String"]), rates);
    assert_eq!(own(".", &["Rates", "RatesTest"]), [test]);
}

#[test]
fn c_and_cpp() {
    let files = empty(&[
        "include/shop/price.h",
        "src/price.c",
        "src/detail.h",
        "test/price_test.cpp",
        "other/detail.h",
    ]);
    let from = |from: &str, target: &str| resolved(&files, "c", from, target, &[]);
    assert_eq!(from("src/price.c", "shop/price.h"), ["include/shop/price.h"]);
    assert_eq!(from("src/price.c", "detail.h"), ["src/detail.h"]);
    assert_eq!(from("test/price_test.cpp", "../src/detail.h"), ["src/detail.h"]);
    assert_eq!(from("src/price.c", "stdio.h"), [""; 0]);
    assert_eq!(from("src/price.c", "../../outside.h"), [""; 0]);
}
