//! `act run --again TASK`: a new task with the text and the mode of one that has ended.

use super::RunArgs;
use super::lookup::Lookup;
use act_core::Failure;
use act_records::store::TaskRecord;

/// Returns `args` with the text and the mode of the ended task `task_id`. Permissions and budgets are those of `args`:
/// what the user granted to the earlier task is not granted again.
///
/// # Errors
///
/// Refused with `task_unknown` when the task is not known, belongs to another repository, or has not ended.
pub fn again(task_id: &str, args: RunArgs) -> Result<RunArgs, Failure> {
    let lookup = Lookup::open(&args.repo)?;
    let (context, root) = lookup.context()?;
    let unknown = |message: String| Failure::refused("task_unknown", message);
    let Some(record) = lookup.store.task(task_id)? else {
        return Err(unknown(format!("no task {task_id} is known"))
            .hint("`act history` lists the tasks of this repository"));
    };
    if record.repo != context.repo {
        let (there, here) = (&record.root, root.display());
        return Err(unknown(format!("task {task_id} belongs to {there}, not to {here}"))
            .hint("go into that repository, or name it with --repo"));
    }
    if !record.state.is_final() {
        let state = record.state.as_str();
        return Err(unknown(format!("task {task_id} has not ended: it is {state}"))
            .hint(format!("`act cancel --id {task_id}` ends it")));
    }
    let TaskRecord { text, flags, .. } = record;
    Ok(RunArgs { text, mode: flags.into(), ..args })
}
