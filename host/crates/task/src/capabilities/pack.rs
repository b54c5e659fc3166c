//! `act components pack`: adds a manifest to a component that any toolchain built.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::capabilities::not_a_component;
use act_component::ManifestError;
use act_component::registry::read_component_file;
use act_core::{Document, Failure};
use act_fs::{Dir, Durability};
use act_workspace::digest;

pub(super) const MAX_MANIFEST: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Packed {
    pub file: String,
    pub sha256: String,
    pub bytes: u64,
}

impl Document for Packed {
    const NAME: &'static str = "components-pack";
}

/// Adds a manifest to a component, or replaces the one it has. `output` is another file to write instead of the
/// component itself.
///
/// # Errors
///
/// A file cannot be read or written, is not a component, or is not a manifest.
pub fn pack(file: &Path, manifest: &Path, output: Option<PathBuf>) -> Result<Packed, Failure> {
    let unreadable = |path: &Path, error: io::Error| {
        Failure::refused(
            "component_unreadable",
            format!("{} cannot be read: {error}", path.display()),
        )
        .hint("name a regular file")
    };
    let component = read_component_file(file).map_err(|error| unreadable(file, error))?;
    let manifest_text = read_component_file(manifest)
        .map_err(|error| unreadable(manifest, error))
        .and_then(|text| {
            let fits = text.len() as u64 <= MAX_MANIFEST;
            let large = || unreadable(manifest, io::ErrorKind::FileTooLarge.into());
            fits.then_some(text).ok_or_else(large)
        })?;
    let packed =
        act_component::pack_manifest(&component, &manifest_text).map_err(|error| match error {
            ManifestError::NotAComponent(_) => not_a_component(&file.display().to_string(), &error),
            _ => not_a_manifest(manifest, &error),
        })?;
    let to = output.unwrap_or_else(|| file.to_owned());
    replace(&to, &packed).map_err(|error| unwritable(&to, &error))?;
    Ok(Packed {
        file: to.display().to_string(),
        sha256: digest(&packed),
        bytes: packed.len() as u64,
    })
}

pub(super) fn not_a_manifest(manifest: &Path, error: &ManifestError) -> Failure {
    Failure::refused("manifest_wrong", format!("{}: {error}", manifest.display()))
        .hint("`act components new` writes a valid one; specs/capabilities.md describes its fields")
}

pub(super) fn unwritable(to: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", to.display());
    Failure::refused("component_unwritable", message)
        .hint("look at the directory and its mode, or name another file with --output")
}

/// Replaces the file, which other users may read as far as the umask allows it.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let dir = Dir::open_following(parent.unwrap_or(Path::new(".")))?;
    let mut staged = dir.stage_readable(&name.to_string_lossy())?;
    staged.write(bytes)?;
    staged.publish(name, Durability::Contents)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use act_component::Inspection;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_packed_component_is_published() {
        // EVENT-8
        schema::document_holds::<Packed>();
    }

    const MANIFEST: &str = r#"{"kind":"scout","name":"x","version":"1","about":"X.","needs":[]}"#;

    // CAPABILITY-22
    #[test]
    fn a_manifest_takes_the_place_of_the_one_before() {
        let temp = tempfile::tempdir().unwrap();
        let (file, manifest) = (temp.path().join("x.wasm"), temp.path().join("m.json"));
        fs::write(&file, b"\0asm\x0d\0\x01\0").unwrap();
        fs::write(&manifest, MANIFEST).unwrap();
        let first = pack(&file, &manifest, None).unwrap();
        fs::write(&manifest, MANIFEST.replace("\"1\"", "\"2\"")).unwrap();
        let second = pack(&file, &manifest, None).unwrap();
        assert_ne!(first.sha256, second.sha256);
        let read = Inspection::of(fs::read(&file).unwrap()).unwrap();
        assert_eq!((read.manifest.version.as_str(), read.sha256), ("2", second.sha256));
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 2, "nothing is left beside");
    }

    // CAPABILITY-22
    #[test]
    fn what_is_no_manifest_or_no_component_leaves_the_file_as_it_was() {
        let temp = tempfile::tempdir().unwrap();
        let (file, manifest) = (temp.path().join("x.wasm"), temp.path().join("m.json"));
        fs::write(&file, b"\0asm\x0d\0\x01\0").unwrap();
        fs::write(&manifest, MANIFEST.replace("needs", "wants")).unwrap();
        let refused = pack(&file, &manifest, None).unwrap_err();
        assert!(
            refused.code == "manifest_wrong" && refused.message.contains("m.json"),
            "{refused:?}"
        );
        assert_eq!(fs::read(&file).unwrap(), b"\0asm\x0d\0\x01\0");
        fs::write(&manifest, MANIFEST).unwrap();
        fs::write(&file, b"\0asm\x01\0\0\0").unwrap();
        assert!(pack(&file, &manifest, None).unwrap_err().message.contains("core module"));
        assert_eq!(fs::read(&file).unwrap(), b"\0asm\x01\0\0\0");
    }
}
