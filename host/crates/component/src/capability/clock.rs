//! The capability `clock`: how finely a component sees time. Without a grant the date cannot be read: the interface has no
//! error, and a date of 1970 would be a wrong answer that looks like a right one, so the call traps. The monotonic clock stands
//! still, because the start of language runtimes reads it and its value means nothing outside of one call.

use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::p2::bindings::clocks;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

use super::{Access, Capability, Grant, Import, Meters, Need};
use crate::bounds::Bound;
use crate::call::State;
use crate::failure::Ended;
use crate::limits::Limits;
use crate::meter::Count;

/// Step of the coarse monotonic clock, in nanoseconds: 10 ms is too coarse to time a single operation.
const STEP: u64 = 10_000_000;

/// The resolution of the clocks, from the lowest to the highest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The date cannot be read, and the monotonic clock does not advance.
    #[default]
    Constant,
    /// The wall clock shows whole seconds, and the monotonic clock advances in steps of 10 ms.
    Coarse,
    Precise,
}

impl Bound for Clock {
    fn unlimited() -> Self {
        Self::Precise
    }

    fn meet(&self, other: &Self) -> Self {
        *self.min(other)
    }
}

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = Clock;
    type Ceiling = Option<Clock>;
    type Meters = Count;
    const MEANING: &'static str = "reads the time";
    const MAY_WAIT: bool = false;

    fn meters(_granted: &Clock, _limits: &Limits) -> Count {
        Count::default()
    }

    fn is_behind(import: &Import<'_>) -> bool {
        import.package == "wasi:clocks"
    }

    fn requested(need: &Need) -> Clock {
        need.level.unwrap_or(Clock::Coarse)
    }

    fn in_words(clock: &Clock) -> Option<String> {
        Some(format!("({clock:?})").to_lowercase())
    }

    fn covers(grant: &Grant, _access: &Access) -> bool {
        grant.clock > Clock::Constant
    }

    fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
        clocks::wall_clock::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
        clocks::monotonic_clock::add_to_linker::<State, WasiClocks>(linker, State::clocks)
    }
}

impl clocks::wall_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<clocks::wall_clock::Datetime> {
        if self.call.grant.clock == Clock::Constant {
            self.call.deny(Capability::Clock, "the date");
            return Err(Ended::Withheld(Capability::Clock.name()).into());
        }
        WasiClocksView::clocks(self).now()
    }

    fn resolution(&mut self) -> wasmtime::Result<clocks::wall_clock::Datetime> {
        WasiClocksView::clocks(self).resolution()
    }
}

/// Both clocks of one call, with the resolution that its grant allows.
pub(crate) struct GrantedClock {
    pub(crate) level: Clock,
    pub(crate) began: Instant,
    pub(crate) meters: Arc<Meters>,
}

impl GrantedClock {
    /// Reads the clock. Without the grant the clock does not advance; with the grant the reading is recorded.
    fn read<T: Default>(&self, coarse: impl FnOnce() -> T, precise: impl FnOnce() -> T) -> T {
        let read = match self.level {
            Clock::Constant => return T::default(),
            Clock::Coarse => coarse(),
            Clock::Precise => precise(),
        };
        self.meters.clock.add(1);
        read
    }
}

impl HostWallClock for GrantedClock {
    fn resolution(&self) -> Duration {
        match self.level {
            Clock::Precise => Duration::from_nanos(1),
            _ => Duration::from_secs(1),
        }
    }

    fn now(&self) -> Duration {
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.read(|| Duration::from_secs(now().as_secs()), now)
    }
}

impl HostMonotonicClock for GrantedClock {
    fn resolution(&self) -> u64 {
        if self.level == Clock::Coarse { STEP } else { 1 }
    }

    fn now(&self) -> u64 {
        let passed = || u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.read(|| passed() / STEP * STEP, passed)
    }
}
