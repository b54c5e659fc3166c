//! The downloads of tools, which the runs of one repository in one image share: `cache/IMAGE/REPO`.
//!
//! No run writes into it. A run has a layer of its own above it, and only the downloads of an accepted run are taken over
//! ([`Cache::accept`]): build results could make a later verification pass wrongly, and so could what a red run left. A
//! file of the cache is replaced and never changed, so that a base may share it by a hard link. On the machine of a remote engine only a container can remove them: [`tidying_script`] does there what
//! [`Cache::accept`] does here. It needs a POSIX shell, `find`, `grep`, `rm` and `chown` in the image and fails without them.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use act_fs::lock::{self, Kind};
use act_fs::{Dir, Entry, Walk};
use act_workspace::{bare_digest, digest};
use rustix::fs::{AtFlags, FileType, fgetxattr, linkat, readlinkat, statat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::artifact_dir::ArtifactDir;
use super::bases::BASES;
use super::run_dir::safe_name;
use super::tree::{MAX_DEPTH, remove_tree};

/// Maximum number of bytes of Maven's record.
const MAX_RECORD: u64 = 64 * 1024;
/// Maven's record of where the files of a directory came from.
const REMOTE: &str = "_remote.repositories";

/// The cache of one repository in one image. It does not change while the value exists, except by the value itself.
#[derive(Debug)]
pub struct Cache {
    path: PathBuf,
    handle: Dir,
}

/// Maximum wait for a run whose downloads are being taken over, which takes milliseconds.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The size of a cache, as `act cache` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSize {
    pub image: String,
    pub repo: String,
    pub bytes: u64,
    pub files: u64,
}

impl ArtifactDir {
    /// Opens the cache of a repository in an image for reading. Any number of runs may have it.
    ///
    /// # Errors
    /// The kind is `WouldBlock` if the downloads of another run are being taken over for too long.
    pub fn cache_of(&self, image_digest: &str, repo: &Path) -> io::Result<Cache> {
        let name = repo_name(repo);
        let image = self.cache.private_subdirectory(&*image_name(image_digest))?;
        let handle = image.private_subdirectory(&*name)?;
        if !lock::wait(&handle, Kind::Shared, LONGEST_WAIT)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let path = self.path().join("cache").join(image_name(image_digest)).join(name);
        Ok(Cache { path, handle })
    }

    /// Returns the sizes of all caches, sorted by image and repository.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn cache_sizes(&self) -> io::Result<Vec<CacheSize>> {
        let mut found = vec![];
        self.each_cache(|image, repo, cache| {
            let (bytes, files) = size_of(cache)?;
            found.push(CacheSize { image: image.to_owned(), repo: repo.to_owned(), bytes, files });
            Ok(())
        })?;
        found.sort_by(|a, b| (&a.image, &a.repo).cmp(&(&b.image, &b.repo)));
        Ok(found)
    }

    /// Removes all caches that no run holds. Returns the removed ones and the number of those in use.
    ///
    /// # Errors
    /// A directory cannot be read or removed.
    pub fn clear_caches(&self) -> io::Result<(Vec<CacheSize>, usize)> {
        let (mut cleared, mut busy) = (vec![], 0);
        self.each_cache(|image, repo, cache| {
            if !lock::try_lock(cache, Kind::Exclusive)? {
                busy += 1;
                return Ok(());
            }
            let (bytes, files) = size_of(cache)?;
            remove_tree(self.cache.private_subdirectory(image)?, repo)?;
            let (image, repo) = (image.to_owned(), repo.to_owned());
            cleared.push(CacheSize { image, repo, bytes, files });
            Ok(())
        })?;
        for image in directories(&self.cache)?.into_iter().filter(|name| name != BASES) {
            self.forget_image(&image)?;
        }
        Ok((cleared, busy))
    }

    fn each_cache(
        &self,
        mut with: impl FnMut(&str, &str, &Dir) -> io::Result<()>,
    ) -> io::Result<()> {
        for image in directories(&self.cache)?.into_iter().filter(|name| name != BASES) {
            let inside = self.cache.subdirectory(image.as_str())?;
            for repo in directories(&inside)? {
                with(&image, &repo, &inside.subdirectory(repo.as_str())?)?;
            }
        }
        Ok(())
    }
}

