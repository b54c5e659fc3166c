//! The plainest text that a pattern matches.

use regex_syntax::Parser;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Parts of a pattern, each as often as it is repeated.
const STEPS: usize = 10_000;

/// None where the pattern cannot be read, or asks for more than is made. Where it asks for a boundary inside of the text, what
/// is made need not match.
pub(super) fn text(pattern: &str) -> Option<String> {
    let mut made = Made { text: String::new(), left: STEPS };
    made.write(&Parser::new().parse(pattern).ok()?)?;
    Some(made.text)
}

struct Made {
    text: String,
    left: usize,
}

impl Made {
    fn write(&mut self, hir: &Hir) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => self.text.push_str(std::str::from_utf8(&literal.0).ok()?),
            HirKind::Class(Class::Unicode(class)) => {
                self.text.push(class.ranges().first()?.start());
            }
            HirKind::Class(Class::Bytes(class)) => {
                self.text.push(class.ranges().first()?.start().into());
            }
            HirKind::Repetition(repeated) => {
                for _ in 0..repeated.min {
                    self.write(&repeated.sub)?;
                }
            }
            HirKind::Capture(capture) => self.write(&capture.sub)?,
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.write(part))?,
            HirKind::Alternation(parts) => self.write(parts.first()?)?,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // COMPONENT-7
    #[test]
    fn what_is_made_matches() {
        for pattern in [
            "^(0|[1-9][0-9]{0,19})$",
            "^[a-z][a-z0-9-]*$",
            "^run_[0-9]{8}_[0-9]{6}_[0-9a-f]{6}$",
            r"^\d+\.\d+(\.\d+)?$",
            "(?i)^(yes|no)$",
            "",
        ] {
            let made = text(pattern).unwrap();
            assert!(regex::Regex::new(pattern).unwrap().is_match(&made), "{pattern}: {made}");
        }
        assert_eq!(text("("), None);
        assert_eq!(text("((a|b){4000}){4000}"), None);
        assert_eq!(text("(a{1000}){1000}"), None);
    }
}
