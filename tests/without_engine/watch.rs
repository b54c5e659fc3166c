//! `act watch` as a process: its address, its end, and what another user of the machine gets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use act_core::process::Process;
use act_records::artifacts::ArtifactDir;
use act_records::store::{Flags, Store, Submission};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Act, program};

/// A process that is killed when its test ends.
struct Watch {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Watch {
    fn of(mut child: Child) -> Self {
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ends_with(mut self, signal: Signal) -> i32 {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Splits an address into host with port, and path.
fn split(address: &str) -> (&str, String) {
    let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    (host, format!("/{path}"))
}

fn get(mut stream: impl Read + Write, host: &str, path: &str, cookie: &str) -> String {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn connect(host: &str) -> TcpStream {
    let port = host.rsplit_once(':').unwrap().1.parse().unwrap();
    TcpStream::connect(("127.0.0.1", port)).unwrap()
}

// WATCH-1, WATCH-3, WATCH-5
#[test]
fn watch_prints_an_address_another_one_for_each_line_and_ends_with_zero() {
    let act = Act::new();
    let mut watch = Watch::of(act.piped(&["watch"]));
    let first = watch.line();
    watch.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let second = watch.line();
    let ((host, path), (same, other)) = (split(&first), split(&second));
    assert_eq!(host, same);
    assert!(path != other && path.starts_with("/enter/"));
    assert!(host.starts_with("act-") && host.contains(".localhost:"), "{host}");
    for path in [&path, &other] {
        assert!(get(connect(host), host, path, "").starts_with("HTTP/1.1 303"));
    }
    assert_eq!(watch.ends_with(Signal::INT), 0);
}

// WATCH-1, WATCH-5
#[test]
fn the_address_for_programs_says_how_long_it_works_and_a_taken_port_is_refused() {
    let act = Act::new();
    let mut watch = Watch::of(act.piped(&["watch", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&watch.line()).unwrap();
    let (host, path) = split(document["url"].as_str().unwrap());
    let expires: chrono::DateTime<chrono::Utc> =
        document["expires"].as_str().unwrap().parse().unwrap();
    assert!((expires - chrono::Utc::now()).num_seconds() <= 60);
    let entered = get(connect(host), host, &path, "");
    let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let tasks = get(connect(host), host, "/api/tasks", cookie);
    assert!(tasks.contains("{\"schema\":2,\"tasks\":[],\"more\":false}"), "{tasks}");
    let port = host.rsplit_once(':').unwrap().1;
    act.act(["watch", "--port", port]).status(1).stderr_has("name another port with --port");
    assert_eq!(watch.ends_with(Signal::TERM), 0);
}

// attack 623
#[test]
fn another_user_gets_nothing_by_port_socket_files_or_proc() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
        return act_core::testing::skip("another user needs root and setpriv");
    }
    let act = Act::new();
    let stranger = |script: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", script]);
        let output =
            command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    let mut watch = Watch::of(act.piped(&["watch", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&watch.line()).unwrap();
    let (host, path) = split(document["url"].as_str().unwrap());
    let port = host.rsplit_once(':').unwrap().1;
    let ask = |path: &str, host: &str| {
        stranger(&format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
        ))
    };
    for path in ["/", "/api/tasks", "/api/events", "/enter/AAAAAAAAAAAAAAAAAAAAAA"] {
        let answer = ask(path, &format!("127.0.0.1:{port}"));
        assert!(answer.starts_with("HTTP/1.1 401") && !answer.contains("act-"), "{answer}");
    }
    // The name of the host is no secret that a wall rests on, but another user does not learn it either.
    assert!(ask("/", &format!("localhost:{port}")).starts_with("HTTP/1.1 421"));
    let pid = watch.child.id();
    let token = path.strip_prefix("/enter/").unwrap();
    let seen = stranger(&format!(
        "cat /proc/{pid}/cmdline /proc/{pid}/environ /proc/{pid}/maps 2>&1; ls -l /proc/{pid}/fd 2>&1; cat /proc/net/tcp"
    ));
    assert!(!seen.contains(token) && seen.contains("Permission denied"), "{seen}");
    assert!(get(connect(host), host, &path, "").starts_with("HTTP/1.1 303"), "the token is unused");

    // A directory of the socket that others can reach by its path, but not enter.
    // The directory of temporary files may be private to the user who runs the tests.
    let open = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let private = open.path().join("private");
    std::fs::create_dir(&private).unwrap();
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).unwrap();
    let socket = private.join("watch.sock");
    let mut at_socket = Watch::of(act.piped(&["watch", "--socket", socket.to_str().unwrap()]));
    assert_eq!(at_socket.line(), format!("unix:{}", socket.display()));
    let python =
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print('in')";
    let tried = |path: &Path| stranger(&format!("python3 -c \"{python}\" {} 2>&1", path.display()));
    assert!(!tried(&socket).contains("in\n"));
    let stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    assert!(get(stream, "localhost", "/api/tasks", "").starts_with("HTTP/1.1 200"));
    assert_eq!(at_socket.ends_with(Signal::INT), 0);
    assert!(!socket.exists(), "the socket goes with its server");

    // A file of another kind is not taken for the socket of a killed server, nor another server's socket for one's own.
    let notes = private.join("notes.txt");
    std::fs::write(&notes, "precious").unwrap();
    let told = act.clone().act(["watch", "--socket", notes.to_str().unwrap()]).status(1);
    told.stderr_has("there is a file that is no socket");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "precious");
    let first = act.piped(&["watch", "--socket", socket.to_str().unwrap()]);
    let mut first = Watch::of(first);
    first.line();
    std::fs::remove_file(&socket).unwrap();
    let mut second = Watch::of(act.piped(&["watch", "--socket", socket.to_str().unwrap()]));
    second.line();
    assert_eq!(first.ends_with(Signal::INT), 0);
    assert!(socket.exists(), "the first server leaves the socket of the second one");
    assert_eq!(second.ends_with(Signal::INT), 0);

    // Root passes every mode, but the user id of the peer is compared.
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let own: Vec<PathBuf> =
        ["home", "artifacts", "private"].map(|name| place.path().join(name)).into();
    for directory in &own {
        std::fs::create_dir(directory).unwrap();
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(directory, Some(65534), Some(65534)).unwrap();
    }
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = place.path().join("act");
    std::fs::copy(program(), &copy).unwrap();
    let socket = own[2].join("watch.sock");
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
    other.args(["watch", "--socket"]).arg(&socket).env_clear().current_dir(&own[0]);
    other.env("HOME", &own[0]).env("AGENT_ARTIFACT_DIR", &own[1]);
    other.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut other = Watch::of(other.spawn().unwrap());
    let line = other.line();
    let mut why = String::new();
    if line.is_empty() {
        other.child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    }
    assert_eq!(line, format!("unix:{}", socket.display()), "{why}");
    let stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    assert_eq!(get(stream, "localhost", "/api/tasks", ""), "", "root is another user");
    let script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'GET /api/tasks HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n'); print(s.recv(100))";
    let owner = stranger(&format!("python3 -c \"{script}\" {} 2>&1", socket.display()));
    assert!(owner.contains("200 OK"), "{owner}");
}

// WATCH-20, WATCH-21
#[test]
fn a_full_disk_takes_nothing_from_those_who_watch_that_a_journal_has() {
    let act = Act::new();
    std::fs::create_dir_all(act.artifacts()).unwrap();
    let Some(disk) = Small::mount(&act.artifacts()) else {
        return act_core::testing::skip("a small file system needs the privilege to mount one");
    };
    let private = tempfile::tempdir().unwrap();
    std::fs::set_permissions(private.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let socket = private.path().join("watch.sock");
    // The store and the journal exist before the disk is full.
    let artifacts = ArtifactDir::open(&act.artifacts(), &act.repo()).unwrap();
    let store = Store::open(&artifacts.state().unwrap(), &act.artifacts().join("state")).unwrap();
    let mut journal = artifacts.create_journal("t-aaaaaa").unwrap().file;
    let task = Submission {
        task_id: "t-aaaaaa",
        repo: "r",
        root: "/repo",
        text: "fill the disk",
        flags: &Flags::default(),
        owner: &Process::this(),
    };
    store.submit(&task).unwrap();
    assert!(store.start("t-aaaaaa", &Process::this()).unwrap());
    let mut watch = Watch::of(act.piped(&["watch", "--socket", socket.to_str().unwrap()]));
    assert_eq!(watch.line(), format!("unix:{}", socket.display()));
    // One journal line to the last byte that fits, then a line that fits only in part.
    let line = |seq: usize| {
        format!("{{\"v\":1,\"seq\":{seq},\"type\":\"milestone\",\"text\":\"{:0500}\"}}\n", seq)
    };
    let mut whole = 0;
    let left = loop {
        let text = line(whole + 1);
        if let Err((error, written)) = append(&mut journal, text.as_bytes()) {
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
            break text[written..].to_owned();
        }
        whole += 1;
    };
    assert!(whole > 100, "{whole} lines fit");
    let connect = || std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let mut stream = connect();
    write!(stream, "GET /api/events?after=start HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let events = BufReader::new(stream).lines().map_while(Result::ok);
    let mut events = events.filter_map(|line| line.strip_prefix("data: {\"v\"").map(str::to_owned));
    for seq in 1..=whole {
        assert!(events.next().unwrap().contains(&format!("\"seq\":{seq},")), "event {seq}");
    }
    let tasks = get(connect(), "localhost", "/api/tasks", "");
    assert!(tasks.starts_with("HTTP/1.1 200") && tasks.contains("t-aaaaaa"), "{tasks}");
    // Room is made, and the line becomes whole.
    disk.grow();
    journal.write_all(left.as_bytes()).unwrap();
    assert!(events.next().unwrap().contains(&format!("\"seq\":{},", whole + 1)));
    assert_eq!(watch.ends_with(Signal::INT), 0);
}

/// Appends bytes. A failure says how many of them were written.
fn append(file: &mut std::fs::File, bytes: &[u8]) -> Result<(), (std::io::Error, usize)> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) => return Err((error, written)),
        }
    }
    Ok(())
}

/// A small file system that ends with the test.
struct Small(PathBuf);

impl Small {
    fn mount(place: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m,mode=700", "small"]).arg(place);
        let mounted = rustix::process::geteuid().is_root()
            && mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        mounted.then(|| Self(place.to_owned()))
    }

    fn grow(&self) {
        let mut mount = Command::new("mount");
        mount.args(["-o", "remount,size=4m"]).arg(&self.0);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
