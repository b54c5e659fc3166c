//! Prints a panic as one sanitised line that can be reported.

use std::panic::PanicHookInfo;

use super::line::{Line, Tone};
use act_core::secret::Secrets;

/// Longest message in bytes: a panic may contain data.
const MAX_MESSAGE: usize = 600;

pub fn install_hook(secrets: Secrets) {
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
        // The live row moves down; it is redrawn below the message.
        let before = if super::live::is_shown() { "\r\x1b[2K" } else { "" };
        let text = format!("{before}{}", text(&message(info), place.as_deref(), &secrets));
        super::write(&mut super::queued_writer::stderr(), &text);
    }));
}

fn message(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .into()
}

/// Keys are redacted before the message is cut, so that no part of a key remains.
fn text(message: &str, place: Option<&str>, secrets: &Secrets) -> String {
    secrets.redact(&line(&secrets.redact(message), place).render(false)).into_owned()
}

fn line(message: &str, place: Option<&str>) -> Line {
    let cut: String = message.chars().take(MAX_MESSAGE).collect();
    let mark = if cut.len() < message.len() { "…" } else { "" };
    let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
    Line::of(Tone::Plain, format!("act: internal error{place}: {cut}{mark}; please report this"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_bounded_sanitised_line_without_a_key() {
        // security lines 162, 166
        let text = line("bad\nname \x1b]0;x\x07here", Some("src/a.rs:3")).render(true);
        assert_eq!(
            text,
            "act: internal error at src/a.rs:3: bad\\nname here; please report this\n"
        );
        let (key, dots) = ("sk-canary-0123456789", ".".repeat(MAX_MESSAGE - 10));
        let secrets = Secrets::new([act_core::secret::Secret::new(key)]);
        for message in [format!("called with {key}"), format!("{dots}{key}")] {
            let text = super::text(&message, None, &secrets);
            assert!(text.contains("[redacted") && !text.contains("canary"), "{text}");
        }
        let long = line(&"x".repeat(5000), None).render(true);
        assert!(long.len() < MAX_MESSAGE + 100 && long.contains('…'), "{long}");
    }
}
