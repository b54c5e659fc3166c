//! `repo.symbols` before there is a grammar: no language is known, and every file says so.

use super::denied;
use crate::component::bindings::symbols::{Host, Outline};
use crate::component::bindings::types::Refusal;
use crate::component::state::State;

impl Host for State {
    fn languages(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(vec![])
    }

    fn outlines(&mut self, paths: Vec<String>) -> wasmtime::Result<Vec<Result<Outline, Refusal>>> {
        let refusal = match self.query.read {
            Some(_) => Refusal::Invalid("no_grammar: no language can be parsed here".to_owned()),
            None => {
                self.query.denials.deny("repo.read", "repo.symbols");
                denied("repo.read")
            }
        };
        Ok(paths.iter().map(|_| Err(refusal.clone())).collect())
    }
}
