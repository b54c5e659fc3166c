//! Tells what was refused to a component, without letting a component flood the stream with refusals.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::audited::Audited;
use super::failure::one_line;
use super::usage::Usage;
use super::voice::Voice;
use act_core::event::EventKind;

/// Denials that one query has told one by one; the rest is told as a number at its end.
const MAX_TOLD: usize = 50;
const MAX_OBJECT: usize = 200;

/// The denials of one query, for its thread and for what it has under way elsewhere.
#[derive(Clone)]
pub(super) struct Denials(Arc<Mutex<Told>>);

struct Told {
    name: String,
    voice: Voice,
    audited: Option<Arc<Audited>>,
    usage: Usage,
    total: u64,
    told: HashSet<(&'static str, String)>,
}

impl Denials {
    pub(super) fn new(
        name: &str,
        voice: Voice,
        audited: Option<Arc<Audited>>,
        usage: Usage,
    ) -> Self {
        let (name, told) = (name.to_owned(), HashSet::new());
        Self(Arc::new(Mutex::new(Told { name, voice, audited, usage, total: 0, told })))
    }

    /// `grant` is what covers such an access or names the limit; `object` is what was asked for.
    pub(super) fn deny(&self, grant: &'static str, object: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).deny(grant, object);
    }
}

impl Told {
    fn deny(&mut self, grant: &'static str, object: &str) {
        self.total += 1;
        self.usage.denied();
        if self.told.len() >= MAX_TOLD {
            return;
        }
        let object = one_line(object, MAX_OBJECT);
        if self.told.insert((grant, object.clone())) {
            if let Some(audited) = &self.audited {
                audited.denied(grant, &object);
            }
            self.emit(grant, object);
        }
    }

    fn emit(&self, grant: &'static str, object: String) {
        let grant = grant.to_owned();
        self.voice.tell(EventKind::ComponentDenied { name: self.name.clone(), grant, object });
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if self.total > self.told.len() as u64 {
            if let Some(audited) = &self.audited {
                audited.more_denied(self.total);
            }
            self.emit("total", format!("{} denials in this query", self.total));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::{Event, Events, Sink};
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<(String, String)>>>);

    impl Sink for Seen {
        fn event(&mut self, event: &Event) {
            let EventKind::ComponentDenied { grant, object, .. } = &event.kind else { panic!() };
            self.0.lock().unwrap().push((grant.clone(), object.clone()));
        }
    }

    fn told(ask: impl FnOnce(&Denials)) -> Vec<(String, String)> {
        let seen = Seen::default();
        let events = Events::new("", vec![Box::new(seen.clone())]);
        ask(&Denials::new("guest", Voice::new(events), None, Usage::default()));
        let told = seen.0.lock().unwrap();
        told.clone()
    }

    #[test]
    fn a_few_denials_are_told_one_by_one() {
        let told = told(|denials| {
            denials.deny("repo.read", ".env");
            denials.deny("repo.read", "a\nb");
        });
        assert_eq!(
            told,
            [(String::from("repo.read"), ".env".into()), ("repo.read".into(), "a b".into())]
        );
    }

    // CAPABILITY-9
    #[test]
    fn many_denials_end_in_a_total() {
        let told =
            told(|denials| (0..1000).for_each(|i| denials.deny("repo.read", &i.to_string())));
        assert_eq!(told.len(), MAX_TOLD + 1);
        assert_eq!(told[MAX_TOLD], ("total".into(), "1000 denials in this query".into()));
    }

    #[test]
    fn the_same_denial_is_told_once_and_counted() {
        let told = told(|denials| (0..3).for_each(|_| denials.deny("llm", "chat")));
        assert_eq!(
            told,
            [
                ("llm".into(), "chat".into()),
                ("total".into(), String::from("3 denials in this query"))
            ]
        );
    }
}
