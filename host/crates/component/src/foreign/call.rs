//! One call of one function: arguments in, an answer for the model out.

use serde_json::{Value, json};
use wasmtime::Store;
use wasmtime::component::{InstancePre, Val};

use super::lift::{lift, payload};
use super::lower;
use super::types::{Function, Type};
use crate::ToolOutcome;
use crate::call::{CallContext, State};
use crate::failure::{Ended, GuestFailure, MAX_LINE, one_line};
use act_workspace::Applied;

/// The arguments are looked at before anything of the component runs.
pub(crate) async fn call(
    pre: &InstancePre<State>,
    functions: &[Function],
    store: &mut Store<State>,
    tool: &str,
    arguments: &str,
) -> wasmtime::Result<Result<ToolOutcome, GuestFailure>> {
    let Some(function) = functions.iter().find(|function| function.tool == tool) else {
        return Ok(Err(GuestFailure::UnknownTool));
    };
    let params = match lower::arguments(&function.params, arguments) {
        Ok(params) => params,
        Err(misfit) => {
            let why = one_line(&misfit.to_string(), MAX_LINE);
            return Ok(Err(GuestFailure::BadArguments(why)));
        }
    };
    let instance = pre.instantiate_async(&mut *store).await?;
    let gone = || wasmtime::format_err!("it has no function `{}` any more", function.name);
    let interface = match &function.interface {
        Some(name) => Some(instance.get_export_index(&mut *store, None, name).ok_or_else(gone)?),
        None => None,
    };
    let index = instance.get_export_index(&mut *store, interface.as_ref(), &function.name);
    let index = index.ok_or_else(gone)?;
    let callee = instance.get_func(&mut *store, index).ok_or_else(gone)?;
    let mut results = vec![Val::Bool(false); usize::from(function.result.is_some())];
    callee.call_async(&mut *store, &params, &mut results).await?;
    let (mut answer, mut is_error) = answer(function.result.as_ref(), results.first())
        .ok_or_else(|| wasmtime::format_err!("its answer is not of the type that it has"))?;
    // What a call that failed has written is thrown away with its scratch copy.
    if !is_error {
        is_error = !hand_over(&mut store.data_mut().call, &mut answer)?;
    }
    Ok(Ok(ToolOutcome { text: answer.to_string(), is_error }))
}

/// Has what was written in the scratch copy changed in the repository, all or nothing, and says so in the answer.
fn hand_over(query: &mut CallContext, answer: &mut Value) -> Result<bool, Ended> {
    let changes = query.scratch.take().map(|scratch| scratch.changes()).unwrap_or_default();
    if changes.is_empty() {
        return Ok(true);
    }
    let refused = |answer: &mut Value, reason: &str, why: String| {
        answer["ok"] = json!(false);
        answer["reason"] = json!(reason);
        answer["message"] = json!(format!("{why}; nothing of what it wrote was kept"));
    };
    match query.edit(&changes)? {
        Some(Ok(applied)) => {
            let one = |one: &Applied| {
                let version = one.version.as_ref().map(|version| version.number);
                json!({"path": one.path, "op": one.op, "new_version": version})
            };
            answer["changed"] = applied.iter().map(one).collect();
            return Ok(true);
        }
        Some(Err(error)) => {
            refused(answer, error.word().unwrap_or("tool_failed"), error.to_string());
        }
        None => refused(answer, "tool_failed", "nothing can be written here".to_owned()),
    }
    Ok(false)
}

/// A function that answers with a `result` says by itself whether it worked.
fn answer(of: Option<&Type>, value: Option<&Val>) -> Option<(Value, bool)> {
    let worked = |value: Value| (json!({"ok": true, "result": value}), false);
    Some(match (of, value) {
        (None, _) => (json!({"ok": true}), false),
        (Some(Type::Result(ok, error)), Some(Val::Result(result))) => match result {
            Ok(value) => worked(payload(ok.as_deref(), value.as_deref())?),
            Err(value) => {
                let error = payload(error.as_deref(), value.as_deref())?;
                (json!({"ok": false, "reason": "tool_failed", "error": error}), true)
            }
        },
        (Some(of), Some(value)) => worked(lift(of, value)?),
        (Some(_), None) => return None,
    })
}
