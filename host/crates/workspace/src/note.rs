//! Whoever lends a view may want to know which files were read through it.

use std::fmt;
use std::sync::Arc;

type Told = dyn Fn(&str) + Send + Sync;

#[derive(Clone, Default)]
pub(super) struct ReadNote(Option<Arc<Told>>);

impl ReadNote {
    pub(super) fn new(told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(told)))
    }

    pub(super) fn tell(&self, path: &str) {
        if let Some(told) = &self.0 {
            told(path);
        }
    }
}

impl fmt::Debug for ReadNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadNote")
    }
}
