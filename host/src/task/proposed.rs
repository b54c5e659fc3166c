//! A proposal that waits to be applied, looked at: `act apply --show`.

use std::path::Path;

use serde::Serialize;

use super::lookup::Lookup;
use super::proposal;
use act_core::Failure;
use act_core::event::Patch;

/// The patch of a dry run, as that showed it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Proposed {
    /// The dry run.
    pub task_id: String,
    #[serde(flatten)]
    pub patch: Patch,
}

/// Of this dry run, or the one that `act apply` would take without a name.
pub fn proposed(start: &Path, task: Option<&str>) -> Result<Proposed, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, _) = lookup.context()?;
    let record = proposal::find(&context, task)?;
    let patch = proposal::open(&context, &record)?.patch;
    Ok(Proposed { task_id: record.task_id, patch: Patch(patch.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_proposal_is_published() {
        // EVENT-8
        schema::holds::<Proposed>("proposed");
    }
}
