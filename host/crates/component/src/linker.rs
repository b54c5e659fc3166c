//! Links what a component imports and its grant covers, and nothing else.
//!
//! Base WASI is linked because every guest's standard library imports it; it is closed (`closed_wasi`), its
//! file system is the filtered view (`files`), HTTP is linked for whom origins were granted, and sockets are not linked
//! at all. Interfaces of the base world that were not granted answer `denied`.

use wasmtime::Engine;
use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random};
use wasmtime_wasi::random::WasiRandom;

use super::admission::Capability;
use super::bindings::{chat, edit, progress, read, symbols, types};
use super::files::{self, HasFiles};
use super::grant::Grant;
use super::state::State;

pub(super) fn linker(engine: &Engine, grant: &Grant) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    base_wasi(&mut linker)?;
    filesystem::types::add_to_linker::<State, HasFiles>(&mut linker, files::of)?;
    filesystem::preopens::add_to_linker::<State, HasFiles>(&mut linker, files::of)?;
    types::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    progress::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    read::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    symbols::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    chat::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    if grant.links(Capability::Http) {
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    }
    if grant.links(Capability::RepoWrite) {
        edit::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    }
    Ok(linker)
}

struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

fn base_wasi(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    use wasmtime_wasi::p2::bindings::io::{error, poll, streams};
    error::add_to_linker::<State, HasTable>(linker, |state| &mut state.table)?;
    poll::add_to_linker::<State, HasTable>(linker, |state| &mut state.table)?;
    streams::add_to_linker::<State, HasTable>(linker, |state| &mut state.table)?;

    clocks::wall_clock::add_to_linker::<State, WasiClocks>(linker, State::clocks)?;
    clocks::monotonic_clock::add_to_linker::<State, WasiClocks>(linker, State::clocks)?;
    random::random::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    random::insecure::add_to_linker::<State, WasiRandom>(linker, |state| state.wasi.random())?;
    random::insecure_seed::add_to_linker::<State, WasiRandom>(linker, |state| state.wasi.random())?;

    cli::exit::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::environment::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::stdin::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stdout::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stderr::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    Ok(())
}
