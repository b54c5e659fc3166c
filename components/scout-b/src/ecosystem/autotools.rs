//! GNU Autotools: `configure.ac` and `Makefile.am`, from which a Makefile is made.

use crate::draft::{Draft, Rank};
use crate::facts::{Kind, System};
use crate::tree::{Tree, location};
use act_kit::reports::commands::Family;

pub(super) fn project(tree: &Tree<'_>, root: &str) -> Option<Draft> {
    let path = tree.first(root, &["configure.ac", "configure.in"])?;
    let makefile = tree.first(root, &["Makefile.am"])?;
    let mut draft = Draft::new(root, System::Make, Family::Any, tree.location(&path, "AC_INIT"));
    draft.custom(Kind::Build, "autoreconf -fi && ./configure && make");
    draft.custom(Kind::Clean, "make clean");
    let text = tree.text(&makefile).unwrap_or_default();
    let tests = text.lines().position(|line| {
        let word = line.split(|c: char| c.is_whitespace() || "+=:".contains(c)).next();
        matches!(word, Some("TESTS" | "check_PROGRAMS" | "check_SCRIPTS" | "check-local"))
    });
    if let Some(line) = tests {
        let source = location(&makefile, u32::try_from(line + 1).unwrap_or(1));
        draft.offer(Kind::Test, Rank::Configured, "make check", source);
    }
    draft.has_tests = tests.is_some() || tree.tests(root).next().is_some();
    for name in ["autoconf", "automake", "make", "c compiler"] {
        draft.needs(name, None, draft.source.clone());
    }
    if tree.text(&path).is_some_and(|text| text.contains("LT_INIT")) {
        draft.needs("libtool", None, draft.source.clone());
    }
    Some(draft)
}
