//! The capability `random`: random numbers that differ between runs. Without a grant the numbers come from a fixed
//! seed, so that two runs with the same answers of the model are equal.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};
use wasmtime_wasi::random::WasiRandom;

use super::{Access, Grant, Import};
use crate::bounds::Bound;
use crate::call::State;
use crate::failure::{Ended, Limit};
use crate::limits::Limits;
use crate::meter::Count;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Random {
    /// The numbers are the same in every run.
    #[default]
    Seeded,
    Secure,
}

impl Random {
    /// The source of `wasi:random/random`. The numbers of the insecure interfaces repeat in any case.
    pub(crate) fn source(self) -> StdRng {
        match self {
            Self::Seeded => StdRng::seed_from_u64(0),
            Self::Secure => rand::make_rng(),
        }
    }
}

impl Bound for Random {
    fn unlimited() -> Self {
        Self::Secure
    }

    fn meet(&self, other: &Self) -> Self {
        *self.min(other)
    }
}

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = Random;
    type Ceiling = Option<Random>;
    type Meters = Count;
    const MEANING: &'static str = "gets unpredictable numbers";
    const MAY_WAIT: bool = false;

    fn meters(_granted: &Random, _limits: &Limits) -> Count {
        Count::default()
    }

    fn is_behind(import: &Import<'_>) -> bool {
        import.package == "wasi:random"
    }

    fn covers(grant: &Grant, _access: &Access) -> bool {
        grant.random > Random::Seeded
    }

    fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
        random::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
        insecure::add_to_linker::<State, WasiRandom>(linker, |state| state.wasi.random())?;
        insecure_seed::add_to_linker::<State, WasiRandom>(linker, |state| state.wasi.random())
    }
}

impl random::Host for State {
    fn get_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        if length > self.call.grant.limits.host_call_bytes {
            return Err(Ended::Over(Limit::HostCall).into());
        }
        self.count_random();
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        self.random.fill_bytes(&mut bytes);
        Ok(bytes)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.count_random();
        Ok(self.random.next_u64())
    }
}

impl State {
    fn count_random(&self) {
        if self.call.grant.random == Random::Secure {
            self.call.meters.random.add(1);
        }
    }
}
