//! A small image for the demo that needs no registry: a static busybox of this machine in a tar archive.
//!
//! The same program gives the same archive, so its digest is the tag under which an engine finds the image again. On a
//! machine without such a program the task pulls a public image.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// Pulled by the task when this machine has no static busybox.
pub(super) const FALLBACK: &str = "busybox:stable";

/// Largest program in bytes. A busybox has about 2 MB; a far larger file is another program.
const MAX_PROGRAM: u64 = 16 << 20;

/// Programs that shell scripts use.
const APPLETS: [&str; 34] = [
    "ash", "awk", "basename", "cat", "chmod", "cp", "cut", "date", "dirname", "echo", "env",
    "expr", "false", "find", "grep", "head", "id", "ls", "mkdir", "mv", "printf", "pwd", "rm",
    "sed", "sh", "sleep", "sort", "tail", "test", "touch", "tr", "true", "uname", "wc",
];

pub(super) struct LocalImage {
    pub(super) tag: String,
    pub(super) archive: Vec<u8>,
}

impl LocalImage {
    pub(super) const NAME: &str = "agent-command-tool/demo";

    pub(super) fn reference(&self) -> String {
        format!("{}:{}", Self::NAME, self.tag)
    }

    /// Builds the image from the first static busybox of this machine, if there is one.
    pub(super) fn find() -> Option<Self> {
        candidates(std::env::var_os("PATH").as_deref()).iter().find_map(|path| {
            let program = read(path)?;
            is_static_elf(&program).then(|| Self::of(&program).ok())?
        })
    }

    fn of(program: &[u8]) -> io::Result<Self> {
        let archive = archive(program)?;
        let digest = Sha256::digest(&archive);
        let tag = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { tag, archive })
    }
}

fn candidates(path: Option<&std::ffi::OsStr>) -> Vec<PathBuf> {
    let on_path = path.map(std::env::split_paths).into_iter().flatten();
    // The usual directories are first, because their files belong to the system.
    ["/bin", "/usr/bin", "/sbin", "/usr/sbin"]
        .into_iter()
        .map(PathBuf::from)
        .chain(on_path.filter(|directory| directory.is_absolute()))
        .flat_map(|directory| ["busybox", "busybox-static"].map(|name| directory.join(name)))
        .collect()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let about = std::fs::metadata(path).ok()?;
    (about.is_file() && about.len() <= MAX_PROGRAM).then(|| std::fs::read(path).ok())?
}

/// Returns whether the file is a little-endian ELF program, 32 or 64 bits, without an interpreter: it needs no libraries.
fn is_static_elf(program: &[u8]) -> bool {
    const PT_INTERP: u64 = 3;
    let (table, entry_size, entries) = match program.get(..6) {
        Some(b"\x7fELF\x02\x01") => {
            (number(program, 32, 8), number(program, 54, 2), number(program, 56, 2))
        }
        Some(b"\x7fELF\x01\x01") => {
            (number(program, 28, 4), number(program, 42, 2), number(program, 44, 2))
        }
        _ => return false,
    };
    let (Some(table), Some(size), Some(entries)) = (table, entry_size, entries) else {
        return false;
    };
    entries > 0
        && (0..entries).all(|entry| {
            let at = entry.checked_mul(size).and_then(|offset| table.checked_add(offset));
            let kind =
                at.and_then(|at| usize::try_from(at).ok()).and_then(|at| number(program, at, 4));
            kind.is_some_and(|kind| kind != PT_INTERP)
        })
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// A root file system with one program under many names. Times and owners are fixed.
fn archive(program: &[u8]) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(vec![]);
    let mut add = |path: &str, kind: EntryType, mode: u32, content: &[u8]| {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, path, content)
    };
    add("bin/", EntryType::Directory, 0o755, b"")?;
    add("bin/busybox", EntryType::Regular, 0o755, program)?;
    add("etc/", EntryType::Directory, 0o755, b"")?;
    add("etc/passwd", EntryType::Regular, 0o644, b"root:x:0:0:root:/root:/bin/sh\n")?;
    add("etc/group", EntryType::Regular, 0o644, b"root:x:0:\n")?;
    add("root/", EntryType::Directory, 0o700, b"")?;
    add("tmp/", EntryType::Directory, 0o1777, b"")?;
    for name in APPLETS {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        archive.append_link(&mut header, format!("bin/{name}"), "busybox")?;
    }
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a 64-bit program with segments of these kinds.
    fn elf(kinds: &[u32]) -> Vec<u8> {
        let mut program = vec![0; 64];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        program[32] = 64;
        program[54] = 56;
        program[56] = u8::try_from(kinds.len()).unwrap();
        for kind in kinds {
            let mut segment = vec![0; 56];
            segment[..4].copy_from_slice(&kind.to_le_bytes());
            program.extend(segment);
        }
        program
    }

    #[test]
    fn a_program_without_interpreter_is_static() {
        assert!(is_static_elf(&elf(&[1, 1, 4])));
        assert!(!is_static_elf(&elf(&[6, 3, 1])));
    }

    #[test]
    fn what_is_no_whole_program_is_not_taken() {
        assert!(!is_static_elf(b""));
        assert!(!is_static_elf(b"#!/bin/sh\n"));
        assert!(!is_static_elf(&elf(&[])));
        let cut = elf(&[1, 1]);
        assert!(!is_static_elf(&cut[..100]));
        let mut wild = elf(&[1]);
        wild[32..40].fill(0xff);
        assert!(!is_static_elf(&wild));
    }

    #[test]
    fn the_same_program_gets_the_same_tag() {
        let tag = |program: &[u8]| LocalImage::of(program).unwrap().tag;
        assert_eq!(tag(b"program"), tag(b"program"));
        assert_ne!(tag(b"program"), tag(b"another"));
        assert_eq!(tag(b"program").len(), 12);
    }

    #[test]
    fn the_archive_holds_the_program_under_the_names_of_its_applets() {
        let image = LocalImage::of(b"program").unwrap();
        let mut archive = tar::Archive::new(image.archive.as_slice());
        let mut found = std::collections::BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let link = entry.link_name().unwrap().map(|link| link.to_string_lossy().into_owned());
            found.insert(path, (entry.header().mode().unwrap(), link));
        }
        assert_eq!(found["bin/busybox"], (0o755, None));
        assert_eq!(found["bin/sh"], (0o777, Some("busybox".into())));
        assert_eq!(found["tmp/"].0, 0o1777);
    }

    #[test]
    fn only_absolute_directories_are_searched() {
        let found = candidates(Some(std::ffi::OsStr::new("/opt/x:relative:.")));
        assert!(found.contains(&PathBuf::from("/opt/x/busybox-static")));
        assert!(found.iter().all(|path| path.is_absolute()));
    }
}
