//! `agent-command-tool`: runs the program `act` that lies beside it, for machines on which another program has the name `act`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use act::output::{self, Output, Style};
use act_core::Failure;

fn main() -> ExitCode {
    let failure = become_act(std::env::args_os().skip(1));
    let style = Style { secrets: act::cli::secrets(), ..Style::default() };
    Output::new(style).failure(&failure);
    output::drain(failure.exit);
    failure.exit.into()
}

/// Replaces this process by the neighbour `act` with the same arguments, and returns why that failed. `PATH` is not
/// searched: it may find another program of that name.
fn become_act(arguments: impl Iterator<Item = OsString>) -> Failure {
    let refused = |message: String| {
        Failure::refused("neighbour_unusable", message).hint(
            "install `act` and `agent-command-tool` into one directory, as `cargo install` does",
        )
    };
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return refused(format!("cannot find the file of this program: {error}")),
    };
    let act = own.with_file_name("act");
    let error = Command::new(&act).args(arguments).exec();
    refused(format!("cannot run {}, which `agent-command-tool` stands for: {error}", act.display()))
}
