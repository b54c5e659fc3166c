//! The component's export.

use act_kit::tool::{NotRun, Outcome, editable_repository};
use act_kit::world::World;

act_kit::tool!(call);

fn call(_: World<'_>, name: &str, arguments: &str) -> Result<Outcome, NotRun> {
    crate::run(editable_repository(), name, arguments)
}
