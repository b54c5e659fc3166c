//! Which reports of a pull are worth a line where lines cannot be redrawn (pure).

use std::collections::BTreeSet;

use super::line::{Line, Tone};

/// More kinds of status than engines have; the rest of them is not shown.
const MAX_STATUSES: usize = 40;

/// Shows every status once, as layers go through them side by side, and each further tenth of the bytes.
#[derive(Debug, Default)]
pub(super) struct PullLines {
    image: String,
    statuses: BTreeSet<String>,
    tenths: u64,
}

impl PullLines {
    pub(super) fn line(
        &mut self,
        image: &str,
        status: &str,
        current: Option<u64>,
        total: Option<u64>,
    ) -> Option<Line> {
        if self.image != image {
            *self = Self { image: image.into(), ..Self::default() };
        }
        let tenths = match (current, total) {
            (Some(current), Some(total)) if total > 0 => {
                u64::try_from(u128::from(current.min(total)) * 10 / u128::from(total)).unwrap_or(10)
            }
            _ => 0,
        };
        let new = self.statuses.len() < MAX_STATUSES && self.statuses.insert(status.into());
        if !new && tenths <= self.tenths {
            return None;
        }
        self.tenths = self.tenths.max(tenths);
        let so_far = so_far(current, total);
        Some(Line::of(Tone::Faint, format!("Image {image}: {status}{so_far}")))
    }
}

/// Begins with a space when there is anything to say.
pub(super) fn so_far(current: Option<u64>, total: Option<u64>) -> String {
    match (current, total) {
        (Some(current), Some(total)) => {
            format!(" {} of {}", mebibytes(current), mebibytes(total))
        }
        (Some(current), None) => format!(" {}", mebibytes(current)),
        _ => String::new(),
    }
}

fn mebibytes(bytes: u64) -> String {
    const MEBIBYTE: u64 = 1 << 20;
    format!("{}.{} MiB", bytes / MEBIBYTE, bytes % MEBIBYTE * 10 / MEBIBYTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pull: &mut PullLines, image: &str, status: &str, current: u64) -> Option<String> {
        let line = pull.line(image, status, Some(current << 20), Some(100 << 20))?;
        Some(line.render(false))
    }

    #[test]
    fn a_pull_shows_each_status_and_each_tenth_once() {
        let mut pull = PullLines::default();
        let first = shown(&mut pull, "i", "downloading", 1);
        assert_eq!(first.as_deref(), Some("Image i: downloading 1.0 MiB of 100.0 MiB\n"));
        assert_eq!(shown(&mut pull, "i", "downloading", 5), None);
        assert!(shown(&mut pull, "i", "waiting", 5).is_some());
        assert_eq!(shown(&mut pull, "i", "downloading", 6), None);
        assert!(shown(&mut pull, "i", "downloading", 10).is_some());
        assert_eq!(shown(&mut pull, "i", "waiting", 11), None);
        assert!(shown(&mut pull, "another", "waiting", 11).is_some());
    }

    #[test]
    fn statuses_without_end_are_not_all_shown() {
        let mut pull = PullLines::default();
        let lines =
            (0..1000).filter(|n| shown(&mut pull, "i", &format!("status {n}"), 1).is_some());
        assert_eq!(lines.count(), MAX_STATUSES);
    }
}
