//! The cache of compiled components. The engine runs compiled code without any check, so a file is loaded only if this
//! user wrote it.
//!
//! The cache directory belongs to the caller alone and holds one file for each component and engine. A file begins with a
//! header: which component and engine it is for, and a checksum of the code. It is read once, through a handle that follows
//! no link, and the bytes that were verified are loaded. A component is compiled again if anything is wrong with its file.
//!
//! The checksum finds damage. A cryptographic one would protect against nobody more: a process that can write the file can write
//! the header as well. XXH3 takes a fifth of the time of SHA-256, which was a sixth of the processor time before a task's first
//! request.
//!
//! On Linux the code is read into a file in memory that is sealed, so that nobody can change it any more, and the engine maps
//! that file. From a buffer the engine would copy it once more, which took a quarter of the processor time before a task's
//! first request.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::Read;
#[cfg(target_os = "linux")]
use std::io::{ErrorKind, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
#[cfg(target_os = "linux")]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use act_fs::{Dir, Durability, READ, Sha256, check_private, read_bounded, regular};
use rustix::fs::Mode;
#[cfg(target_os = "linux")]
use rustix::fs::{MemfdFlags, SealFlags};
use sha2::Digest;
use twox_hash::XxHash3_128;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::builtin::Builtin;
use crate::engine::Engines;

/// The first bytes of every file. The number is raised when the layout of the header changes.
const MAGIC: &[u8; 8] = b"actcode2";
/// Bytes of the checksum.
const CHECKSUM: usize = 16;
/// Maximum size of a file. Compiled code is a few times as large as its component, which has at most 64 MiB.
const MAX_FILE: u64 = 1 << 30;
/// Maximum number of files. The oldest are removed first.
const MAX_FILES: usize = 64;
const SUFFIX: &str = ".cwasm";
/// Bytes of code that are read at a time: few enough to stay in a processor's cache between reading, checksum and copy.
#[cfg(target_os = "linux")]
const PART: usize = 128 << 10;

pub(super) struct Cache {
    dir: PathBuf,
    name: String,
    /// Digest of the component and the engine, which the header must hold.
    identity: [u8; 32],
}

impl Cache {
    pub(super) fn new(dir: &Path, engine: &Engine, component: &str) -> Self {
        // Engines with the same hash can load each other's code. The engine checks that itself too.
        let mut hasher = StableHasher::default();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let engine = Sha256::from(hasher.0);
        let identity = sha2::Sha256::new()
            .chain_update(component)
            .chain_update(engine.as_bytes())
            .chain_update(env!("CARGO_PKG_VERSION"));
        let engine = &engine.to_string()[..16];
        Self {
            dir: dir.to_owned(),
            name: format!("{component}-{engine}{SUFFIX}"),
            identity: *Sha256::from(identity).as_bytes(),
        }
    }

    /// Loads the compiled component; `None` if there is no undamaged file for it.
    pub(super) fn load(&self, engines: &Engines) -> Option<Component> {
        let dir = open_private_dir(&self.dir).ok()?;
        let mut file = open_private_file(&dir, &self.name).ok()?;
        let mut header = [0; MAGIC.len() + 32 + CHECKSUM];
        file.read_exact(&mut header).ok()?;
        let checksum = header.strip_prefix(MAGIC)?.strip_prefix(&self.identity)?;
        let code = VerifiedCode::read(&mut file, checksum).ok()??;
        engines.load(|engine| code.deserialize(engine)).ok()
    }

    /// Stores the code atomically.
    ///
    /// # Errors
    ///
    /// The error of the system if the directory or the file cannot be written.
    pub(super) fn store(&self, code: &[u8]) -> std::io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let dir = open_private_dir(&self.dir)?;
        let mut staged = dir.stage(&self.name)?;
        for part in [MAGIC.as_slice(), &self.identity, &checksum(code), code] {
            staged.write(part)?;
        }
        staged.publish(&*self.name, Durability::Unsynced)?;
        remove_oldest(&dir, &self.name)
    }
}

