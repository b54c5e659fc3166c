//! The capability `sockets`, which no grant holds. It exists so that the refusal of a component that imports sockets
//! names them.

use serde::{Deserialize, Serialize};
use wasmtime::component::Linker;

use super::{Access, Grant, Import, NoCeiling};
use crate::bounds::Bound;
use crate::call::State;
use crate::limits::Limits;
use crate::meter::Count;

/// The bounds of a capability that cannot be granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeverGranted;

impl Bound for NeverGranted {
    fn unlimited() -> Self {
        Self
    }

    fn meet(&self, _other: &Self) -> Self {
        Self
    }
}

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = NeverGranted;
    type Ceiling = NoCeiling;
    type Meters = Count;
    const MEANING: &'static str = "opens network connections without going through act";
    const IN_BASE_WORLD: bool = false;

    fn meters(_granted: &NeverGranted, _limits: &Limits) -> Count {
        Count::default()
    }

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
