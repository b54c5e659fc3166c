//! The program that act runs in the containers of a Pod: it fills the volumes, keeps the container of the steps alive, starts
//! commands, and answers what only a process of the Pod can see. It is one static file, so it runs in every image.
//!
//! It is executed with the user of the steps and has no more rights than they have. What it prints is believed only about
//! itself: the exit code of a step comes from the API, and a counter of the kernel can only turn a failure into another one.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, Signal};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// The directory whose files say what the host wants. The container of the steps mounts it read-only.
const CONTROL: &str = "/.act/control";
/// The directory for the files of the request, and the bytes of each variable that has a piece of them.
const FILES: &str = "/.act/files";
const VARIABLE: usize = 96 << 10;
/// How long the kubelet waits for them before it begins the container of the steps, which then fails.
const LOADED: Duration = Duration::from_secs(30);
/// The store of contents that outlives the Pod, in the container that receives files.
const BASE: &str = "/.act/base";
/// Seconds of a generation of the store: what no run has used for one to two weeks is removed.
const GENERATION: u64 = 7 * 24 * 3600;
/// The words of an archive that goes through the store, and its bounds, as the host has them.
const QUESTION: u8 = b'Q';
const AS_IT_IS: u8 = b'R';
const FILE: u8 = b'F';
const MOST_FILES: usize = 8192;
const LARGEST: usize = 4 << 20;
/// The directory from which the container of the steps gets this program.
const PROGRAM: &str = "/.act/bin/act-sandbox";
/// Pause between two looks at a file. A look is a call of the kernel, and a cancelled run waits for it.
const PAUSE: Duration = Duration::from_millis(20);
/// The largest piece of a stream, in bytes. The host refuses a larger one.
const PIECE: usize = 64 * 1024;
/// Bytes of the stack of a thread that only waits.
const STACK: usize = 16 * 1024;

/// Exit codes that the host knows. A shell has none of them for itself.
const MISSING: u8 = 44;
const FAILED: u8 = 45;
const NO_BASE: u8 = 46;
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// The errors of a path that does not exist.
const MISSING_PATH: [io::ErrorKind; 2] = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default();
    let rest: Vec<OsString> = arguments.collect();
    let done = match (name.to_str().unwrap_or_default(), rest.as_slice()) {
        ("load", directories) => load(directories),
        ("loaded", []) => loaded(),
        ("init", [seconds]) => init(seconds.to_str().and_then(|text| text.parse().ok())),
        ("run", [directory, program, arguments @ ..]) => run(directory, program, arguments),
        ("serve", []) => serve(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "act-sandbox: {}: {error}", name.display());
            ExitCode::from(match (name.to_str(), error.kind()) {
                (Some("run"), kind) if MISSING_PATH.contains(&kind) => NOT_FOUND,
                (Some("run"), _) => NOT_EXECUTABLE,
                _ => FAILED,
            })
        }
    }
}

/// Carries out requests of the host, one after another, until standard input ends. Each exec costs a connection and a process of
/// the runtime, so the host asks as much as it can of one.
///
/// A request is a piece with its words, which a zero byte separates, and for an archive the pieces of it with one of no byte behind
/// them. The answer is what the request prints, in pieces with one of no byte behind them, and a byte with its exit code.
fn serve() -> io::Result<()> {
    // The process of a step has the user of this one. It must not read what this one has open.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    while let Some(words) = request(&mut input)? {
        let mut framed = BufWriter::with_capacity(PIECE, Framed(&mut output));
        let done = answer(&words, &mut input, &mut framed);
        framed.flush()?;
        drop(framed);
        let code = match done {
            Ok(()) => 0,
            Err(error) => {
                let name = words.first().map(OsString::as_os_str).unwrap_or_default();
                let _ = writeln!(io::stderr(), "act-sandbox: {}: {error}", name.display());
                code_of(&error)
            }
        };
        output.write_all(&[0, 0, 0, 0, code])?;
        output.flush()?;
        // What is left of an archive cannot be told from the next request.
        if code != 0 {
            break;
        }
    }
    Ok(())
}

