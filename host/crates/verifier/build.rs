//! Compiles the program in `sandbox/`, which runs in the containers of a Pod, as one static file for Linux on the architecture of
//! the host. Where that is impossible, the crate is built without it, and `act engines image` says so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let out = PathBuf::from(variable("OUT_DIR"));
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let Some(sandbox) = package.ancestors().nth(3).map(|root| root.join("sandbox")) else { return };
    for file in ["Cargo.toml", "Cargo.lock", "src"] {
        println!("cargo:rerun-if-changed={}", sandbox.join(file).display());
    }
    let file = out.join("act-sandbox");
    let built = compile(&sandbox, &out, &variable("TARGET"));
    let bytes = built.unwrap_or_else(|why| {
        println!("cargo:warning=act is built without the program for Pods of Kubernetes: {why}");
        vec![]
    });
    if fs::read(&file).ok().as_deref() != Some(&bytes)
        && let Err(error) = fs::write(&file, &bytes)
    {
        println!("cargo:warning={}: {error}", file.display());
    }
}

fn compile(sandbox: &Path, out: &Path, target: &str) -> Result<Vec<u8>, String> {
    if !target.contains("-linux-") {
        return Err(format!("{target} is not Linux"));
    }
    let directory = out.join("sandbox");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--release", "--locked", "--target", target, "--target-dir"])
        .arg(&directory)
        .current_dir(sandbox)
        // The C library is linked into the file, because the image of the steps may have another one or none.
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    for (name, _) in env::vars_os() {
        let steers = name.to_str().is_some_and(|name| {
            matches!(
                name,
                "CARGO_ENCODED_RUSTFLAGS"
                    | "CARGO_TARGET_DIR"
                    | "RUSTC_WRAPPER"
                    | "RUSTC_WORKSPACE_WRAPPER"
            ) || name.starts_with("CARGO_BUILD_")
                || name.starts_with("CARGO_PROFILE_")
        });
        if steers {
            command.env_remove(name);
        }
    }
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(text.lines().rev().take(8).collect::<Vec<_>>().join("; "));
    }
    let built = directory.join(target).join("release/act-sandbox");
    fs::read(&built).map_err(|error| format!("{}: {error}", built.display()))
}