impl Cache {
    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes over the downloads in the layer of a run that was accepted, and nothing else. Deletions are not taken over.
    /// Returns false, without a change, while another run uses the cache. The layer must have been [swept](super::sweep);
    /// it shares its files with the cache afterwards.
    ///
    /// # Errors
    /// A directory cannot be read or changed.
    pub fn accept(self, layer: &Dir) -> io::Result<bool> {
        if !lock::try_lock(&self.handle, Kind::Exclusive)? {
            return Ok(false);
        }
        take_downloads(layer, &self.handle, &mut vec![])?;
        Ok(true)
    }

    /// Adds the files of the cache to the layer of a run that had the cache below it, so that the layer holds what the run
    /// saw. Whiteouts are removed.
    ///
    /// # Errors
    /// A directory cannot be read or changed.
    pub fn complete(&self, layer: &Dir) -> io::Result<()> {
        add_below(&self.handle, layer)
    }

    /// Copies the cache into an empty directory, for a run that can have no layer above it. Returns false, without a copy,
    /// for a cache of more than [`MOST_COPIED`] bytes.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn copy(&self, into: &Dir) -> io::Result<bool> {
        if size_of(&self.handle)?.0 > MOST_COPIED {
            return Ok(false);
        }
        copy_below(&self.handle, into)?;
        Ok(true)
    }
}

/// Maximum number of bytes that are copied for one run: some seconds of a disk. Beyond it a download is not slower.
const MOST_COPIED: u64 = 1 << 30;

/// Links what [`KEPT`] names from a layer into the cache. It descends as deep as those paths and no deeper.
fn take_downloads(layer: &Dir, cache: &Dir, path: &mut Vec<String>) -> io::Result<()> {
    for (name, kind) in entries(layer)? {
        path.push(name.to_string_lossy().into_owned());
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        let is_maven = parts.first() == Some(&"maven");
        match retained(&parts) {
            Keep::All if is_maven && kind == FileType::Directory => {
                take_remote(&layer.subdirectory(&*name)?, &directory_in(cache, &name)?)?;
            }
            Keep::All if is_maven => {}
            Keep::All => take_entry(layer, cache, &name, kind)?,
            Keep::Inside if kind == FileType::Directory => {
                take_downloads(&layer.subdirectory(&*name)?, &directory_in(cache, &name)?, path)?;
            }
            Keep::Inside | Keep::Nothing => {}
        }
        path.pop();
    }
    Ok(())
}

/// Links the files of Maven's repository, in directories whose record says that all files were downloaded.
fn take_remote(layer: &Dir, cache: &Dir) -> io::Result<()> {
    // A record that is too large counts as none, so its files are left out.
    let record = layer.read(REMOTE, MAX_RECORD).ok();
    let record = record.and_then(|record| String::from_utf8(record).ok());
    let remote = record.is_some_and(|record| all_downloaded(&record));
    for (name, kind) in entries(layer)? {
        if kind == FileType::Directory {
            take_remote(&layer.subdirectory(&*name)?, &directory_in(cache, &name)?)?;
        } else if remote {
            take_entry(layer, cache, &name, kind)?;
        }
    }
    Ok(())
}

/// Links an entry with everything below it. The sweep of the layer has bounded the depth.
fn take_entry(layer: &Dir, cache: &Dir, name: &CStr, kind: FileType) -> io::Result<()> {
    match kind {
        FileType::Directory => {
            let (from, to) = (layer.subdirectory(name)?, directory_in(cache, name)?);
            for (name, kind) in entries(&from)? {
                take_entry(&from, &to, &name, kind)?;
            }
            Ok(())
        }
        FileType::RegularFile | FileType::Symlink => link_over(layer, cache, name),
        // A whiteout, or nothing that a download is.
        _ => Ok(()),
    }
}

/// Opens the directory of that name, and puts one in the place of anything else.
fn directory_in(parent: &Dir, name: &CStr) -> io::Result<Dir> {
    match parent.stat(name) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
            parent.remove_file(name)?;
        }
        _ => {}
    }
    parent.private_subdirectory(name)
}

