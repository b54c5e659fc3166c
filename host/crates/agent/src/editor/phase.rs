//! Where the Editor's conversation stands and what may happen there. Pure.

use super::Aim;
use act_model::Stop;

/// Turns without a verification after which the host verifies by itself.
pub(super) const TURNS_PER_ATTEMPT: u32 = 40;
/// Turns in a row without a tool call after which a model counts as idle.
pub(super) const SILENT_TURNS: u32 = 3;
/// Turns after a green run that a model may take before the host writes the summary.
pub(super) const CLOSING_TURNS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing but `plan`.
    Planning,
    Working,
    /// The tree as it stands is green.
    Closing,
}

/// Why a host tool is refused here, in the words of the conversation's contract; none when it may run.
pub(super) fn refusal(aim: Aim, phase: Phase, tool: &str) -> Option<&'static str> {
    match (phase, tool) {
        (Phase::Planning, "plan") => None,
        (Phase::Planning, _) => Some("plan_first"),
        (_, "verify") if aim == Aim::Proposal => Some("dry_run"),
        (Phase::Working, "done") if aim == Aim::Proposal => None,
        (Phase::Working, "done") => Some("not_verified"),
        _ => None,
    }
}

/// What follows a turn in which the model called no tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    Nudge,
    Verify,
    /// The model does nothing any more: STUCK, `model_idle`.
    Idle,
    /// Green and no `done`: the host writes the summary itself.
    HostSummary,
    /// A dry run is complete.
    Propose,
}

/// `edited`: something changed since the last verification. `in_row`: silent turns, this one included.
/// `cut`: the turn ended for length or was refused by the provider, so silence says nothing.
pub(super) fn after_silence(
    aim: Aim,
    phase: Phase,
    edited: bool,
    cut: bool,
    in_row: u32,
) -> Silence {
    match phase {
        Phase::Working if aim == Aim::Proposal && !cut => Silence::Propose,
        Phase::Working if edited && !cut => Silence::Verify,
        Phase::Planning | Phase::Working if in_row >= SILENT_TURNS => Silence::Idle,
        Phase::Closing if in_row >= CLOSING_TURNS => Silence::HostSummary,
        _ => Silence::Nudge,
    }
}

/// What is overdue after a turn, spoken or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    No,
    Idle,
    Verify,
    HostSummary,
    Propose,
}

/// `turns`: since the last verification. `closing`: since the tree became green and stayed so.
pub(super) fn after_turns(aim: Aim, phase: Phase, turns: u32, closing: u32) -> Overdue {
    match phase {
        Phase::Planning if turns >= TURNS_PER_ATTEMPT => Overdue::Idle,
        Phase::Working if turns >= TURNS_PER_ATTEMPT && aim == Aim::Proposal => Overdue::Propose,
        Phase::Working if turns >= TURNS_PER_ATTEMPT => Overdue::Verify,
        Phase::Closing if closing >= CLOSING_TURNS => Overdue::HostSummary,
        _ => Overdue::No,
    }
}

/// What the host says to a silent model.
pub(super) fn nudge(phase: Phase, stop: Stop) -> &'static str {
    match (phase, stop) {
        (_, Stop::Refused) => {
            "Your turn was refused, or taken away by a filter. Go on with what can be done of the task, with \
             tool calls."
        }
        (_, Stop::Length) => {
            "Your turn ended before it was complete. Continue in smaller steps, with tool calls."
        }
        (Phase::Planning, _) => "Call `plan` first.",
        (Phase::Working, _) => {
            "Nothing has been edited since the last verification. Use the file tools to make the change, \
             or call `verify`. Words alone do not finish the task."
        }
        (Phase::Closing, _) => "The tree is green. Call `done`, or edit on and verify again.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_plan_every_other_tool_is_refused() {
        for tool in ["verify", "done", "read", "edit_line", "ask_scout"] {
            assert_eq!(refusal(Aim::Green, Phase::Planning, tool), Some("plan_first"));
        }
        assert_eq!(refusal(Aim::Green, Phase::Planning, "plan"), None);
    }

    #[test]
    fn done_needs_a_green_run() {
        assert_eq!(refusal(Aim::Green, Phase::Working, "done"), Some("not_verified"));
        assert_eq!(refusal(Aim::Green, Phase::Closing, "done"), None);
    }

    #[test]
    fn silence_after_edits_verifies_and_otherwise_ends_at_the_third() {
        assert_eq!(after_silence(Aim::Green, Phase::Working, true, false, 1), Silence::Verify);
        assert_eq!(after_silence(Aim::Green, Phase::Working, false, false, 1), Silence::Nudge);
        assert_eq!(after_silence(Aim::Green, Phase::Working, false, false, 2), Silence::Nudge);
        assert_eq!(after_silence(Aim::Green, Phase::Working, false, false, 3), Silence::Idle);
        assert_eq!(after_silence(Aim::Green, Phase::Planning, false, false, 3), Silence::Idle);
        assert_eq!(
            after_silence(Aim::Green, Phase::Closing, false, false, 3),
            Silence::HostSummary
        );
    }

    #[test]
    fn the_fortieth_turn_of_an_attempt_verifies() {
        assert_eq!(after_turns(Aim::Green, Phase::Working, 39, 0), Overdue::No);
        assert_eq!(after_turns(Aim::Green, Phase::Working, 40, 0), Overdue::Verify);
        assert_eq!(after_turns(Aim::Green, Phase::Planning, 40, 0), Overdue::Idle);
        assert_eq!(after_turns(Aim::Green, Phase::Closing, 1, 3), Overdue::HostSummary);
    }

    #[test]
    fn a_cut_turn_is_no_claim_to_be_finished() {
        assert_eq!(after_silence(Aim::Green, Phase::Working, true, true, 1), Silence::Nudge);
    }

    /// EDITOR-50
    #[test]
    fn a_dry_run_verifies_nothing_and_ends_with_done_or_silence() {
        let dry = Aim::Proposal;
        assert_eq!(refusal(dry, Phase::Working, "verify"), Some("dry_run"));
        assert_eq!(refusal(dry, Phase::Working, "done"), None);
        assert_eq!(refusal(dry, Phase::Planning, "done"), Some("plan_first"));
        assert_eq!(after_silence(dry, Phase::Working, true, false, 1), Silence::Propose);
        assert_eq!(after_silence(dry, Phase::Working, false, false, 1), Silence::Propose);
        assert_eq!(after_silence(dry, Phase::Working, true, true, 1), Silence::Nudge);
        assert_eq!(after_silence(dry, Phase::Planning, false, false, 3), Silence::Idle);
        assert_eq!(after_turns(dry, Phase::Working, 40, 0), Overdue::Propose);
    }
}
