//! The program: runs one command line and returns its exit code.

use act_core::exit::Exit;

fn main() -> std::process::ExitCode {
    act::output::install_panic_hook(act::cli::secrets());
    // The hook has printed the panic; callers still need the exit code.
    let exit = std::panic::catch_unwind(|| act::cli::run(std::env::args_os()));
    let exit = exit.unwrap_or(Exit::Infra);
    act::output::drain(exit);
    exit.into()
}
