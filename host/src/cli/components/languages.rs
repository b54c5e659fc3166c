//! The languages of components, and the commands that build one on this machine.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ValueEnum;

use act_component::Kind;
use act_core::user_command::UserCommand;

const TARGET: &str = "wasm32-wasip2";
/// The name that `scripts/wasm-target` gives to the toolchain that it makes.
const TOOLCHAIN: &str = "+wasm";
/// Maximum time of one question to a toolchain. A slow disk needs a second.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum number of bytes of the line that `scripts/wasm-target` writes.
const MAX_LINE: u64 = 16 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Lang {
    Rust,
    Python,
    Js,
}

impl Lang {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Js => "js",
        }
    }

    /// Returns the file with the component's own code.
    pub(super) fn source(self) -> &'static str {
        match self {
            Self::Rust => "src/lib.rs",
            Self::Python => "app.py",
            Self::Js => "component.js",
        }
    }

    /// Returns the language of a project, by the file that its tools need.
    pub(super) fn of(project: &Path) -> Option<Self> {
        let has = |file: &str| project.join(file).symlink_metadata().is_ok();
        [(Self::Rust, "Cargo.toml"), (Self::Js, "package.json"), (Self::Python, "requirements.txt")]
            .into_iter()
            .find_map(|(lang, file)| has(file).then_some(lang))
    }
}

/// The tools of a language as this machine has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tools {
    lang: Lang,
    /// The command that builds for the target, for Rust.
    cargo: String,
    /// What has to be installed before the commands work, in words.
    pub(super) missing: Vec<String>,
}

impl Tools {
    /// Asks the tools of this machine. None of the repository is run.
    pub(super) fn find(lang: Lang, repo: Option<&Path>) -> Self {
        let ask = |words: &[&str]| answer(words, repo);
        let (mut cargo, mut missing) = ("cargo".to_owned(), vec![]);
        match lang {
            Lang::Rust => match rust(&ask, saved().as_deref()) {
                Ok(found) => cargo = found,
                Err(what) => missing.push(what),
            },
            Lang::Python => {
                let script = "import sys, venv, ensurepip; print(sys.version_info >= (3, 10))";
                if ask(&["python3", "-c", script]).as_deref() != Some("True") {
                    missing.push(
                        "Python 3.10 or newer with `venv` (on Debian: apt install python3-venv)"
                            .to_owned(),
                    );
                }
            }
            Lang::Js => {
                let version = ask(&["node", "--version"]);
                if version.as_deref().and_then(major).is_none_or(|major| major < 20) {
                    missing.push("Node 20 or newer (https://nodejs.org)".to_owned());
                }
                if ask(&["npm", "--version"]).is_none() {
                    missing.push("npm (on Debian: apt install npm)".to_owned());
                }
            }
        }
        Self { lang, cargo, missing }
    }

    /// Returns the commands that build a component of this name, for the project's directory.
    pub(super) fn commands(&self, name: &str, world: &str) -> Vec<String> {
        match self.lang {
            // A target directory of the user's own settings would be elsewhere.
            Lang::Rust => {
                vec![format!(
                    "{} build --release --target {TARGET} --target-dir target",
                    self.cargo
                )]
            }
            Lang::Python => vec![
                "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt".to_owned(),
                format!(
                    ".venv/bin/componentize-py -d wit -w {world} componentize app --stub-wasi -o {name}.wasm"
                ),
            ],
            Lang::Js => vec!["npm install".to_owned(), "npm run build".to_owned()],
        }
    }

    /// Returns the same commands as one line for a shell, which installs packages the first time only.
    pub(super) fn script(&self, name: &str, world: &str) -> String {
        let mut commands = self.commands(name, world);
        let present = match self.lang {
            Lang::Rust => return commands.join(" && "),
            Lang::Python => ".venv/bin/componentize-py",
            Lang::Js => "node_modules",
        };
        if let Some(install) = commands.first_mut() {
            *install = format!("{{ [ -e {present} ] || {{ {install}; }}; }}");
        }
        commands.join(" && ")
    }

    /// Returns the file that the commands write, below the project's directory.
    pub(super) fn output(&self, name: &str) -> String {
        match self.lang {
            Lang::Rust => format!("target/{TARGET}/release/{}.wasm", name.replace('-', "_")),
            Lang::Python | Lang::Js => format!("{name}.wasm"),
        }
    }
}

/// Returns the world for toolchains that import a whole world: for tools that change nothing the smaller one.
pub(super) fn world(kind: Kind, writes: bool) -> &'static str {
    match kind {
        Kind::Scout => "scout",
        Kind::Tool if writes => "tool",
        Kind::Tool => "reading-tool",
    }
}

/// Returns the first line that a program of the user prints, or `None` if it fails.
fn answer(words: &[&str], repo: Option<&Path>) -> Option<String> {
    // A toolchain that rustup would have to download is not there.
    let words = ["env", "RUSTUP_AUTO_INSTALL=0"].iter().chain(words).map(|word| (*word).to_owned());
    let path = std::env::var_os("PATH");
    let command =
        UserCommand::new(words.collect())?.found_outside_of(repo, path.as_deref()).ok()?;
    let (status, printed) = command.output(vec![], LONGEST, &AtomicBool::new(false)).ok()?;
    let printed = String::from_utf8(printed).ok().filter(|_| status.success())?;
    printed.lines().next().map(|line| line.trim().to_owned())
}

fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// What `scripts/wasm-target` has saved: the command that builds components, and its compiler.
fn saved() -> Option<Vec<String>> {
    let set = |name| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    let file = std::fs::File::open(cache.join("wasm-target/env.sh")).ok()?;
    let text = String::from_utf8(act_fs::read_bounded(file, MAX_LINE).ok()?).ok()?;
    shlex::split(text.lines().next()?)
}

/// Returns the command that builds for the target, or what is missing.
fn rust(
    ask: &impl Fn(&[&str]) -> Option<String>,
    saved: Option<&[String]>,
) -> Result<String, String> {
    let has_target = |rustc: &[&str]| {
        let print = ["--print", "target-libdir", "--target", TARGET];
        let directory = ask(&[rustc, &print[..]].concat());
        directory.is_some_and(|directory| {
            let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
            files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
        })
    };
    if has_target(&["rustc"]) {
        return Ok("cargo".to_owned());
    }
    let of = |name: &str| saved?.iter().find_map(|word| word.strip_prefix(name));
    if let (Some(cargo), Some(rustc)) = (of("WASM_CARGO="), of("WASM_RUSTC="))
        && has_target(&[rustc])
    {
        return Ok(cargo.to_owned());
    }
    if has_target(&["rustc", TOOLCHAIN]) {
        return Ok(format!("cargo {TOOLCHAIN}"));
    }
    Err(match (ask(&["cargo", "--version"]), ask(&["rustup", "--version"])) {
        (None, _) => {
            format!("a Rust toolchain (https://rustup.rs), then `rustup target add {TARGET}`")
        }
        (Some(_), Some(_)) => {
            format!("the target {TARGET} of the Rust toolchain: `rustup target add {TARGET}`")
        }
        (Some(_), None) => format!(
            "the target {TARGET} of the Rust toolchain, which rustup adds (https://rustup.rs), or on Debian `scripts/wasm-target` of a checkout of act"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which these compilers have the target.
    fn machine(
        compilers: &[&str],
        programs: &[&str],
    ) -> (tempfile::TempDir, impl Fn(&[&str]) -> Option<String>) {
        let libraries = tempfile::tempdir().unwrap();
        std::fs::write(libraries.path().join("libstd-1.rlib"), "").unwrap();
        let directory = libraries.path().display().to_string();
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (compilers, programs) = (own(compilers), own(programs));
        let ask = move |words: &[&str]| match words {
            [rustc @ .., "--print", "target-libdir", "--target", TARGET] => {
                Some(if compilers.contains(&rustc.join(" ")) {
                    directory.clone()
                } else {
                    "/nowhere".into()
                })
            }
            [program, "--version"] => {
                programs.iter().any(|one| one == program).then(|| "1".to_owned())
            }
            _ => None,
        };
        (libraries, ask)
    }

    // COMPONENT-4
    #[test]
    fn the_toolchain_that_has_the_target_is_found_or_what_is_missing_is_said() {
        let saved = ["export", "WASM_CARGO=env RUSTC=/r /c", "WASM_RUSTC=/r"].map(str::to_owned);
        for (compilers, programs, saved, expected) in [
            (&["rustc", "/r"][..], &[][..], Some(&saved[..]), Ok("cargo")),
            (&["/r"], &[], Some(&saved[..]), Ok("env RUSTC=/r /c")),
            (&["/r"], &["cargo"], None, Err("rustup adds")),
            (&["rustc +wasm"], &["cargo"], None, Ok("cargo +wasm")),
            (
                &[],
                &["cargo", "rustup"],
                Some(&saved[..]),
                Err(": `rustup target add wasm32-wasip2`"),
            ),
            (&[], &[], None, Err("a Rust toolchain (https://rustup.rs)")),
        ] {
            let (_libraries, ask) = machine(compilers, programs);
            let found = rust(&ask, saved);
            match expected {
                Ok(cargo) => assert_eq!(found.as_deref(), Ok(cargo)),
                Err(part) => {
                    assert!(found.as_ref().is_err_and(|what| what.contains(part)), "{found:?}")
                }
            }
        }
    }

    // COMPONENT-9
    #[test]
    fn a_script_installs_packages_the_first_time_only() {
        let tools = |lang| Tools { lang, cargo: "cargo".into(), missing: vec![] };
        let js = tools(Lang::Js).script("x", "scout");
        assert_eq!(js, "{ [ -e node_modules ] || { npm install; }; } && npm run build");
        let rust = tools(Lang::Rust);
        assert_eq!(rust.script("x", "scout"), rust.commands("x", "scout")[0]);
        assert_eq!(rust.output("my-x"), "target/wasm32-wasip2/release/my_x.wasm");
    }
}
