//! Compiles the guests under `components/` and delivers them to the crate: the three built-in components for
//! `include_bytes!`, and the examples and test components in the directory that `ACT_TEST_COMPONENTS` names.
//!
//! With `ACT_COMPONENTS_DIR` the components are taken from that directory, checked against its `SHA256SUMS`, instead of
//! being compiled.

#![expect(clippy::print_stderr, reason = "a build script reports its failure there")]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "a module of the library; the build script needs one function of it"
)]
#[path = "src/custom_section.rs"]
mod custom_section;

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

const BUILT_IN: [&str; 3] = ["scout-a", "scout-b", "file-tools"];
const TARGET: &str = "wasm32-wasip2";

type Built = BTreeMap<String, Vec<u8>>;
type Outcome<T> = Result<T, String>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("components: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let root =
        package.ancestors().nth(3).ok_or("the package does not lie in host/crates")?.to_path_buf();
    let out = PathBuf::from(variable("OUT_DIR")?);
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/custom_section.rs");
    println!("cargo:rerun-if-env-changed=ACT_COMPONENTS_DIR");
    println!("cargo:rerun-if-env-changed=WASM_CARGO");

    let components = match env::var_os("ACT_COMPONENTS_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => prebuilt(&root.join(dir))?,
        None => compile(&root, &guests_target(&out)?)?,
    };
    deliver(&components, &out)
}

/// Reads components that were built elsewhere: those that `SHA256SUMS` lists, if their digests match.
fn prebuilt(dir: &Path) -> Outcome<Built> {
    println!("cargo:rerun-if-changed={}", dir.display());
    let sums = String::from_utf8(read(&dir.join("SHA256SUMS"))?)
        .map_err(|_| format!("{}/SHA256SUMS is not text", dir.display()))?;
    let mut built = Built::new();
    for line in sums.lines().filter(|line| !line.trim().is_empty()) {
        let (digest, file) = line
            .split_once(char::is_whitespace)
            .ok_or_else(|| format!("SHA256SUMS has a line without a file name: {line}"))?;
        let file = file.trim_start().trim_start_matches('*');
        let Some(name) = file.strip_suffix(".wasm").filter(|name| !name.contains('/')) else {
            return Err(format!("SHA256SUMS lists {file}, which is not a plain *.wasm name"));
        };
        let bytes = read(&dir.join(file))?;
        let found = hex_sha256(&bytes);
        if !digest.eq_ignore_ascii_case(&found) {
            return Err(format!(
                "{} has digest {found}, but SHA256SUMS says {digest}; \
                 rebuild the directory or unset ACT_COMPONENTS_DIR",
                dir.join(file).display()
            ));
        }
        built.insert(name.to_owned(), bytes);
    }
    Ok(built)
}

/// Builds the workspace of the guests and appends each manifest to its component.
fn compile(root: &Path, target: &Path) -> Outcome<Built> {
    let workspace = root.join("components");
    let tests = root.join("tests/fixtures/components");
    // The entries are watched and not the directory, because an editor may create a `target` in it.
    for entry in entries(&workspace)?.into_iter().filter(|path| !path.ends_with("target")) {
        watch(&entry);
    }
    watch(&root.join("wit"));
    if tests.is_dir() {
        watch(&tests);
    }

    let cargo = wasm_cargo()?;
    let mut command = Command::new(&cargo[0]);
    command
        .args(&cargo[1..])
        .args(["build", "--release", "--locked", "--target", TARGET, "--workspace"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(&workspace);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(steers_the_outer_build) {
            command.env_remove(name);
        }
    }
    let hint = "run `scripts/setup`, which prepares the target, and build again";
    let shown = cargo.join(" ");
    let output = command
        .output()
        .map_err(|error| format!("`{shown}` could not be started ({error}); {hint}"))?;
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(format!("`{shown} build --target {TARGET}` failed, see above; {hint}"));
    }

    let mut built = Built::new();
    let examples = entries(&workspace.join("examples")).unwrap_or_default();
    let tests = entries(&tests).unwrap_or_default();
    for directory in entries(&workspace)?.into_iter().chain(examples).chain(tests) {
        let Some(name) = directory.file_name().and_then(|name| name.to_str()) else { continue };
        let file = format!("{}.wasm", name.replace('-', "_"));
        let artifact = target.join(TARGET).join("release").join(file);
        let manifest = directory.join("manifest.json");
        if directory.join("Cargo.toml").is_file() && artifact.is_file() {
            let mut bytes = read(&artifact)?;
            if manifest.is_file() {
                bytes = custom_section::pack(&bytes, &read(&manifest)?);
            }
            built.insert(name.to_owned(), bytes);
        }
    }
    Ok(built)
}

