//! `sockets`: named so that a component that wants them is refused by name. No grant opens a socket.

use serde::{Deserialize, Serialize};
use wasmtime::component::Linker;

use super::{Access, Bounds, Grant, Import, NoCeiling};
use crate::call::State;
use crate::meter::Count;

/// The bounds of a capability that cannot be granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeverGranted;

impl Bounds for NeverGranted {
    type Ceiling = NoCeiling;

    fn everything() -> Self {
        Self
    }

    fn meet(&self, _other: &Self) -> Self {
        Self
    }
}

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = NeverGranted;
    type Meters = Count;
    const IN_BASE_WORLD: bool = false;

    fn is_behind(import: &Import<'_>) -> bool {
        import.package == "wasi:sockets"
    }

    fn covers(_grant: &Grant, _access: &Access) -> bool {
        false
    }

    fn link(_linker: &mut Linker<State>) -> wasmtime::Result<()> {
        Ok(())
    }
}
