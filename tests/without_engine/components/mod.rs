//! `act components`: which components may take part, and that nothing in a repository can widen what they may do.

mod administrator;
mod approving;
mod calling;
mod changed;
mod compiled;
mod loading;
mod shown;
mod strangers;
mod tries;

use std::path::PathBuf;

use serde_json::Value;

use crate::harness::Act;
use crate::harness::components::{
    approve, asking, components, grants, need, packed, packed_unchecked, scout, sha256_of, tool,
    without_engine,
};

fn listed(act: &Act) -> Value {
    let told = act.clone().act(components(["--json"])).status(0);
    told.document("components")
}

fn state_of(act: &Act, name: &str) -> Value {
    let list = listed(act);
    let all = list["components"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{list:#}"))["state"]
        .clone()
}

fn stored(act: &Act, sha256: &str) -> PathBuf {
    act.artifacts().join(format!("state/components/{sha256}.wasm"))
}
