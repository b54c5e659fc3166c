//! `act watch`: the pages of all tasks, served to the browser of this user on this machine.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use chrono::{TimeDelta, Utc};
use serde::Serialize;

use super::{answer, block_on, secrets};
use crate::output::{Line, Output, Tone};
use act_core::Failure;
use act_core::exit::Exit;
use act_core::user_command::ENVIRONMENT;
use act_task::Observer;
use act_watch::{Door, Limits, Server};

const AFTER_HELP: &str = "\
Examples:
  act watch                 print an address to open in a browser
  act watch --open          open it
  act watch --port 7777     on a port that stays the same
  act watch --socket ~/.local/state/act/watch.sock
                            for programs, and for another machine:
                            ssh -L 7777:/home/me/.local/state/act/watch.sock HOST
                            and then http://localhost:7777

The address works once and within 60 seconds; Enter prints another one. Interrupt the command to end it.

Exit codes:
  0 it was interrupted, 1 refused: the port or the socket cannot be used";

/// Watch all tasks in a browser
///
/// Serves pages of the tasks of every repository: what runs, what waits, what needs you; attempts with their steps, changed files,
/// logs, grants and denials, and figures. The pages read what tasks have written and change nothing; the only action is to cancel
/// a task. Only programs of this machine reach them, and only with the printed address.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Watch {
    /// Port of 127.0.0.1; default: a free one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Open the address in the browser
    #[arg(long)]
    open: bool,
    /// Serve a Unix socket in place of a port; its directory must be yours alone (mode 0700)
    #[arg(long, value_name = "PATH", conflicts_with_all = ["port", "open"])]
    socket: Option<PathBuf>,
    /// Print the address as one JSON document
    #[arg(long)]
    json: bool,
}

/// The document of `act watch --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WatchAddress {
    /// The address with its token; `unix:` and the path for a socket.
    url: String,
    /// Time until which the address works, ISO 8601 in UTC; null for a socket, which needs no token.
    expires: Option<String>,
}

impl act_core::Document for WatchAddress {
    const NAME: &'static str = "watch";
}

impl Watch {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        block_on(self.serve(output))?
    }

    async fn serve(self, output: &Output) -> Result<Exit, Failure> {
        let ended = act_task::cancelled_by_signals()?;
        let door = match &self.socket {
            Some(path) => Door::Socket(path.clone()),
            None => Door::Port(self.port.unwrap_or(0)),
        };
        let server = Server::listen(&door, Observer::open()?, secrets(), Limits::default()).await?;
        let print = || {
            let address = address(&server);
            answer(output, &address, || vec![Line::plain(address.url.clone())]);
        };
        let page = match self.open {
            true => Some(OpenedPage::new(&address(&server).url)?),
            false => None,
        };
        print();
        if let Some(page) = &page
            && let Err(failure) = page.show()
        {
            output.caution(&failure.message);
        }
        if self.socket.is_none() && !self.json {
            output.progress(&Line::of(
                Tone::Faint,
                "The address works once and within 60 seconds. Enter prints another one; Ctrl-C ends the server.",
            ));
        }
        let mut wishes = enters();
        let answering = server.serve();
        tokio::pin!(answering);
        loop {
            tokio::select! {
                () = ended.cancelled() => return Ok(Exit::Ok),
                () = &mut answering => return Ok(Exit::Ok),
                Some(()) = wishes.recv() => print(),
            }
        }
    }
}

fn address(server: &Server) -> WatchAddress {
    let expires = server.token_life().and_then(|life| TimeDelta::from_std(life).ok());
    let expires = expires.map(|life| act_core::clock::milliseconds(Utc::now() + life));
    let url = server.address();
    match expires {
        Some(_) => WatchAddress { url, expires },
        None => WatchAddress { url: format!("unix:{url}"), expires },
    }
}

/// Reports each line of standard input. A process in the background of a terminal would be stopped if it read from there, so it
/// reads nothing.
fn enters() -> tokio::sync::mpsc::Receiver<()> {
    let (send, receive) = tokio::sync::mpsc::channel(1);
    let stdin = std::io::stdin();
    let reads = match rustix::termios::tcgetpgrp(&stdin) {
        Ok(foreground) => foreground == rustix::process::getpgrp(),
        // It is no terminal.
        Err(_) => true,
    };
    if reads {
        // The thread ends with the process: a read cannot be interrupted.
        std::thread::spawn(move || {
            let mut piece = [0; 256];
            let mut stdin = std::io::stdin().lock();
            while let Ok(length @ 1..) = stdin.read(&mut piece) {
                let lines = piece.iter().take(length).filter(|byte| **byte == b'\n').count();
                if lines > 0 && send.blocking_send(()).is_err() {
                    return;
                }
            }
        });
    }
    receive
}