fn request(input: &mut impl Read) -> io::Result<Option<Vec<OsString>>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > PIECE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut words = vec![0; length];
    input.read_exact(&mut words)?;
    Ok(Some(words.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect()))
}

fn answer(words: &[OsString], input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let Some((name, rest)) = words.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match (name.to_str().unwrap_or_default(), rest) {
        ("mark", [name]) => fs::write(Path::new(CONTROL).join(name), b""),
        ("receive", [path]) => receive(Path::new(path), input),
        ("rebuild", [path]) => rebuild(Path::new(path), input, output),
        ("send", [path]) => send(Path::new(path), output),
        ("digest", [path]) => digest(Path::new(path), output),
        ("stat", [path]) => fs::symlink_metadata(path).map(drop),
        ("probe", [milliseconds, limit, words @ ..]) => probe(milliseconds, limit, words, output),
        ("await", [milliseconds, words @ ..]) => wait_for_answer(milliseconds, words),
        ("processes", [limit]) => processes(limit, output),
        ("image", []) => image(output),
        ("addresses", words) => print_addresses(words, output),
        ("alone", [milliseconds]) => alone(milliseconds),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn code_of(error: &io::Error) -> u8 {
    let no_base = error.get_ref().is_some_and(|inner| inner.is::<NoBase>());
    match error.kind() {
        _ if no_base => NO_BASE,
        kind if MISSING_PATH.contains(&kind) => MISSING,
        _ => FAILED,
    }
}

/// The first process of the container that receives files: makes what the container of the steps mounts, which are the files of
/// the request, the directories that are mount points there, and at last this program. Then it waits for the end of the Pod.
fn load(directories: &[OsString]) -> io::Result<()> {
    let mut text = String::new();
    while let Ok(piece) = std::env::var(format!("ACT_FILES_{}", text.len() / VARIABLE)) {
        text.push_str(&piece);
        if !text.len().is_multiple_of(VARIABLE) {
            break;
        }
    }
    let archive = BASE64_STANDARD.decode(text).map_err(|_| io::ErrorKind::InvalidData)?;
    unpack(&mut archive.as_slice(), Path::new(FILES))?;
    directories.iter().try_for_each(fs::create_dir_all)?;
    let begun = Path::new(PROGRAM).with_extension("begun");
    fs::copy("/proc/self/exe", &begun)?;
    fs::set_permissions(&begun, fs::Permissions::from_mode(0o555))?;
    fs::rename(begun, PROGRAM)?;
    wait_for(&Path::new(CONTROL).join("end"), None)
}

/// Waits until [`load`] has made everything.
fn loaded() -> io::Result<()> {
    wait_for(Path::new(PROGRAM), Some(LOADED))
}

fn wait_for(path: &Path, limit: Option<Duration>) -> io::Result<()> {
    let began = Instant::now();
    while !path.exists() {
        if limit.is_some_and(|limit| began.elapsed() > limit) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        reap();
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// The first process of the container of the steps: reaps orphans, prints the kernel's count of kills for memory when it
/// grows, and ends when the host says so or the time is up. The kernel kills every other process with it.
fn init(seconds: Option<u64>) -> io::Result<()> {
    let lifetime = Duration::from_secs(seconds.ok_or(io::ErrorKind::InvalidInput)?);
    // An image that has a link at this path would lead our mounts to where a step can change them.
    if !fs::symlink_metadata("/.act")?.is_dir() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // A step has the same user. It must not open the output of this process, where the host reads.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    let began = Instant::now();
    let (mut kills, mut closings) = (0, 1);
    let ends = ["end-steps", "end"].map(|name| Path::new(CONTROL).join(name));
    while began.elapsed() < lifetime && !ends.iter().any(|path| path.exists()) {
        reap();
        kills = report_kills(kills)?;
        if Path::new(CONTROL).join(format!("others-{closings}")).exists() {
            closings += 1;
            kill_others();
        }
        std::thread::sleep(PAUSE);
    }
    report_kills(kills).map(drop)
}

/// Kills every process of this container but the first one and this one. The kernel does it at once, so none can begin another.
fn kill_others() {
    // To -1, which is every other process here.
    let _ = rustix::process::kill_process_group(Pid::INIT, Signal::KILL);
}

/// Prints the kills for memory that are new, and returns how many there were.
fn report_kills(before: u64) -> io::Result<u64> {
    let now = kills_for_memory();
    for _ in before..now {
        writeln!(io::stdout(), "oom_kill")?;
    }
    Ok(before.max(now))
}

/// Waits until no process but the first one and this one is left, and fails if one stays. The first one kills them, which nobody
/// else may do: a process of a step has the user of this one, and could stop it and make it lie.
fn alone(milliseconds: &OsString) -> io::Result<()> {
    let (limit, began) = (duration(milliseconds)?, Instant::now());
    let own = std::process::id();
    loop {
        let others = fs::read_dir("/proc")?.flatten().any(|entry| {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            number.is_some_and(|number| number != 1 && number != own)
        });
        if !others {
            return Ok(());
        }
        if began.elapsed() > limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(PAUSE);
    }
}

fn print_addresses(words: &[OsString], output: &mut impl Write) -> io::Result<()> {
    addresses(words)?.iter().try_for_each(|address| writeln!(output, "{address}"))
}

fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
}

/// The count of the cgroup of this container, in both versions of cgroups.
fn kills_for_memory() -> u64 {
    const FILES: [&str; 2] =
        ["/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events"];
    let text = FILES.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Executes a command in place of this program, with its standard error in its standard output, because the API does not keep
/// the order between the two.
fn run(directory: &OsString, program: &OsString, arguments: &[OsString]) -> io::Result<()> {
    rustix::stdio::dup2_stderr(rustix::stdio::stdout())?;
    std::env::set_current_dir(directory)?;
    Err(Command::new(program).args(arguments).exec())
}

/// Unpacks an archive, which arrives in pieces with their lengths; a piece of no byte is the end. The protocol cannot close
/// standard input.
fn receive(path: &Path, input: &mut impl Read) -> io::Result<()> {
    let mut pieces = Pieces { input, left: 0, ended: false };
    unpack(&mut pieces, path)?;
    io::copy(&mut pieces, &mut io::sink())?;
    if pieces.ended { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Unpacks an archive whose known contents the store adds.
fn rebuild(path: &Path, input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let base = Base::open().map_err(|_| io::Error::other(NoBase))?;
    // The words between two contents are short. No byte of the next request arrives before the answer to this one.
    let pieces = Pieces { input, left: 0, ended: false };
    let input = BufReader::with_capacity(PIECE, pieces);
    let mut archive = Rebuilt { input, output, base, batch: VecDeque::new(), now: Now::AsItIs(0) };
    unpack(&mut archive, path)?;
    io::copy(&mut archive, &mut io::sink())?;
    if archive.input.get_ref().ended { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn unpack(archive: &mut impl Read, path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    let mut archive = tar::Archive::new(archive);
    archive.set_preserve_mtime(true);
    archive.set_preserve_permissions(true);
    let mut directories: Vec<(PathBuf, u32)> = vec![];
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_dir() {
            entry.unpack_in(path)?;
            continue;
        }
        let below = entry.path()?.into_owned();
        if !below.components().all(|one| matches!(one, Component::Normal(_) | Component::CurDir)) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        fs::create_dir_all(path.join(&below))?;
        directories.push((below, entry.header().mode()? & 0o7777));
    }
    let of_the_kubelet = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    // Last, because nothing can be written into a directory that is read-only.
    for (below, mode) in directories.iter().rev() {
        match fs::set_permissions(path.join(below), fs::Permissions::from_mode(*mode)) {
            // The kubelet made the top of a volume, where everybody may write, and what is above it.
            Err(error) if of_the_kubelet.contains(&error.kind()) => {}
            done => done?,
        }
    }
    Ok(())
}

/// The base volume cannot be written to.
#[derive(Debug)]
struct NoBase;

impl std::fmt::Display for NoBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the base volume cannot be written to")
    }
}

impl std::error::Error for NoBase {}

/// A store of file contents by their digests, which several Pods share. A directory of a generation holds the contents that were
/// used in it; those of older ones are removed, so that the store has what two generations use.
struct Base {
    this: PathBuf,
    last: PathBuf,
}

impl Base {
    /// Opens the store, and removes what is too old.
    fn open() -> io::Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let number = now.as_secs() / GENERATION;
        let of = |number: u64| Path::new(BASE).join(number.to_string());
        let base = Self { this: of(number), last: of(number.saturating_sub(1)) };
        shared_directory(&base.this)?;
        let probe = base.this.join(unique()?);
        fs::write(&probe, b"")?;
        fs::remove_file(&probe)?;
        for entry in fs::read_dir(BASE)?.flatten() {
            let name = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
            if name.is_some_and(|name| name.saturating_add(1) < number) {
                // Another Pod may be removing it too.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(base)
    }

    /// Returns a content of the store, if it is what its name says.
    fn content(&self, digest: &[u8; 32], size: usize) -> Option<Vec<u8>> {
        let read = |generation: &Path| {
            let path = path_of(generation, digest);
            let found = fs::symlink_metadata(&path).ok()?;
            if !found.is_file() || found.len() != size as u64 {
                return None;
            }
            let content = fs::read(&path).ok()?;
            (Sha256::digest(&content)[..] == digest[..]).then_some(content)
        };
        read(&self.this).or_else(|| {
            let content = read(&self.last)?;
            self.store(digest, &content);
            Some(content)
        })
    }

    /// Stores a content. A store that is full, or that somebody else changes, only makes the next run send more.
    fn store(&self, digest: &[u8; 32], content: &[u8]) {
        let path = path_of(&self.this, digest);
        let stored = || -> io::Result<()> {
            if let Some(directory) = path.parent() {
                shared_directory(directory)?;
            }
            let temporary = path.with_extension(unique()?);
            let written = fs::write(&temporary, content);
            let renamed = written.and_then(|()| fs::rename(&temporary, &path));
            if renamed.is_err() {
                let _ = fs::remove_file(&temporary);
            }
            renamed
        };
        let _ = stored();
    }
}

/// Returns a name that nobody else has.
fn unique() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

fn path_of(generation: &Path, digest: &[u8; 32]) -> PathBuf {
    let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    generation.join(name.get(..2).unwrap_or_default()).join(name)
}

/// Makes a directory in which the Pods of every user store contents.
fn shared_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o777)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// An archive, rebuilt from what arrives and from the store. The host asks about the contents of a batch first.
struct Rebuilt<R, W> {
    input: R,
    output: W,
    base: Base,
    /// The contents of the batch that have not been read yet.
    batch: VecDeque<Content>,
    now: Now,
}

struct Content {
    digest: [u8; 32],
    size: usize,
    /// `None` if the store lacks it.
    stored: Option<Vec<u8>>,
}

/// The part of the archive that is being read.
enum Now {
    AsItIs(usize),
    /// A content, from this byte on.
    Content(Vec<u8>, usize),
}

impl<R: Read, W: Write> Rebuilt<R, W> {
    /// Reads the next word of the host. False is the end.
    fn next(&mut self) -> io::Result<bool> {
        let mut word = [0];
        if self.input.read(&mut word)? == 0 {
            return Ok(false);
        }
        match word {
            [QUESTION] => {
                let mut answer = vec![];
                for _ in 0..self.number(MOST_FILES)? {
                    let mut digest = [0; 32];
                    self.input.read_exact(&mut digest)?;
                    let size = self.number(LARGEST)?;
                    let stored = self.base.content(&digest, size);
                    answer.push(if stored.is_some() { b'1' } else { b'0' });
                    self.batch.push_back(Content { digest, size, stored });
                }
                self.output.write_all(&answer)?;
                self.output.flush()?;
            }
            [AS_IT_IS] => self.now = Now::AsItIs(self.number(usize::MAX)?),
            [FILE] => {
                let next = self.batch.pop_front().ok_or(io::ErrorKind::InvalidData)?;
                let content = match next.stored {
                    Some(content) => content,
                    None => {
                        let mut content = vec![0; next.size];
                        self.input.read_exact(&mut content)?;
                        if Sha256::digest(&content)[..] != next.digest[..] {
                            return Err(io::ErrorKind::InvalidData.into());
                        }
                        self.base.store(&next.digest, &content);
                        content
                    }
                };
                self.now = Now::Content(content, 0);
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(true)
    }

    fn number(&mut self, most: usize) -> io::Result<usize> {
        let mut bytes = [0; 4];
        self.input.read_exact(&mut bytes)?;
        let number = u32::from_be_bytes(bytes) as usize;
        if number > most { Err(io::ErrorKind::InvalidData.into()) } else { Ok(number) }
    }
}

impl<R: Read, W: Write> Read for Rebuilt<R, W> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            match &mut self.now {
                Now::AsItIs(left) if *left > 0 => {
                    let most = into.len().min(*left);
                    let count = self.input.read(into.get_mut(..most).unwrap_or_default())?;
                    if count == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    *left -= count;
                    return Ok(count);
                }
                Now::Content(content, at) if *at < content.len() => {
                    let rest = content.get(*at..).unwrap_or_default();
                    let count = rest.len().min(into.len());
                    let (from, to) = (rest.get(..count), into.get_mut(..count));
                    if let (Some(from), Some(to)) = (from, to) {
                        to.copy_from_slice(from);
                    }
                    *at += count;
                    return Ok(count);
                }
                Now::AsItIs(_) | Now::Content(..) => {}
            }
            if !self.next()? {
                return Ok(0);
            }
        }
    }
}

struct Pieces<R> {
    input: R,
    left: usize,
    ended: bool,
}

impl<R: Read> Read for Pieces<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.ended {
            let mut length = [0; 4];
            self.input.read_exact(&mut length)?;
            self.left = u32::from_be_bytes(length) as usize;
            self.ended = self.left == 0;
            if self.left > PIECE {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let most = into.len().min(self.left);
        // A read of nothing would wait for more input, which the host keeps open.
        if most == 0 {
            return Ok(0);
        }
        let count = self.input.read(into.get_mut(..most).unwrap_or_default())?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count;
        Ok(count)
    }
}

/// Writes an archive of a path.
fn send(path: &Path, output: &mut impl Write) -> io::Result<()> {
    let name = path.file_name().map_or_else(|| PathBuf::from("."), PathBuf::from);
    fs::symlink_metadata(path)?;
    let mut archive = tar::Builder::new(output);
    append(&mut archive, path, &name)?;
    archive.finish()
}

/// Adds a directory with everything below it. What cannot be read or vanishes is not there, and a file has the size that it had
/// when it was opened, so that a step cannot break the archive; the host sees what is missing.
fn append<W: Write>(archive: &mut tar::Builder<W>, path: &Path, name: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let mut header = tar::Header::new_gnu();
    if found.is_symlink() {
        let Ok(target) = fs::read_link(path) else { return Ok(()) };
        header.set_metadata(&found);
        return archive.append_link(&mut header, name, target);
    }
    if found.is_dir() {
        header.set_metadata(&found);
        archive.append_data(&mut header, name, io::empty())?;
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            append(archive, &entry.path(), &name.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if !found.is_file() {
        return Ok(());
    }
    // Something else may be there by now, and to open a pipe would wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map(fs::File::from);
    let Some((file, found)) = opened
        .ok()
        .and_then(|file| Some((file.metadata().ok()?, file)))
        .map(|(found, file)| (file, found))
    else {
        return Ok(());
    };
    if !found.is_file() {
        return Ok(());
    }
    header.set_metadata(&found);
    let size = found.len();
    archive.append_data(&mut header, name, file.chain(io::repeat(0)).take(size))
}

/// Writes pieces with their lengths.
struct Framed<W>(W);

impl<W: Write> Write for Framed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        if !piece.is_empty() {
            self.0.write_all(&u32::try_from(piece.len()).unwrap_or_default().to_be_bytes())?;
            self.0.write_all(piece)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Prints the digest of a tree as the host computes it (VERIFIER-12): over path, mode and content digest of each file and link,
/// in the order of the paths. `.git` at the top is not part of the tree.
fn digest(top: &Path, output: &mut impl Write) -> io::Result<()> {
    let mut files = vec![];
    collect(top, Path::new(""), &mut files)?;
    files.sort();
    let mut whole = Sha256::new();
    for (path, mode, content) in files {
        for part in [path.as_os_str().as_bytes(), mode.as_bytes(), content.as_bytes()] {
            whole.update(part);
            whole.update([0]);
        }
    }
    writeln!(output, "{}", hex(whole))
}

fn collect(top: &Path, below: &Path, files: &mut Vec<(PathBuf, &str, String)>) -> io::Result<()> {
    for entry in fs::read_dir(top.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let (found, full) = (entry.metadata()?, entry.path());
        if path == Path::new(".git") {
            continue;
        } else if found.is_dir() {
            collect(top, &path, files)?;
        } else if found.is_symlink() {
            let target = Sha256::new().chain_update(fs::read_link(full)?.as_os_str().as_bytes());
            files.push((path, "120000", hex(target)));
        } else {
            let mut content = Sha256::new();
            let (mut file, mut buffer) = (fs::File::open(full)?, vec![0; PIECE]);
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    count => content.update(buffer.get(..count).unwrap_or_default()),
                }
            }
            let mode = if found.mode() & 0o100 == 0 { "100644" } else { "100755" };
            files.push((path, mode, hex(content)));
        }
    }
    Ok(())
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tries addresses until none answers within so many milliseconds, or until the limit is over, and prints those that answered
/// last.
fn probe(
    milliseconds: &OsString,
    limit: &OsString,
    words: &[OsString],
    output: &mut impl Write,
) -> io::Result<()> {
    let (wait, limit, began) = (duration(milliseconds)?, duration(limit)?, Instant::now());
    let addresses = addresses(words)?;
    loop {
        let reached = answering(&addresses, wait);
        if reached.is_empty() || began.elapsed() > limit {
            return reached.iter().try_for_each(|address| writeln!(output, "{address}"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits until one of the addresses answers, and fails if none does.
fn wait_for_answer(milliseconds: &OsString, words: &[OsString]) -> io::Result<()> {
    let (limit, began) = (duration(milliseconds)?, Instant::now());
    let addresses = addresses(words)?;
    while !addresses.is_empty() && began.elapsed() < limit {
        if !answering(&addresses, limit / 10).is_empty() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn duration(milliseconds: &OsString) -> io::Result<Duration> {
    let number = milliseconds.to_str().and_then(|text| text.parse().ok());
    number.map(Duration::from_millis).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Returns the addresses that answer first, or none after the limit. A refusal is an answer: it has come through the walls.
fn answering(addresses: &[SocketAddr], limit: Duration) -> Vec<SocketAddr> {
    let began = Instant::now();
    let (mut reached, mut open) = (vec![], vec![]);
    for address in addresses {
        match connecting(*address) {
            Ok(Some(socket)) => open.push((*address, socket)),
            Ok(None) | Err(Errno::CONNREFUSED) => reached.push(*address),
            Err(_) => {}
        }
    }
    while reached.is_empty() && !open.is_empty() {
        let Some(left) = limit.checked_sub(began.elapsed()) else { break };
        let mut polled: Vec<_> =
            open.iter().map(|(_, socket)| PollFd::new(socket, PollFlags::OUT)).collect();
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let _ = rustix::event::poll(&mut polled, Some(&timeout));
        let ended: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        let mut ended = ended.into_iter();
        open.retain(|(address, socket)| {
            if !ended.next().unwrap_or_default() {
                return true;
            }
            if let Ok(Ok(()) | Err(Errno::CONNREFUSED)) = sockopt::socket_error(socket) {
                reached.push(*address);
            }
            false
        });
    }
    reached
}

/// Begins a connection. `None` is one that was made at once.
fn connecting(address: SocketAddr) -> Result<Option<OwnedFd>, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    match net::connect(&socket, &address) {
        Ok(()) => Ok(None),
        Err(Errno::INPROGRESS) => Ok(Some(socket)),
        Err(error) => Err(error),
    }
}

/// Returns the addresses that words name: `api` is the API server as Pods reach it, `names` are the name servers, and any other
/// word is an address itself.
fn addresses(words: &[OsString]) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = vec![];
    for word in words {
        match word.to_str().unwrap_or_default() {
            "api" => {
                let variable = |name| std::env::var(name).unwrap_or_default();
                let host = variable("KUBERNETES_SERVICE_HOST").parse();
                let port = variable("KUBERNETES_SERVICE_PORT").parse();
                if let (Ok(host), Ok(port)) = (host, port) {
                    addresses.push(SocketAddr::new(host, port));
                }
            }
            "names" => {
                let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
                let servers = text.lines().filter_map(|line| {
                    let address: IpAddr =
                        line.trim().strip_prefix("nameserver")?.trim().parse().ok()?;
                    // A server at the loopback of the Pod is behind no wall.
                    (!address.is_loopback()).then(|| SocketAddr::new(address, 53))
                });
                addresses.extend(servers.take(3));
            }
            address => {
                let parsed = address.parse();
                addresses.push(parsed.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?);
            }
        }
    }
    Ok(addresses)
}

/// Prints `refused` if the kernel refuses a thread before `limit` of them run, and `allowed` otherwise. The kernel counts threads
/// as it counts processes, and they cost less.
fn processes(limit: &OsString, output: &mut impl Write) -> io::Result<()> {
    let limit: usize =
        limit.to_str().and_then(|text| text.parse().ok()).ok_or(io::ErrorKind::InvalidInput)?;
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    let mut started: Vec<JoinHandle<()>> = vec![];
    let mut refused = false;
    while started.len() < limit && !refused {
        let gate = gate.clone();
        let thread = std::thread::Builder::new().stack_size(STACK);
        match thread.spawn(move || drop(gate.lock())) {
            Ok(thread) => started.push(thread),
            Err(_) => refused = true,
        }
    }
    drop(closed);
    for thread in started {
        let _ = thread.join();
    }
    writeln!(output, "{}", if refused { "refused" } else { "allowed" })
}

/// Returns the bytes of the files below a directory of one file system, and `counted` with their number. More are not counted:
/// an image with more files is large, and each look costs time before a run.
fn size(directory: &Path, device: u64, mut counted: u64) -> (u64, u64) {
    const MOST: u64 = 200_000;
    let mut bytes = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else { continue };
        counted += 1;
        if counted >= MOST {
            break;
        }
        if found.is_file() {
            bytes += found.len();
        } else if found.is_dir() && found.dev() == device {
            let (below, count) = size(&entry.path(), device, counted);
            (bytes, counted) = (bytes + below, count);
        }
    }
    (bytes, counted)
}

/// Prints what the image sets: `PATH`, and the volumes that it declares, which the runtime mounts; and how large it is.
fn image(output: &mut impl Write) -> io::Result<()> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    writeln!(output, "arch {arch}")?;
    if let Some(path) = std::env::var_os("PATH") {
        writeln!(output, "path {}", path.display())?;
    }
    let root = Path::new("/");
    let (bytes, _) = size(root, root.metadata()?.dev(), 0);
    writeln!(output, "bytes {bytes}")?;
    for line in fs::read_to_string("/proc/self/mountinfo")?.lines() {
        let mut fields = line.split(' ').skip(3);
        if let (Some(root), Some(target)) = (fields.next(), fields.next())
            && root.contains("/volumes/")
            && !root.contains("kubernetes.io~")
        {
            writeln!(output, "volume {target}")?;
        }
    }
    Ok(())
}
