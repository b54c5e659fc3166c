//! What the model named and is not there. What is clearly meant is put right; what is no file at all is left out; the
//! rest is told to the model, which has one more try.

use act_kit::grounding::Ground;
use act_kit::inventory::{language, name};

/// Faults that are told at a time.
const TOLD: usize = 8;

pub(crate) struct Faults<'g> {
    ground: &'g Ground<'g>,
    told: Vec<String>,
}

impl<'g> Faults<'g> {
    pub(crate) fn new(ground: &'g Ground<'g>) -> Self {
        Self { ground, told: vec![] }
    }

    pub(crate) fn outcome(self) -> Result<(), String> {
        if self.told.is_empty() {
            return Ok(());
        }
        let more = self.told.len().saturating_sub(TOLD);
        let mut told = self.told[..self.told.len().min(TOLD)].join("; ");
        if more > 0 {
            told.push_str(&format!("; and {more} more"));
        }
        Err(told)
    }

    pub(crate) fn add(&mut self, fault: String) {
        self.told.push(fault);
    }

    /// The file that is meant, or a fault.
    pub(crate) fn path(&mut self, field: &str, path: &mut String) -> bool {
        match self.meant(path) {
            Some(meant) => {
                *path = meant;
                true
            }
            None => {
                let shown = path.chars().take(120).collect::<String>();
                self.add(format!("{field}: {}{}", self.ground.fault(&shown), self.hint(&shown)));
                false
            }
        }
    }

    /// The same for lists in which models also name what is no file: packages, functions.
    pub(crate) fn paths(&mut self, field: &str, paths: &mut Vec<String>) {
        let mut kept: Vec<String> = vec![];
        for mut path in std::mem::take(paths) {
            let named = self.meant(&path).is_some() || is_path(&path);
            if named && self.path(field, &mut path) && !kept.contains(&path) {
                kept.push(path);
            }
        }
        *paths = kept;
    }

    /// As the repository has it; also for a path that begins in the middle, if only one file ends like that.
    fn meant(&self, path: &str) -> Option<String> {
        let clean =
            path.trim().trim_matches(['`', '"']).trim_start_matches("./").trim_start_matches('/');
        if self.ground.has(clean) {
            return Some(clean.to_owned());
        }
        let mut ends = self.ground.inventory.paths().filter(|known| {
            known.strip_suffix(clean).is_some_and(|rest| rest.ends_with('/')) && !clean.is_empty()
        });
        let only = ends.next()?;
        ends.next().is_none().then(|| only.to_owned())
    }

    fn hint(&self, path: &str) -> String {
        let same = self.ground.inventory.paths().filter(|known| name(known) == name(path)).take(3);
        let same = same.collect::<Vec<_>>();
        if same.is_empty() { String::new() } else { format!(", but {}", same.join(", ")) }
    }
}

/// Written like a path rather than like a name.
pub(crate) fn is_path(text: &str) -> bool {
    text.contains('/') || language(text).is_some()
}