fn checksum(code: &[u8]) -> [u8; CHECKSUM] {
    XxHash3_128::oneshot(code).to_be_bytes()
}

/// Code that has the checksum in the header of its file.
enum VerifiedCode {
    Buffer(Vec<u8>),
    /// The path of a sealed file in memory, which exists as long as its handle is open.
    #[cfg(target_os = "linux")]
    Sealed(String, #[expect(dead_code, reason = "held open")] File),
}

impl VerifiedCode {
    /// Reads the rest of a file. Returns `None` if it does not have this checksum.
    fn read(file: &mut File, expected: &[u8]) -> std::io::Result<Option<Self>> {
        #[cfg(target_os = "linux")]
        if let Some((path, mut copy)) = file_in_memory() {
            let mut sum = XxHash3_128::new();
            let (mut part, mut left) = (vec![0; PART], MAX_FILE);
            loop {
                let count = file.read(&mut part)?;
                let Some(bytes) = part.get(..count).filter(|bytes| !bytes.is_empty()) else {
                    break;
                };
                left = left.checked_sub(count as u64).ok_or(ErrorKind::FileTooLarge)?;
                sum.write(bytes);
                copy.write_all(bytes)?;
            }
            let sealed = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
            rustix::fs::fcntl_add_seals(&copy, sealed)?;
            let is_whole = sum.finish_128().to_be_bytes() == expected;
            return Ok(is_whole.then_some(Self::Sealed(path, copy)));
        }
        let code = read_bounded(file, MAX_FILE)?;
        let is_whole = checksum(&code) == expected;
        Ok(is_whole.then_some(Self::Buffer(code)))
    }

    fn deserialize(&self, engine: &Engine) -> wasmtime::Result<Component> {
        match self {
            Self::Buffer(code) => deserialize(engine, code),
            #[cfg(target_os = "linux")]
            Self::Sealed(path, _) => {
                #[expect(unsafe_code, reason = "as in `deserialize`")]
                // SAFETY: as in `deserialize`. The file is sealed, so the bytes that were verified are those that are mapped.
                unsafe {
                    Component::deserialize_file(engine, path)
                }
            }
        }
    }
}

/// Returns an empty file in memory with its path. `None` where the system has none or does not show its path.
#[cfg(target_os = "linux")]
fn file_in_memory() -> Option<(String, File)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create("compiled component", flags).ok()?);
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let (own, shown) = (file.metadata().ok()?, std::fs::metadata(&path).ok()?);
    ((own.dev(), own.ino()) == (shown.dev(), shown.ino())).then_some((path, file))
}

/// Loads code that this program has compiled: in this process, in the one with limits (`confined`), or earlier, as the cache
/// has it.
pub(super) fn deserialize(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    #[expect(
        unsafe_code,
        reason = "the engine trusts compiled code; these bytes come from this program, or from a directory and a file \
                  that only this user can write, where they were compared with the checksum recorded when we made them"
    )]
    // SAFETY: `code` was made by this program's engine, in a process that executes the same file. The checksum finds damage; it
    // does not protect against a process of the same user, which can replace this program as well.
    unsafe {
        Component::deserialize(engine, code)
    }
}

/// The cache directory, `$XDG_CACHE_HOME/agent-command-tool/components` or else
/// `~/.cache/agent-command-tool/components`. It has the name of the package, because another program called `act` stores
/// compiled components in `act/`.
pub fn cache_dir() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("agent-command-tool").join("components"))
}

/// The state of the cache directory, for `act doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    /// The directory does not exist. It is created when it is needed.
    Absent,
    Usable {
        entries: usize,
        mode: u32,
    },
    /// Other users can read or write the directory, or it cannot be opened. Nothing is loaded from it.
    Unusable,
}