/// Gives a file a second name in another directory, in the place of what has the name there.
fn link_over(from: &Dir, to: &Dir, name: &CStr) -> io::Result<()> {
    const LINKING: &CStr = c".act-linking";
    if to.stat(name).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    {
        remove_tree(to, &name.to_string_lossy())?;
    }
    match linkat(from, name, to, LINKING, AtFlags::empty()) {
        Err(Errno::EXIST) => {
            to.remove_file(LINKING)?;
            linkat(from, name, to, LINKING, AtFlags::empty())?;
        }
        linked => linked?,
    }
    to.rename(LINKING, name)?;
    // A rename between two names of one file leaves both.
    match unlinkat(to, LINKING, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Links every file of `lower` that `layer` neither has nor hides, and removes the whiteouts of `layer`.
pub(super) fn add_below(lower: &Dir, layer: &Dir) -> io::Result<()> {
    let mut there = HashMap::new();
    for (name, kind) in entries(layer)? {
        if kind == FileType::CharacterDevice {
            layer.remove_file(&*name)?;
        }
        there.insert(name, kind);
    }
    for (name, kind) in entries(lower)? {
        match (kind, there.get(&name)) {
            (FileType::Directory, None) => {
                add_below(&lower.subdirectory(&*name)?, &layer.create_subdirectory(&*name)?)?;
            }
            (FileType::Directory, Some(FileType::Directory)) => {
                let inside = layer.subdirectory(&*name)?;
                if !is_opaque(&inside) {
                    add_below(&lower.subdirectory(&*name)?, &inside)?;
                }
            }
            (FileType::RegularFile | FileType::Symlink, None) => {
                linkat(lower, &*name, layer, &*name, AtFlags::empty())?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a directory of an upper layer hides that of the lower layer.
fn is_opaque(directory: &Dir) -> bool {
    let mut value = [0_u8; 1];
    fgetxattr(directory, "user.overlay.opaque", &mut value[..]).is_ok() && value == *b"y"
}

fn copy_below(from: &Dir, to: &Dir) -> io::Result<()> {
    for (name, kind) in entries(from)? {
        match kind {
            FileType::Directory => {
                copy_below(&from.subdirectory(&*name)?, &to.create_subdirectory(&*name)?)?;
            }
            FileType::RegularFile => {
                let mut original = from.file(&*name)?;
                let mut copy = to.create(&*name)?;
                io::copy(&mut original, &mut copy)?;
                let original = original.metadata()?;
                copy.set_permissions(original.permissions())?;
                copy.set_modified(original.modified()?)?;
            }
            FileType::Symlink => {
                let target = readlinkat(from, &*name, vec![])?;
                symlinkat(&*target, to, &*name)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn entries(directory: &Dir) -> io::Result<Vec<(CString, FileType)>> {
    let mut found = vec![];
    for name in directory.names(usize::MAX)? {
        let stat = directory.stat(&*name)?;
        found.push((name, FileType::from_raw_mode(stat.st_mode)));
    }
    Ok(found)
}

pub(super) fn directories(parent: &Dir) -> io::Result<Vec<String>> {
    let found = entries(parent)?.into_iter();
    let directories = found.filter(|(_, kind)| *kind == FileType::Directory);
    Ok(directories.filter_map(|(name, _)| name.into_string().ok()).collect())
}

/// Returns the number of bytes and files. It opens directories only.
pub(super) fn size_of(directory: &Dir) -> io::Result<(u64, u64)> {
    let (mut bytes, mut files) = (0, 0);
    let mut names = Walk::new(directory.try_clone()?.into())?;
    while let Some(Entry { name, .. }) = names.next_entry()? {
        // A run may be using the cache.
        let Ok(stat) = statat(names.here(), &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            bytes += u64::try_from(stat.st_size).unwrap_or(0);
            files += 1;
        } else if names.depth() < MAX_DEPTH
            && let Ok(inside) = names.open(&name)
        {
            names.enter(&name, inside)?;
        }
    }
    Ok((bytes, files))
}

/// Returns the names of the directories of a cache: by image and by repository.
pub fn cache_names(image_digest: &str, repo: &Path) -> (String, String) {
    (image_name(image_digest), repo_name(repo))
}

pub(super) fn image_name(digest: &str) -> String {
    safe_name(bare_digest(digest))
}

/// Returns the name of the repository's directory, for people, with a digest of its path, which makes it unique.
fn repo_name(repo: &Path) -> String {
    let name = repo.file_name().map(|name| name.to_string_lossy().into_owned());
    let digest = digest(repo.as_os_str().as_encoded_bytes());
    format!("{}-{}", safe_name(&name.unwrap_or_default()), &digest[..12])
}

/// Paths below the cache that stay with everything below them. A `*` matches the rest of a name.
pub(super) const KEPT: [&str; 14] = [
    "pip/http*",
    "npm/_cacache",
    "pnpm/*",
    "yarn/*",
    "uv/simple-*",
    "uv/wheels-*",
    "uv/archive-*",
    "cargo/registry/index",
    // Not `src`: cargo does not verify sources that are already unpacked.
    "cargo/registry/cache",
    "cargo/git/db",
    "go-mod/cache/download",
    "gradle/caches/modules-*",
    "gradle/wrapper/dists",
    "maven/*",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    All,
    /// A directory above a path that stays.
    Inside,
    Nothing,
}

pub(super) fn retained(path: &[&str]) -> Keep {
    let mut best = Keep::Nothing;
    for kept in KEPT {
        let mut parts = kept.split('/');
        if !path.iter().all(|part| parts.next().is_none_or(|kept| fits(part, kept))) {
            continue;
        }
        if path.len() >= kept.split('/').count() {
            return Keep::All;
        }
        best = Keep::Inside;
    }
    best
}

fn fits(part: &str, kept: &str) -> bool {
    kept.strip_suffix('*').map_or(part == kept, |start| part.starts_with(start))
}

/// Returns whether Maven's record of a directory says that all its files were downloaded. A file of `mvn install` has no
/// repository after the `>`.
pub(super) fn all_downloaded(remote_repositories: &str) -> bool {
    let mut entries = remote_repositories
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .peekable();
    entries.peek().is_some()
        && entries.all(|line| {
            line.split_once('>')
                .is_some_and(|(_, from)| !from.trim_end_matches('=').trim().is_empty())
        })
}

/// Returns a script that removes everything but downloads below `root` and gives the rest to the user and group `ids`.
pub fn tidying_script(root: &str, (uid, gid): (u32, u32)) -> String {
    let mut above: Vec<&str> =
        KEPT.iter().flat_map(|kept| kept.match_indices('/').map(|(at, _)| &kept[..at])).collect();
    above.sort_unstable();
    above.dedup();
    let (kept, above) = (KEPT.join("|"), above.join("|"));
    format!(
        r#"set -eu
tidy() {{
  for x in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$x" ] || [ -L "$x" ] || continue
    case ${{x#"{root}/"}} in
      {kept}) ;;
      {above}) if [ -d "$x" ] && [ ! -L "$x" ]; then tidy "$x"; else rm -rf "$x"; fi ;;
      *) rm -rf "$x" ;;
    esac
  done
}}
tidy "{root}"
if [ -L "{root}/maven" ]; then rm -f "{root}/maven"; fi
if [ -d "{root}/maven" ]; then
  find "{root}/maven" -type d -exec /bin/sh -euc '
    entries() {{ grep -v "^[[:space:]]*#" "$1" | grep "[^[:space:]]"; }}
    for d; do
      r=$d/_remote.repositories
      if [ -f "$r" ] && [ ! -L "$r" ] && entries "$r" | grep -q ">" &&
        ! entries "$r" | grep -qv ">.*[^=[:space:]]"; then continue; fi
      for x in "$d"/* "$d"/.[!.]* "$d"/..?*; do
        if [ -L "$x" ] || {{ [ -e "$x" ] && [ ! -d "$x" ]; }}; then rm -f "$x"; fi
      done
    done' sh {{}} +
fi
find "{root}" ! -user {uid} -exec chown -h {uid}:{gid} {{}} +
"#
    )
}

#[cfg(test)]
mod cache_tests {
    use super::*;

    fn artifacts() -> (tempfile::TempDir, ArtifactDir) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("repo")).unwrap();
        let artifacts = ArtifactDir::open(&dir.path().join("a"), &dir.path().join("repo")).unwrap();
        (dir, artifacts)
    }

    // ARTIFACT-10
    #[test]
    fn a_cache_belongs_to_one_repository_in_one_image() {
        let (_dir, artifacts) = artifacts();
        let path = |image: &str, repo: &str| {
            artifacts.cache_of(image, Path::new(repo)).unwrap().path().to_owned()
        };
        let first = path("sha256:aa", "/x/app");
        assert_eq!(first, path("sha256:aa", "/x/app"));
        assert_ne!(first, path("sha256:aa", "/y/app"));
        assert_ne!(first, path("sha256:bb", "/x/app"));
    }

    fn write(at: &Path, files: &[&str]) {
        for file in files {
            let file = at.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "new").unwrap();
        }
    }

    // ARTIFACT-10
    #[test]
    fn only_the_downloads_of_an_accepted_run_are_taken_over() {
        let (dir, artifacts) = artifacts();
        let layer = dir.path().join("layer");
        write(
            &layer,
            &[
                "npm/_cacache/x",
                "npm/_logs/x",
                "pip/wheels/x",
                "go-build/00/x",
                "cargo/registry/cache/x",
                "cargo/bin/tool",
                "maven/org/a/1/a.jar",
                "maven/my/app/1/app.jar",
                "stray",
            ],
        );
        std::fs::write(layer.join("maven/org/a/1").join(REMOTE), "a.jar>central=").unwrap();
        std::fs::write(layer.join("maven/my/app/1").join(REMOTE), "app.jar>=").unwrap();
        let cache = || artifacts.cache_of("sha256:aa", Path::new("/x/app")).unwrap();
        let path = cache().path().to_owned();
        write(&path, &["npm/_cacache/old"]);
        std::fs::write(path.join("npm/_cacache/x"), "old").unwrap();
        let linked = dir.path().join("a base has this file too");
        std::fs::hard_link(path.join("npm/_cacache/x"), &linked).unwrap();

        let other = cache();
        assert!(!cache().accept(&Dir::open(&layer).unwrap()).unwrap(), "another run uses it");
        drop(other);
        assert!(cache().accept(&Dir::open(&layer).unwrap()).unwrap());

        for kept in ["npm/_cacache/x", "cargo/registry/cache/x", "maven/org/a/1/a.jar"] {
            assert_eq!(std::fs::read(path.join(kept)).unwrap(), b"new", "{kept}");
        }
        assert_eq!(std::fs::read(path.join("npm/_cacache/old")).unwrap(), b"new");
        assert_eq!(std::fs::read(linked).unwrap(), b"old", "a file is replaced, never changed");
        for gone in ["npm/_logs", "pip/wheels", "go-build", "cargo/bin", "stray"] {
            assert!(!path.join(gone).exists(), "{gone}");
        }
        assert!(!path.join("maven/my/app/1/app.jar").exists());
        assert!(cache().accept(&Dir::open(&layer).unwrap()).unwrap(), "the same files again");
        assert!(!path.join("npm/_cacache/.act-linking").exists());
    }

    // ARTIFACT-10, ARTIFACT-22
    #[test]
    fn a_layer_is_completed_by_what_was_below_it() {
        let (dir, artifacts) = artifacts();
        let cache = artifacts.cache_of("sha256:aa", Path::new("/x/app")).unwrap();
        write(cache.path(), &["npm/_cacache/a", "npm/_cacache/b", "pip/http/x"]);
        let layer = dir.path().join("layer");
        write(&layer, &["npm/made", "go-build/x"]);
        std::fs::create_dir(layer.join("npm/_cacache")).unwrap();
        std::fs::write(layer.join("npm/_cacache/b"), "changed").unwrap();
        cache.complete(&Dir::open(&layer).unwrap()).unwrap();
        let text = |path: &str| std::fs::read_to_string(layer.join(path)).unwrap();
        assert_eq!((text("npm/_cacache/a"), text("pip/http/x")), ("new".into(), "new".into()));
        assert_eq!((text("npm/_cacache/b"), text("npm/made")), ("changed".into(), "new".into()));

        let copy = dir.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        assert!(cache.copy(&Dir::open(&copy).unwrap()).unwrap());
        assert_eq!(std::fs::read(copy.join("pip/http/x")).unwrap(), b"new");
    }

    #[test]
    fn caches_are_shown_with_their_size_and_cleared_unless_a_run_holds_them() {
        let (_dir, artifacts) = artifacts();
        for repo in ["/x/one", "/x/two"] {
            let cache = artifacts.cache_of("sha256:aa", Path::new(repo)).unwrap();
            std::fs::write(cache.path().join("file"), "12345").unwrap();
        }
        let shown = artifacts.cache_sizes().unwrap();
        assert_eq!(shown.len(), 2);
        assert_eq!((shown[0].image.as_str(), shown[0].bytes, shown[0].files), ("aa", 5, 1));
        assert!(shown[0].repo.starts_with("one-"));
        let held = artifacts.cache_of("sha256:aa", Path::new("/x/two")).unwrap();
        let (cleared, busy) = artifacts.clear_caches().unwrap();
        assert_eq!((cleared.len(), busy), (1, 1));
        assert!(held.path().join("file").exists());
        drop(held);
        assert_eq!(artifacts.clear_caches().unwrap().0.len(), 1);
        assert!(artifacts.cache_sizes().unwrap().is_empty());
    }
}

#[cfg(test)]
mod download_tests {
    use super::*;

    // ARTIFACT-10
    #[test]
    fn downloads_are_kept_and_builds_are_not() {
        for path in [
            "pip/http/a/b",
            "pip/http-v2",
            "npm/_cacache/index-v5",
            "pnpm/v10/files",
            "cargo/registry/cache/index.crates.io",
            "go-mod/cache/download",
            "gradle/caches/modules-2/files-2.1",
            "maven/org",
        ] {
            let parts: Vec<_> = path.split('/').collect();
            assert_eq!(retained(&parts), Keep::All, "{path}");
            assert_eq!(retained(&parts[..1]), Keep::Inside, "{path}");
        }
        for path in [
            "pip/wheels",
            "npm/_logs",
            "cargo/bin",
            "cargo/registry/src",
            "cargo/git/checkouts",
            "go-build",
            "go-mod/example.com",
            "gradle/caches/build-cache-1",
            "gradle/daemon",
            "uv/sdists-v9",
            "xdg",
            "anything",
        ] {
            assert_eq!(retained(&path.split('/').collect::<Vec<_>>()), Keep::Nothing, "{path}");
        }
    }

    // ARTIFACT-10
    #[test]
    fn what_maven_installed_itself_is_no_download() {
        assert!(all_downloaded("#comment\na.jar>central=\na.pom>central=\n"));
        assert!(!all_downloaded("a.jar>=\na.pom>=\n"));
        assert!(!all_downloaded("a.jar>central=\nb.jar>=\n"));
        assert!(!all_downloaded("") && !all_downloaded("#only a comment"));
    }
}

#[cfg(test)]
mod tidying_tests {
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn tidied(root: &Path, path: &str) -> bool {
        let about = std::fs::metadata(root).unwrap();
        let script = tidying_script(root.to_str().unwrap(), (about.uid(), about.gid()));
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script]).env("PATH", path).output().unwrap().status.success()
    }

    // ARTIFACT-10
    #[test]
    fn the_script_keeps_what_is_kept_here_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a cache");
        let kept = [
            "npm/_cacache/x",
            "pip/http-v2/a/b",
            "pnpm/v10/files/x",
            "uv/archive-v0/x",
            "cargo/registry/cache/index/x",
            "cargo/git/db/x",
            "go-mod/cache/download/x",
            "gradle/caches/modules-2/files/x",
            "maven/org/a/1/a.jar",
        ];
        let gone = [
            "npm/_logs/x",
            "pip/wheels/x",
            "pip/.hidden/x",
            "..odd",
            "go-build/00/x",
            "cargo/bin/tool",
            "cargo/registry/src/x",
            "cargo/registry/cache-not/x",
            "gradle/caches/build-cache-1/x",
            "maven/my/app/1/app.jar",
            "maven/no/record/1/x.jar",
            "stray",
            "a b\nc/$(x)/y",
        ];
        for file in kept.iter().chain(&gone) {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "x").unwrap();
        }
        let record = |version: &str, text: &str| {
            let file = root.join("maven").join(version).join("_remote.repositories");
            std::fs::write(file, text).unwrap();
        };
        record("org/a/1", "#comment\n\na.jar>central=\n");
        record("my/app/1", "app.pom>central=\napp.jar>=\n");
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("stays"), "x").unwrap();
        symlink(&outside, root.join("go-mod/cache/link")).unwrap();
        symlink(&outside, root.join("yarn")).unwrap();

        assert!(!tidied(&root, "/none"), "not without its tools");
        assert!(tidied(&root, "/usr/bin:/bin"));

        for file in kept {
            assert!(root.join(file).exists(), "{file}");
        }
        for file in gone.iter().chain(&["go-mod/cache/link", "yarn"]) {
            assert!(std::fs::symlink_metadata(root.join(file)).is_err(), "{file}");
        }
        assert!(outside.join("stays").exists());
    }
}
