//! Names that a component may not see. Names are compared with case folded, and an excluded name hides everything below
//! it. Binary files without a telling name are refused where they are read.

use std::borrow::Cow;
use std::path::Path;

use super::git::WorkTree;
use super::reading::{ReadError, Slice, read};
use super::view::{Kind, Profile, RepoView, ViewError};

/// Why a name is not in view. Messages to the user contain the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Secret,
    VersionControl,
    /// The directory of act's notes, which tasks write for their user.
    Own,
    BuildDirectory,
    Binary,
    Ignored,
    /// A temporary file of a write that is under way.
    Temporary,
    /// A path outside of the parts that were granted to this reader.
    NotGranted,
    /// A name that is not UTF-8, which no component can ask for.
    NotUtf8,
}

impl Rule {
    /// Returns the word for messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::VersionControl => "version_control",
            Self::Own => "own",
            Self::BuildDirectory => "build_directory",
            Self::Binary => "binary",
            Self::Ignored => "ignored",
            Self::Temporary => "temporary",
            Self::NotGranted => "not_granted",
            Self::NotUtf8 => "not_utf8",
        }
    }
}

/// Returns the rule that excludes `path` by the names on it alone. `kind` is the kind of the last name; without it,
/// rules for one kind are not applied to that name.
pub(super) fn by_name(profile: Profile, path: &str, kind: Option<Kind>) -> Option<Rule> {
    let path = fold(path);
    let (parents, last) = path.rsplit_once('/').unwrap_or(("", &path));
    for name in parents.split('/').chain([last]).filter(|name| !name.is_empty()) {
        if is_version_control(name) {
            return Some(Rule::VersionControl);
        }
        if is_temporary(name) {
            return Some(Rule::Temporary);
        }
    }
    if profile == Profile::Scout {
        if is_in_build_directory(&path, kind) {
            return Some(Rule::BuildDirectory);
        }
        if matches!(kind, Some(Kind::File)) && is_binary_name(last) {
            return Some(Rule::Binary);
        }
    }
    None
}

/// Returns whether a name on `path` is that of a secret.
pub(super) fn is_secret(path: &str) -> bool {
    let path = fold(path);
    let names: Vec<_> = path.split('/').collect();
    let in_directory = |two: &[&str]| SECRETS_IN_DIRECTORIES.iter().any(|known| known == two);
    names.iter().any(|name| is_secret_name(name)) || names.windows(2).any(in_directory)
}

/// Returns whether a directory hides every file in it from a Scout, by the names on its path.
pub(super) fn hides_all_in(directory: &str) -> bool {
    by_name(Profile::Scout, directory, Some(Kind::Directory)).is_some() || is_secret(directory)
}

/// Returns whether a Scout cannot see a file because of its own name, and that of the directory around it. `directory` is the
/// last name of a directory that hides nothing by itself ([`hides_all_in`]).
pub(super) fn hides_file(directory: &str, name: &str) -> bool {
    let is_secret = || {
        let (directory, name) = (fold(directory), fold(name));
        is_secret_name(&name) || SECRETS_IN_DIRECTORIES.contains(&[&*directory, &*name])
    };
    by_name(Profile::Scout, name, Some(Kind::File)).is_some() || is_secret()
}

/// Files that hold secrets because of the directory in which a tool looks for them.
const SECRETS_IN_DIRECTORIES: [[&str; 2]; 2] = [[".docker", "config.json"], [".kube", "config"]];

/// Returns whether `path` is, or lies in, a directory that tools fill: dependencies, environments, caches, outputs.
pub(super) fn is_in_build_directory(path: &str, kind: Option<Kind>) -> bool {
    let path = fold(path);
    let (parents, last) = path.rsplit_once('/').unwrap_or(("", &path));
    parents.split('/').any(is_build_directory_name)
        || (kind == Some(Kind::Directory) && is_build_directory_name(last))
}

/// Folds case as file systems do that ignore it, and removes the code points that some of them skip.
pub(super) fn fold(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
        return Cow::Borrowed(text);
    }
    let skipped = |c: &char| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    Cow::Owned(
        text.chars()
            .filter(skipped)
            .flat_map(char::to_uppercase)
            .flat_map(char::to_lowercase)
            .collect(),
    )
}

/// Returns whether a name is that of a temporary file, which a write creates beside its target.
pub(super) fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY_PREFIX)
        .and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX))
        .is_some_and(|middle| middle.len() == 16 && middle.bytes().all(|b| b.is_ascii_hexdigit()))
}

pub(super) const TEMPORARY_PREFIX: &str = ".act-write-";
pub(super) const TEMPORARY_SUFFIX: &str = ".tmp";

pub(super) fn is_version_control(name: &str) -> bool {
    matches!(name, ".git" | ".svn" | ".hg")
}

