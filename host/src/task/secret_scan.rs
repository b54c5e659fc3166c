//! What the user says goes to Scouts and to the model and is kept in the store, where a key has no business.
use act_core::Failure;

/// Refuses words that hold the value of a key of the environment; `what` they are.
pub(super) fn refuse(what: &str, text: &str) -> Result<(), Failure> {
    let keys = super::preflight::secrets().unmistakable();
    if !keys.are_in(text) {
        return Ok(());
    }
    let message =
        format!("the {what} holds a key: the value of ANTHROPIC_API_KEY or OPENAI_API_KEY");
    let hint = "name the variable instead of its value; the text is sent to the model and stored";
    Err(Failure::refused("key_in_text", message).hint(hint))
}
