//! Which reports of a pull are worth a line where lines cannot be redrawn (pure).

use super::line::{Line, Tone};

/// Shows a new status, and a known one again each time another tenth has arrived.
#[derive(Debug, Default)]
pub(super) struct PullLines {
    last: Option<(String, String, u64)>,
}

impl PullLines {
    pub(super) fn line(
        &mut self,
        image: &str,
        status: &str,
        current: Option<u64>,
        total: Option<u64>,
    ) -> Option<Line> {
        let tenths = match (current, total) {
            (Some(current), Some(total)) if total > 0 => {
                u64::try_from(u128::from(current.min(total)) * 10 / u128::from(total)).unwrap_or(10)
            }
            _ => 0,
        };
        let known = self.last.as_ref().is_some_and(|(last_image, last_status, last_tenths)| {
            last_image == image && last_status == status && *last_tenths >= tenths
        });
        if known {
            return None;
        }
        self.last = Some((image.into(), status.into(), tenths));
        let so_far = match (current, total) {
            (Some(current), Some(total)) => {
                format!(" {} of {}", mebibytes(current), mebibytes(total))
            }
            (Some(current), None) => format!(" {}", mebibytes(current)),
            _ => String::new(),
        };
        Some(Line::of(Tone::Faint, format!("Image {image}: {status}{so_far}")))
    }
}

fn mebibytes(bytes: u64) -> String {
    const MEBIBYTE: u64 = 1 << 20;
    format!("{}.{} MiB", bytes / MEBIBYTE, bytes % MEBIBYTE * 10 / MEBIBYTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_shows_each_status_and_each_tenth_once() {
        let mut pull = PullLines::default();
        let mut shown = |status: &str, current: u64| {
            pull.line("i", status, Some(current << 20), Some(100 << 20))
                .map(|line| line.render(false))
        };
        assert_eq!(
            shown("downloading", 1).as_deref(),
            Some("Image i: downloading 1.0 MiB of 100.0 MiB\n")
        );
        assert_eq!(shown("downloading", 5), None);
        assert!(shown("downloading", 10).is_some());
        assert_eq!(shown("downloading", 11), None);
        assert!(shown("extracting", 1).is_some());
    }
}