fn is_secret_name(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        ".dockercfg",
        ".envrc",
        ".gnupg",
        ".htpasswd",
        ".my.cnf",
        ".mylogin.cnf",
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pgpass",
        ".pypirc",
        ".s3cfg",
        ".ssh",
        ".terraformrc",
        ".vault-token",
        ".vault_pass",
        "kubeconfig",
    ];
    const ENDS: [&str; 13] = [
        ".env",
        ".pem",
        ".key",
        ".p12",
        ".pfx",
        ".jks",
        ".keystore",
        ".kdbx",
        ".kubeconfig",
        ".ppk",
        ".tfvars",
        ".tfvars.json",
        ".tfstate",
    ];
    // Keys of ssh under other names are known by their directory: `id_map` may be anything.
    const STARTS: [&str; 6] = [".env.", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_xmss"];
    const HOLDS: [&str; 4] = ["credentials", "secrets", "secret.", ".tfstate."];
    NAMES.contains(&name)
        || ENDS.iter().any(|end| name.ends_with(end))
        || STARTS.iter().any(|start| name.starts_with(start))
        || HOLDS.iter().any(|part| name.contains(part))
}

fn is_build_directory_name(name: &str) -> bool {
    matches!(
        name,
        "node_modules"
            | "bower_components"
            | "jspm_packages"
            | ".pnpm-store"
            | ".yarn"
            | ".venv"
            | "venv"
            | ".virtualenv"
            | "virtualenv"
            | ".tox"
            | ".nox"
            | "__pycache__"
            | "__pypackages__"
            | ".pytest_cache"
            | ".mypy_cache"
            | ".ruff_cache"
            | ".hypothesis"
            | ".ipynb_checkpoints"
            | ".eggs"
            | ".cache"
            | ".parcel-cache"
            | ".turbo"
            | ".nyc_output"
            | "htmlcov"
            | ".gradle"
            | ".terraform"
            | ".dart_tool"
            | ".bundle"
            | "dist"
            | "build"
            | "target"
            | ".next"
            | ".nuxt"
            | ".output"
            | ".svelte-kit"
    ) || name.ends_with(".egg-info")
        || name.starts_with("cmake-build-")
}

fn is_binary_name(name: &str) -> bool {
    let Some((_, extension)) = name.rsplit_once('.') else { return false };
    matches!(
        extension,
        // images
        "png" | "jpg" | "jpeg" | "gif" | "bmp" | "ico" | "icns" | "webp" | "avif" | "heic" | "tif" | "tiff" | "svg"
            | "psd" | "xcf"
            // compiled
            | "exe" | "dll" | "so" | "dylib" | "a" | "lib" | "o" | "obj" | "rlib" | "rmeta" | "class" | "pyc" | "pyo"
            | "pyd" | "wasm" | "cwasm" | "bin" | "elf" | "pdb" | "node" | "beam"
            // archives
            | "zip" | "tar" | "gz" | "tgz" | "bz2" | "tbz2" | "xz" | "txz" | "zst" | "lz4" | "7z" | "rar" | "jar"
            | "war" | "ear" | "whl" | "egg" | "gem" | "crate" | "deb" | "rpm" | "apk" | "dmg" | "iso" | "cab" | "msi"
            // fonts
            | "ttf" | "otf" | "woff" | "woff2" | "eot"
            // media
            | "mp3" | "mp4" | "m4a" | "m4v" | "wav" | "flac" | "ogg" | "oga" | "ogv" | "opus" | "webm" | "mkv" | "mov"
            | "avi" | "wmv" | "aac"
            // documents
            | "pdf" | "doc" | "docx" | "xls" | "xlsx" | "ppt" | "pptx" | "odt" | "ods" | "odp" | "epub"
            // databases
            | "db" | "sqlite" | "sqlite3" | "mdb" | "ldb" | "rdb"
            // arrays and pickles
            | "npy" | "npz" | "pkl" | "pickle" | "parquet" | "arrow" | "feather" | "h5" | "hdf5" | "pt" | "pth"
            | "onnx" | "safetensors" | "mat"
    )
}

/// A tracked file that is not in view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenFile {
    pub path: String,
    pub rule: Rule,
}

/// Returns the tracked files that no Scout can see, in path order, with the rule that hides each. There are none
/// without a git index.
///
/// # Errors
/// The root cannot be opened.
pub fn hidden_files(root: &Path) -> Result<Vec<HiddenFile>, ViewError> {
    let view = RepoView::open(root, Profile::Scout)?;
    let Some(tree) = WorkTree::of(view.root()) else { return Ok(vec![]) };
    let tracked = tree.tracked();
    let found = tracked.paths().iter().filter_map(|path| {
        let is_text = std::str::from_utf8(path).is_ok();
        let path = String::from_utf8_lossy(path).into_owned();
        let rule = view.rule_of(&path, Some(Kind::File)).or_else(|| match is_text {
            true => by_content(&view, &path),
            false => Some(Rule::NotUtf8),
        })?;
        Some(HiddenFile { path, rule })
    });
    Ok(found.collect())
}

/// Returns the rule by which reading the file is refused. A missing file is not hidden.
fn by_content(view: &RepoView, path: &str) -> Option<Rule> {
    let slice = Slice { path: path.to_owned(), length: Some(1), ..Slice::default() };
    match read(view, &slice, None) {
        Err(ReadError::Binary { .. }) => Some(Rule::Binary),
        Err(ReadError::View(ViewError::Excluded { rule, .. })) => Some(rule),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