pub fn cache_state(dir: &Path) -> CacheState {
    let usable = |dir: &Dir| -> std::io::Result<CacheState> {
        let mode = rustix::fs::fstat(dir)?.st_mode & 0o7777;
        let names = dir.names(usize::MAX)?;
        let compiled = names.iter().filter(|name| name.to_bytes().ends_with(SUFFIX.as_bytes()));
        Ok(CacheState::Usable { entries: compiled.count(), mode })
    };
    match open_private_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => CacheState::Absent,
        Err(_) => CacheState::Unusable,
        Ok(dir) => usable(&dir).unwrap_or(CacheState::Unusable),
    }
}

/// Opens the directory without following a link, and only if other users can neither write nor list it.
fn open_private_dir(path: &Path) -> std::io::Result<Dir> {
    let dir = Dir::open(path)?;
    check_private(&dir)?;
    Ok(dir)
}

fn open_private_file(dir: &Dir, name: &str) -> std::io::Result<File> {
    let file = regular(rustix::fs::openat(dir, name, READ, Mode::empty())?.into())?;
    check_private(&file)?;
    Ok(file)
}

/// Removes the oldest files beyond the maximum. Temporary files of killed processes count too.
fn remove_oldest(dir: &Dir, newest: &str) -> std::io::Result<()> {
    let mut files = vec![];
    for name in dir.names(usize::MAX)? {
        let Ok(name) = name.into_string() else { continue };
        if name.contains(SUFFIX) && name != newest {
            files.push((dir.stat(&*name)?.st_mtime, name));
        }
    }
    files.sort_unstable();
    let too_many = (files.len() + 1).saturating_sub(MAX_FILES);
    for (_, name) in files.into_iter().take(too_many) {
        dir.remove_file(&*name)?;
    }
    Ok(())
}

type Loading = JoinHandle<Option<Component>>;

