//! A text that begins with a dash, as an item of a list does, is taken for options; then it is said how to write it.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

const TIP: &str = "a text that begins with a dash stands behind `--`, after all options: act run -- \"- fix the parser\"";

/// The same error, with that tip if such a text may be its cause.
pub(super) fn explained(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let misspelt = error.get(ContextKind::SuggestedArg).is_some();
    if error.kind() == ErrorKind::UnknownArgument && !misspelt && arguments.iter().any(is_dashed) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![TIP.into()]));
    }
    error
}

/// Options have no blank in their name, only in a value.
fn is_dashed(argument: &OsString) -> bool {
    let text = argument.to_string_lossy();
    let name = text.split('=').next().unwrap_or_default();
    name.starts_with('-') && name.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn told(arguments: &[&str]) -> String {
        let arguments: Vec<_> = [&["act"], arguments].concat().iter().map(OsString::from).collect();
        let error = Cli::command().try_get_matches_from(&arguments).unwrap_err();
        explained(error, &arguments).render().to_string()
    }

    // CLI-4
    #[test]
    fn a_text_is_told_from_an_option() {
        for text in ["- fix x", "-fix x", "--fix x", "-\tx"] {
            let told = told(&["run", text]);
            assert!(told.contains(TIP), "{told}");
            assert!(!told.contains("to pass"), "{told}");
        }
        for arguments in [
            &["run", "--dryrun", "- fix x"][..],
            &["run", "--no-such", "fix x"],
            &["run", "--no-such=a b", "fix"],
            &["run", "-q"],
        ] {
            assert!(!told(arguments).contains(TIP), "{arguments:?}");
        }
    }
}