/// The variables by which `xdg-open` finds the desktop and its browser, besides those of every program of the user.
const DESKTOP: [&str; 10] = [
    "BROWSER",
    "DESKTOP_SESSION",
    "KDE_FULL_SESSION",
    "KDE_SESSION_VERSION",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_CURRENT_DESKTOP",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "XDG_SESSION_TYPE",
];

/// A file that sends the browser to an address, so that no command line holds the token. It is removed with its directory.
struct OpenedPage {
    directory: PathBuf,
    file: PathBuf,
}

impl OpenedPage {
    fn new(address: &str) -> Result<Self, Failure> {
        use std::io::Write;
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        let refused = |error: std::io::Error| {
            Failure::refused(
                "watch_unusable",
                format!("cannot write the file for the browser: {error}"),
            )
            .hint("leave --open out and open the printed address")
        };
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime.filter(|path| path.is_dir()).unwrap_or_else(std::env::temp_dir);
        let name = format!("act-watch-{:016x}", rand::random::<u64>());
        let directory = runtime.join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&directory).map_err(refused)?;
        let page = Self { file: directory.join("open.html"), directory };
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(0o600).open(&page.file).map_err(refused)?;
        // The address consists of letters, digits and signs that mean nothing in HTML.
        let html = format!(
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0;url={address}\"><title>act watch</title>\n"
        );
        file.write_all(html.as_bytes()).map_err(refused)?;
        Ok(page)
    }

    /// Returns the command that opens the file with a program. A browser runs for days, and gets no key of the server.
    fn command(&self, opener: &str) -> Command {
        let names = ENVIRONMENT.iter().chain(&DESKTOP).chain(&["PATH"]);
        let given = names.filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut command = Command::new(opener);
        command.arg(&self.file).env_clear().envs(given);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts the browser.
    fn show(&self) -> Result<(), Failure> {
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        match self.command(opener).spawn() {
            Ok(mut child) => {
                // The process is reaped when it ends.
                std::thread::spawn(move || child.wait());
                Ok(())
            }
            Err(error) => Err(Failure::refused(
                "watch_unusable",
                format!("{opener} cannot be started: {error}; open the printed address yourself"),
            )),
        }
    }
}

impl Drop for OpenedPage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
        let _ = std::fs::remove_dir(Path::new(&self.directory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_an_address_is_published() {
        // EVENT-8
        schema::document_holds::<WatchAddress>();
    }

    // attack 654
    #[test]
    fn the_browser_gets_the_variables_of_the_desktop_and_no_other() {
        use std::os::unix::fs::PermissionsExt;
        let page = OpenedPage::new("http://act-x.localhost:1/enter/token").unwrap();
        let opener = page.directory.join("opener");
        let printed = page.directory.join("printed");
        std::fs::write(&opener, format!("#!/bin/sh\nenv > {}\n", printed.display())).unwrap();
        std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o700)).unwrap();
        // Cargo sets variables for a test, and none of them is for a browser.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        // Another test may start a process while the script is open for writing, so a shell reads it.
        let mut command = page.command("/bin/sh");
        let words: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
        assert_eq!(words, [page.file.as_os_str()]);
        std::fs::copy(&opener, &page.file).unwrap();
        assert!(command.status().unwrap().success());
        let text = std::fs::read_to_string(&printed).unwrap();
        assert!(text.lines().any(|line| line.starts_with("PATH=")), "{text}");
        for line in text.lines() {
            let (name, _) = line.split_once('=').unwrap();
            // A shell sets some by itself.
            let own = ["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name);
            assert!(own || ENVIRONMENT.contains(&name) || DESKTOP.contains(&name), "{name}");
        }
        std::fs::remove_file(opener).unwrap();
        std::fs::remove_file(printed).unwrap();
    }

    // attack 621
    #[test]
    fn the_file_for_the_browser_is_readable_by_its_owner_alone_and_goes_away() {
        use std::os::unix::fs::PermissionsExt;
        let page = OpenedPage::new("http://act-x.localhost:1/enter/token").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&page.directory), mode(&page.file)), (0o700, 0o600));
        let text = std::fs::read_to_string(&page.file).unwrap();
        assert!(text.contains("0;url=http://act-x.localhost:1/enter/token\""), "{text}");
        let directory = page.directory.clone();
        drop(page);
        assert!(!directory.exists());
    }
}