/// Threads that load the compiled code of built-in components while a task is prepared.
///
/// No code of a component runs here, and admission is decided and recorded later, when the component is loaded. The threads
/// are listed by the digest of the component, and clones share the list.
#[derive(Clone, Default)]
pub(super) struct ReadAhead(Arc<Mutex<HashMap<&'static str, Loading>>>);

impl ReadAhead {
    /// Starts a thread that loads one component from the cache.
    pub(super) fn begin(&self, engines: &Engines, dir: &Path, builtin: Builtin) {
        let Ok(engine) = engines.any() else { return };
        let (cache, engines) = (Cache::new(dir, engine, builtin.sha256), engines.clone());
        let loading =
            Builder::new().name("read-ahead".to_owned()).spawn(move || cache.load(&engines));
        if let Ok(loading) = loading {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(builtin.sha256, loading);
        }
    }

    /// Waits for the thread of this component. `None` if there is no thread or the cache does not hold the code.
    pub(super) fn take(&self, sha256: &str) -> Option<Component> {
        let loading = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(sha256)?;
        loading.join().ok()?
    }
}

/// Hashes with SHA-256. The engine describes itself only through [`Hash`], and the standard library may change the
/// algorithm of its own hasher, while these hashes are part of file names.
#[derive(Default)]
struct StableHasher(sha2::Sha256);

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest: [u8; 32] = self.0.clone().finalize().into();
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::FileType;

    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
    /// Another component: one with a custom section.
    const OTHER: &[u8] = b"\0asm\x0d\0\x01\0\0\x02\x01x";

    struct Fixture {
        _temp: tempfile::TempDir,
        engines: Engines,
        cache: Cache,
        path: PathBuf,
    }

    fn code(engines: &Engines, component: &[u8]) -> Vec<u8> {
        engines.any().unwrap().precompile_component(component).unwrap()
    }

    fn fixture() -> Fixture {
        let temp = tempfile::tempdir().unwrap();
        let engines = Engines::new().unwrap();
        let dir = temp.path().join("code");
        let cache = Cache::new(&dir, engines.any().unwrap(), "aa");
        cache.store(&code(&engines, COMPONENT)).unwrap();
        assert!(cache.load(&engines).is_some());
        let path = dir.join(&cache.name);
        Fixture { _temp: temp, engines, cache, path }
    }

    #[test]
    fn code_is_kept_for_the_owner_alone() {
        let fixture = fixture();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(fixture.path.parent().unwrap()), 0o700);
        assert_eq!(mode(&fixture.path), 0o600);
    }

    // security line 43
    #[test]
    fn a_flipped_byte_anywhere_is_found() {
        let fixture = fixture();
        let whole = std::fs::read(&fixture.path).unwrap();
        for at in [0, 8, 40, 72, whole.len() / 2, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&fixture.path, bytes).unwrap();
            assert!(fixture.cache.load(&fixture.engines).is_none(), "byte {at}");
        }
        std::fs::write(&fixture.path, &whole[..whole.len() - 1]).unwrap();
        assert!(fixture.cache.load(&fixture.engines).is_none());
        std::fs::write(&fixture.path, &whole).unwrap();
        assert!(fixture.cache.load(&fixture.engines).is_some());
    }

    // security line 43
    #[test]
    fn the_valid_code_of_another_component_is_not_taken() {
        let fixture = fixture();
        let engine = fixture.engines.any().unwrap();
        let other = Cache::new(fixture.path.parent().unwrap(), engine, "bb");
        other.store(&code(&fixture.engines, OTHER)).unwrap();
        std::fs::copy(fixture.path.with_file_name(&other.name), &fixture.path).unwrap();
        assert!(fixture.cache.load(&fixture.engines).is_none());
    }

    // security line 43
    #[test]
    fn a_link_is_never_followed_and_gives_way_to_a_file() {
        let fixture = fixture();
        let elsewhere = fixture.path.with_file_name("elsewhere");
        std::fs::rename(&fixture.path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &fixture.path).unwrap();
        assert!(fixture.cache.load(&fixture.engines).is_none());
        let before = std::fs::read(&elsewhere).unwrap();
        fixture.cache.store(b"new").unwrap();
        assert!(std::fs::symlink_metadata(&fixture.path).unwrap().is_file());
        assert_eq!(std::fs::read(&elsewhere).unwrap(), before);
    }

    #[test]
    fn what_others_could_have_written_is_not_taken() {
        let fixture = fixture();
        let dir = fixture.path.parent().unwrap();
        for (path, mode, back) in [(fixture.path.as_path(), 0o620, 0o600), (dir, 0o770, 0o700)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(fixture.cache.load(&fixture.engines).is_none());
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(back)).unwrap();
            assert!(fixture.cache.load(&fixture.engines).is_some());
        }
    }

    #[test]
    fn a_fifo_in_the_place_of_a_file_does_not_hang() {
        let fixture = fixture();
        std::fs::remove_file(&fixture.path).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fixture.path, FileType::Fifo, mode, 0).unwrap();
        assert!(fixture.cache.load(&fixture.engines).is_none());
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let fixture = fixture();
        let dir = fixture.path.parent().unwrap();
        for i in 0..MAX_FILES + 3 {
            let engine = fixture.engines.any().unwrap();
            Cache::new(dir, engine, &format!("{i:04}")).store(b"code").unwrap();
        }
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), MAX_FILES);
    }

    const TINY: Builtin = Builtin { name: "tiny", bytes: b"\0asm\x0d\0\x01\0", sha256: "aa" };

    #[test]
    fn what_was_begun_is_taken_once_and_only_if_the_cache_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, engines) = (dir.path().join("code"), Engines::new().unwrap());
        let ahead = ReadAhead::default();
        assert!(ahead.take(TINY.sha256).is_none());
        ahead.begin(&engines, &cache, TINY);
        assert!(ahead.take(TINY.sha256).is_none());

        let code = code(&engines, TINY.bytes);
        Cache::new(&cache, engines.any().unwrap(), TINY.sha256).store(&code).unwrap();
        ahead.begin(&engines, &cache, TINY);
        assert!(ahead.clone().take(TINY.sha256).is_some());
        assert!(ahead.take(TINY.sha256).is_none());
    }
}
