//! `act components approve`: shows everything first, then asks. No other command asks a question.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use rustix::termios::{QueueSelector, tcflush};

use super::{decided, lines, print};
use crate::output::{Line, Output, Tone};
use crate::task::capabilities::{self as task, Proposal};
use act_core::Failure;
use act_core::event::Events;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  act components approve scout.wasm --name licences
  act components approve scout.wasm --name licences --here --without llm
  act components approve next.wasm --name scout-next --replaces scout-a

Exit codes:
  0 approved, 1 refused or not answered with `yes`, nothing was changed";

/// Approve a component with the permissions that it needs
///
/// Shows digest, imports, needs and what has changed, then asks. Without a terminal, `--sha256` with the digest that you
/// have looked at is the answer.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Approve {
    /// The component: a .wasm file
    file: PathBuf,
    /// Name of the component in tasks; its tools are named NAME__TOOL
    #[arg(long)]
    name: String,
    /// The digest that is approved; required without a terminal
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    /// The built-in component that it replaces
    #[arg(long, value_name = "BUILTIN")]
    replaces: Option<String>,
    /// Approve for this repository only
    #[arg(long)]
    here: bool,
    /// Approve for every repository, even if it was approved for one only
    #[arg(long, conflicts_with = "here")]
    everywhere: bool,
    /// Grant everything that it needs, including what was removed before
    #[arg(long)]
    anew: bool,
    /// Do not grant this need; may be repeated
    #[arg(long, value_name = "GRANT")]
    without: Vec<String>,
}

impl Approve {
    pub(super) fn run(self, start: PathBuf, output: &Output) -> Result<Exit, Failure> {
        let args = task::Approve {
            file: self.file.clone(),
            name: self.name.clone(),
            replaces: self.replaces.clone(),
            here: self.here,
            everywhere: self.everywhere,
            anew: self.anew,
            without: self.without.clone(),
            start,
        };
        let proposal = {
            // Gone before the question: its line would be drawn over what is typed.
            let events = Events::new("", vec![output.progress_sink()]);
            task::propose(args, &events)?
        };
        self.compare(&proposal)?;
        lines::proposed(&proposal).iter().for_each(|line| output.progress(line));
        for origin in proposal.never_reached() {
            output.caution(&format!("{origin} is not public: no component ever reaches it"));
        }
        if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
            ask(output)?;
        } else if self.sha256.is_none() {
            return Err(self.unanswered(&proposal));
        }
        let difference = proposal.difference.clone();
        let document = proposal.approve(output)?;
        print(output, &Approved { component: &document, difference: difference.as_ref() }, || {
            let grants = lines::grants(&document.grants).join(", ");
            vec![decided("Approved", &document.name).and(Tone::Plain, format!(": {grants}"))]
        });
        Ok(Exit::Ok)
    }

    fn compare(&self, proposal: &Proposal) -> Result<(), Failure> {
        let found = &proposal.inspection.sha256;
        match &self.sha256 {
            Some(said) if !said.eq_ignore_ascii_case(found) => {
                let message = format!("--sha256 says {said}, the file has {found}");
                Err(Failure::refused("sha256_differs", message)
                    .hint("look at the file again with `act components inspect FILE`"))
            }
            _ => Ok(()),
        }
    }

    /// Nobody is there to say yes.
    fn unanswered(&self, proposal: &Proposal) -> Failure {
        let sha256 = &proposal.inspection.sha256;
        Failure::refused(
            "approval_unanswered",
            "an approval needs a terminal, or the digest that you have looked at",
        )
        .hint(format!("add --sha256 {sha256}"))
    }
}

#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Approved<'a> {
    component: &'a act_component::registry::ComponentDocument,
    /// In comparison with what had the name before; null when it is new.
    difference: Option<&'a task::Difference>,
}

fn ask(output: &Output) -> Result<(), Failure> {
    // What was typed before the question is no answer to it.
    tcflush(std::io::stdin(), QueueSelector::IFlush)
        .map_err(|errno| not_approved(&format!("the terminal cannot be asked: {errno}")))?;
    output.progress(&Line::of(Tone::Strong, "Type `yes` to approve exactly these bytes:"));
    let mut answer = String::new();
    let mut terminal = std::io::stdin().lock();
    // One line, and no more of it than an answer has.
    let read = std::io::Read::take(&mut terminal, 100).read_line(&mut answer);
    match read {
        Ok(_) if answer.trim() == "yes" => Ok(()),
        _ => Err(not_approved("not approved")),
    }
}

fn not_approved(why: &str) -> Failure {
    Failure::refused("not_approved", why).hint("nothing was changed")
}

#[cfg(test)]
mod tests {
    use act_core::event::schema;

    #[test]
    fn the_schema_of_an_approval_is_published() {
        // EVENT-8
        schema::holds::<super::Approved<'_>>("components-approve");
    }
}
