//! Cargo and Go: one manifest, one tool, one set of commands.

use super::fields::{has_section, toml_value};
use super::{Detected, Framework, Manifests, System};

pub(super) fn cargo(manifests: &Manifests) -> Option<Detected> {
    let text = manifests.text("Cargo.toml")?;
    let all = if has_section(text, "workspace") { " --workspace" } else { "" };
    let rust = toml_value(text, "package", "rust-version")
        .or_else(|| toml_value(text, "workspace.package", "rust-version"))
        .map(|version| format!("rust >= {version}"));
    let toolchain = manifests.text("rust-toolchain.toml");
    let toolchain = toolchain.and_then(|text| toml_value(text, "toolchain", "channel"));
    let rust = toolchain.map(|channel| format!("rust {channel}")).or(rust);
    let integration = manifests.below().any(|path| {
        path.strip_prefix("tests/")
            .is_some_and(|rest| rest.ends_with(".rs") || rest.ends_with("/main.rs"))
    });
    Some(Detected {
        system: System::Cargo,
        framework: Framework::CargoTest,
        source: manifests.source("Cargo.toml"),
        build: Some(format!("cargo build{all}")),
        clean: Some("cargo clean".to_owned()),
        test: Some(format!("cargo test{all}")),
        unit: manifests.has("src/lib.rs").then(|| format!("cargo test{all} --lib")),
        integration: integration.then(|| format!("cargo test{all} --test '*'")),
        prerequisites: vec![rust.unwrap_or_else(|| "rust".to_owned())],
        ..Detected::default()
    })
}

pub(super) fn go(manifests: &Manifests) -> Option<Detected> {
    let text = manifests.text("go.mod")?;
    let version = text.lines().find_map(|line| line.trim().strip_prefix("go "));
    Some(Detected {
        system: System::Go,
        framework: Framework::GoTest,
        source: manifests.source("go.mod"),
        install: Some("go mod download".to_owned()),
        build: Some("go build ./...".to_owned()),
        clean: Some("go clean".to_owned()),
        test: Some("go test ./...".to_owned()),
        coverage: Some("go test -cover ./...".to_owned()),
        prerequisites: vec![
            version.map_or("go".to_owned(), |version| format!("go >= {}", version.trim())),
        ],
        ..Detected::default()
    })
}
