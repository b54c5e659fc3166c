//! The program that act runs in the containers of a Pod: it fills the volumes, keeps the container of the steps alive, starts
//! commands, and answers what only a process of the Pod can see. It is one static file, so it runs in every image.
//!
//! It is executed with the user of the steps and has no more rights than they have. What it prints is believed only about
//! itself: the exit code of a step comes from the API, and a counter of the kernel can only turn a failure into another one.

mod kept;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, Signal};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

/// The directory whose files say what the host wants. The container of the steps mounts it read-only.
const CONTROL: &str = "/.act/control";
/// The directory for the files of the request, and the bytes of each variable that has a piece of them.
const FILES: &str = "/.act/files";
const VARIABLE: usize = 96 << 10;
/// How long the kubelet waits for them before it begins the container of the steps, which then fails.
const LOADED: Duration = Duration::from_secs(30);
/// The base volume, in the container that receives files.
const BASE: &str = "/.act/base";
/// The directory from which the container of the steps gets this program.
const PROGRAM: &str = "/.act/bin/act-sandbox";
/// Pause between two looks at a file. A look is a call of the kernel, and a cancelled run waits for it.
const PAUSE: Duration = Duration::from_millis(20);
/// The largest piece of a stream, in bytes. The host refuses a larger one.
const PIECE: usize = 64 * 1024;
/// Maximum number of threads that read a tree.
const MOST_THREADS: usize = 4;
/// Bytes of the stack of a thread that only waits.
const STACK: usize = 16 * 1024;

/// Exit codes that the host knows. A shell has none of them for itself.
const MISSING: u8 = 44;
const FAILED: u8 = 45;
const NO_BASE: u8 = 46;
const FULL: u8 = 47;
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
        ("load-kept", [root, directories @ ..]) => load_kept(Path::new(root), directories),
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
                _ => code_of(&error),
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
        ("refresh", [path, spared @ ..]) => {
            let spared: Vec<PathBuf> = spared.iter().map(PathBuf::from).collect();
            kept::refresh(Path::new(path), &spared, input, output)
        }
        ("give-back", [root, word]) => kept::give_back(Path::new(root), word == "sound"),
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
    let no_base = error.get_ref().is_some_and(|inner| inner.is::<kept::NoBase>());
    match error.kind() {
        _ if no_base => NO_BASE,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FULL,
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

/// Takes a tree on the base volume, makes the directories in it, and then does what [`load`] does with the others.
fn load_kept(root: &Path, directories: &[OsString]) -> io::Result<()> {
    let of_tree = |directory: &&OsString| Path::new(directory).starts_with(root);
    let (inside, outside): (Vec<_>, Vec<_>) = directories.iter().partition(of_tree);
    kept::take(root, &inside.into_iter().map(PathBuf::from).collect::<Vec<_>>())?;
    std::thread::spawn(|| kept::tidy(Path::new(BASE)));
    load(&outside.into_iter().cloned().collect::<Vec<_>>())
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

/// A stream that arrives in pieces with their lengths. A piece of no byte is its end.
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
    let mut found = vec![];
    collect(top, Path::new(""), &mut found)?;
    found.sort();
    let (next, mut files) = (AtomicUsize::new(0), vec![]);
    let work = || -> io::Result<Vec<(usize, String)>> {
        let (mut digests, mut buffer) = (vec![], vec![0; PIECE]);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((path, mode)) = found.get(number) else { return Ok(digests) };
            digests.push((number, content_digest(&top.join(path), mode, &mut buffer)?));
        }
    };
    // The limit on processes may leave no thread more.
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS))
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        files.extend(work()?);
        for other in others {
            files.extend(other.join().map_err(|_| io::Error::other("a thread has panicked"))??);
        }
        io::Result::Ok(())
    })?;
    files.sort();
    let mut whole = Sha256::new();
    for ((path, mode), (_, content)) in found.iter().zip(files) {
        for part in [path.as_os_str().as_bytes(), mode.as_bytes(), content.as_bytes()] {
            whole.update(part);
            whole.update([0]);
        }
    }
    writeln!(output, "{}", hex(whole))
}

/// The mode of a link in a tree.
const LINK_MODE: &str = "120000";

fn collect(top: &Path, below: &Path, files: &mut Vec<(PathBuf, &str)>) -> io::Result<()> {
    for entry in fs::read_dir(top.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let found = entry.metadata()?;
        if path == Path::new(".git") {
            continue;
        } else if found.is_dir() {
            collect(top, &path, files)?;
        } else if found.is_symlink() {
            files.push((path, LINK_MODE));
        } else {
            let mode = if found.mode() & 0o100 == 0 { "100644" } else { "100755" };
            files.push((path, mode));
        }
    }
    Ok(())
}

fn content_digest(full: &Path, mode: &str, buffer: &mut [u8]) -> io::Result<String> {
    let mut content = Sha256::new();
    if mode == LINK_MODE {
        content.update(fs::read_link(full)?.as_os_str().as_bytes());
        return Ok(hex(content));
    }
    let mut file = fs::File::open(full)?;
    loop {
        match file.read(buffer)? {
            0 => return Ok(hex(content)),
            count => content.update(buffer.get(..count).unwrap_or_default()),
        }
    }
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
