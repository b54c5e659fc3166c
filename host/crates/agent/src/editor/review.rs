//! The model meets its own changes again: with every edit, and in whole before a verification where an edit
//! was too long to be shown. The criteria of the plan stand beside them.

use serde_json::{Map, Value, json};

use super::hands::Answer;
use super::reread;
use super::session::Session;

impl Session<'_> {
    /// The answer to a call of the hands, with what it changed. An answer that is no JSON object stays as it is.
    pub(super) fn with_change(&mut self, answer: Answer) -> Answer {
        let hands = &self.editor.hands;
        let paths: Vec<_> = hands.changed().into_iter().map(|file| file.path).collect();
        let edited = self.reread.after_call(&paths, &|path| hands.text(path));
        if !edited.changed {
            return answer;
        }
        let Ok(mut told) = serde_json::from_str::<Map<String, Value>>(&answer.json) else {
            return answer;
        };
        if let Some(diff) = edited.diff {
            told.insert("diff".to_owned(), diff.into());
        }
        if !std::mem::replace(&mut self.reminded, true) {
            told.extend(self.measures());
        }
        Answer { json: Value::Object(told).to_string(), ..answer }
    }

    /// What the model has not seen of its changes, in place of a verification; once for each such change.
    pub(super) fn owed(&mut self) -> Option<Answer> {
        let hands = &self.editor.hands;
        let difference = self.reread.owed(&|path| hands.text(path))?;
        let message = "not run yet: compare the difference with the criteria, mend what does not hold, \
                       then call verify again";
        let mut told = json!({"ok": false, "reason": "not_verified", "message": message});
        if let Some(told) = told.as_object_mut() {
            told.insert("diff".to_owned(), difference.into());
            told.extend(self.measures());
        }
        Some(Answer { json: told.to_string(), is_error: true })
    }

    /// Why a verification would not be one of what was changed: git ignores files since its rules were changed.
    pub(super) fn hidden(&self) -> Option<Answer> {
        let untested = self.editor.hands.untested().into_iter().filter(|file| !file.allowed);
        let paths: Vec<_> = untested.map(|file| file.path).collect();
        let message = "git ignores these changed files by now, so the Verifier would not see them: take what \
                       ignores them out of .gitignore, then call verify again";
        (!paths.is_empty()).then(|| {
            let told =
                json!({"ok": false, "reason": "not_verified", "message": message, "paths": paths});
            Answer { json: told.to_string(), is_error: true }
        })
    }

    /// All changes so far, for a conversation that knows none of them.
    pub(super) fn whole_difference(&self) -> String {
        let hands = &self.editor.hands;
        let paths: Vec<_> = hands.changed().into_iter().map(|file| file.path).collect();
        reread::whole(&paths, &|path| hands.text(path))
    }

    /// What the task is measured by, as far as its plans say.
    fn measures(&self) -> Map<String, Value> {
        let goals = self.plans.goals();
        let mut all = Map::new();
        for (name, items) in [
            ("criteria", &goals.criteria),
            ("acceptance", &goals.acceptance),
            ("non_goals", &goals.non_goals),
        ] {
            if !items.is_empty() {
                all.insert(name.to_owned(), json!(items));
            }
        }
        all
    }
}
