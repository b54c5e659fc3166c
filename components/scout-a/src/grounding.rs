//! Checks the files that the model named. A path that clearly means a file is corrected, and a name that is no path is left
//! out. The model is shown the other faults and may report once more.

use act_kit::grounding::Ground;
use act_kit::inventory::{language, name};

/// Maximum number of faults in one message.
const SHOWN: usize = 8;

pub(crate) struct Faults<'g> {
    ground: &'g Ground<'g>,
    faults: Vec<String>,
}

impl<'g> Faults<'g> {
    pub(crate) fn new(ground: &'g Ground<'g>) -> Self {
        Self { ground, faults: vec![] }
    }

    pub(crate) fn outcome(self) -> Result<(), String> {
        if self.faults.is_empty() {
            return Ok(());
        }
        let more = self.faults.len().saturating_sub(SHOWN);
        let mut faults = self.faults[..self.faults.len().min(SHOWN)].join("; ");
        if more > 0 {
            faults.push_str(&format!("; and {more} more"));
        }
        Err(faults)
    }

    pub(crate) fn add(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// Replaces a path by the file that it means, or adds a fault. Returns whether there is such a file.
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

    /// Replaces the paths of a list. Models also put packages and functions into these lists; those are left out.
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

    /// Returns the file that a path means. A path that starts in the middle means the only file with that ending.
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

/// Returns whether a text is written like a path.
pub(crate) fn is_path(text: &str) -> bool {
    text.contains('/') || language(text).is_some()
}
