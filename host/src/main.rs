//! The program: parse, run, turn the outcome into an exit code.

use act_core::exit::Exit;

fn main() -> std::process::ExitCode {
    act::output::install_panic_hook(act::cli::secrets());
    // The hook has told what happened; what is left is the code that callers see.
    let exit = std::panic::catch_unwind(|| act::cli::run(std::env::args_os()));
    let exit = exit.unwrap_or(Exit::Infra);
    act::output::see_off(exit);
    exit.into()
}