/// Returns whether a variable is a setting for the outer build. The inner build must not see it; it shares only the job
/// server.
fn steers_the_outer_build(name: &str) -> bool {
    const EXACT: [&str; 9] = [
        "CARGO",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_TARGET_DIR",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTDOC",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
    ];
    EXACT.contains(&name)
        || name.starts_with("CARGO_BUILD_")
        || name.starts_with("CARGO_PROFILE_")
        || name.starts_with("CARGO_TARGET_")
}

/// Runs this script again when the path, or a file anywhere below it, changes. Components that were built from older interfaces
/// do not link, so every file is named and not the directory alone.
fn watch(path: &Path) {
    println!("cargo:rerun-if-changed={}", path.display());
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_name() != "target" {
            watch(&entry.path());
        }
    }
}

/// The command that builds guests: `WASM_CARGO`, or else the command that `scripts/setup` saved, or else `cargo`.
fn wasm_cargo() -> Outcome<Vec<String>> {
    let from_setup = || {
        println!("cargo:rerun-if-env-changed=XDG_CACHE_HOME");
        println!("cargo:rerun-if-env-changed=HOME");
        let cache = env::var_os("XDG_CACHE_HOME")
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
        let file = cache.join("wasm-target/env.sh");
        let text = fs::read_to_string(&file).ok()?;
        println!("cargo:rerun-if-changed={}", file.display());
        let words = text.lines().filter_map(shlex::split).flatten().collect::<Vec<_>>();
        words.iter().find_map(|word| Some(word.strip_prefix("WASM_CARGO=")?.to_owned()))
    };
    let command = env::var("WASM_CARGO").ok().filter(|command| !command.trim().is_empty());
    let command = command.or_else(from_setup).unwrap_or_else(|| "cargo".to_owned());
    let words = command.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    if words.is_empty() { Err("WASM_CARGO names no command".to_owned()) } else { Ok(words) }
}

/// The target directory of the guests, beside the profiles of the outer build. It cannot be the outer one, because cargo holds
/// the lock of that directory while this script runs, and the inner cargo would wait for it for ever.
fn guests_target(out: &Path) -> Outcome<PathBuf> {
    out.ancestors()
        .find(|path| path.ends_with("build"))
        .and_then(|build| build.parent()?.parent())
        .map(|target| target.join("guests"))
        .ok_or_else(|| format!("OUT_DIR {} is not below a target directory", out.display()))
}

/// Writes what the crate includes: bytes, digests, and the directory of test components.
fn deliver(components: &Built, out: &Path) -> Outcome<()> {
    let mut digests = String::new();
    for name in BUILT_IN {
        let bytes = components.get(name).ok_or_else(|| format!("no component {name} was built"))?;
        write(&out.join(format!("{name}.wasm")), bytes)?;
        let constant = name.replace('-', "_").to_uppercase();
        writeln!(digests, "const {constant}_SHA256: &str = \"{}\";", hex_sha256(bytes))
            .map_err(|error| error.to_string())?;
    }
    write(&out.join("builtin_digests.rs"), digests.as_bytes())?;

    let tests = out.join("test-components");
    fs::create_dir_all(&tests).map_err(|error| format!("{}: {error}", tests.display()))?;
    for (name, bytes) in components.iter().filter(|(name, _)| !BUILT_IN.contains(&name.as_str())) {
        write(&tests.join(format!("{name}.wasm")), bytes)?;
    }
    println!("cargo:rustc-env=ACT_TEST_COMPONENTS={}", tests.display());
    Ok(())
}

fn hex_sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn entries(dir: &Path) -> Outcome<Vec<PathBuf>> {
    let list = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut paths = list.filter_map(|entry| Some(entry.ok()?.path())).collect::<Vec<_>>();
    paths.sort();
    Ok(paths)
}

fn variable(name: &str) -> Outcome<String> {
    env::var(name).map_err(|_| format!("{name} is not set; run this through cargo"))
}

fn read(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file unless it holds these bytes already. An unchanged file keeps its time, so what includes it is not compiled
/// again.
fn write(path: &Path, bytes: &[u8]) -> Outcome<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}
