//! Who was given which right: approvals, revocations, and changes that were made past both.

use super::{Audit, AuditError, Decision, Entry, Event, Head, Subject};

/// Bytes of one name in a record; a longer one is told in parts.
const LONGEST: usize = 320;

/// What one component is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub subject: Subject,
    /// In words, one for each capability: `repo.read`, `llm calls=32 tokens=1000000`; and where it holds, if not
    /// everywhere in its own name: `replaces NAME`, `repository IDENTITY`.
    pub words: Vec<String>,
    /// Of these grants as JSON.
    pub effective_sha256: String,
    /// The bytes that had the name before, if others had.
    pub before: Option<String>,
}

impl Approval {
    fn entry(&self, event: Event) -> Entry {
        Entry::new(event)
            .subject(&self.subject)
            .decision(Decision::Allow)
            .effective(&self.effective_sha256)
            .names(self.words.iter().flat_map(|word| parts(word)))
            .digest("before", self.before.as_deref())
    }
}

/// The file of grants as somebody is about to act on it.
#[derive(Debug, Clone, Copy)]
pub struct GrantsSeen<'a> {
    pub path: &'a str,
    /// Of the very bytes that were read; of no bytes where there is no file.
    pub sha256: &'a str,
    /// What is in force.
    pub approvals: &'a [Approval],
}

impl Audit {
    /// Before the file of grants is written: without this record nothing is approved. `how` is `approved` or
    /// `narrowed`, `sha256` of the file once it says so. Durable when it returns.
    pub fn approved(
        &self,
        approval: &Approval,
        how: &str,
        sha256: &str,
    ) -> Result<Head, AuditError> {
        self.changed(approval.entry(Event::ComponentApproved).reason(how), sha256)
    }

    /// The same for taking it back.
    pub fn revoked(&self, subject: &Subject, sha256: &str) -> Result<Head, AuditError> {
        let entry = Entry::new(Event::ComponentRevoked).subject(subject).decision(Decision::Deny);
        self.changed(entry, sha256)
    }

    fn changed(&self, entry: Entry, sha256: &str) -> Result<Head, AuditError> {
        let head = self.append(entry.digest("grants", Some(sha256)))?;
        self.settle()?;
        self.log.keep_grants(sha256)?;
        Ok(head)
    }

    /// Before anything acts on grants: a file that is not as an approval or a revocation left it was changed by
    /// somebody else, and that is recorded once, with what it now gives. Answers whether it was.
    pub fn grants_seen(&self, seen: &GrantsSeen<'_>) -> Result<bool, AuditError> {
        let known = self.log.kept_grants()?;
        let nothing = known.is_none() && seen.approvals.is_empty();
        if known.as_deref() == Some(seen.sha256) || nothing {
            return Ok(false);
        }
        let reason = match known {
            None => "first_seen",
            Some(_) if seen.sha256 == NO_BYTES => "gone",
            Some(_) => "changed_outside",
        };
        self.restated(seen, reason, known.as_deref())?;
        Ok(true)
    }

    /// What was recorded of a decision did not become the file, which still says this.
    pub fn grants_not_written(&self, seen: &GrantsSeen<'_>) -> Result<(), AuditError> {
        let known = self.log.kept_grants()?;
        self.restated(seen, "not_written", known.as_deref())
    }

    fn restated(
        &self,
        seen: &GrantsSeen<'_>,
        reason: &str,
        before: Option<&str>,
    ) -> Result<(), AuditError> {
        let name = |approval: &Approval| {
            let Subject { name, sha256, .. } = &approval.subject;
            format!("{name} {sha256}")
        };
        let entry = Entry::new(Event::GrantsChanged)
            .object(seen.path)
            .reason(reason)
            .digest("before", before)
            .digest("grants", Some(seen.sha256))
            .count("components", seen.approvals.len() as u64)
            .names(seen.approvals.iter().map(name));
        self.append(entry)?;
        for approval in seen.approvals {
            self.append(approval.entry(Event::ComponentGranted))?;
        }
        self.settle()?;
        self.log.keep_grants(seen.sha256)
    }
}

/// The digest of nothing: of a file that is not there, which grants as much as an empty one.
pub const NO_BYTES: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A long list is told in parts, so that none of it is only a digest.
fn parts(word: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for item in word.split_inclusive(',') {
        match parts.last_mut() {
            Some(part) if part.is_empty() || part.len() + item.len() <= LONGEST => {
                part.push_str(item);
            }
            _ => parts.push(format!("and {item}")),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::testing::Place;
    use super::*;

    fn approval(name: &str, words: &[&str]) -> Approval {
        let subject = Subject { name: name.to_owned(), sha256: "ab".repeat(32), world: None };
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Approval { subject, words, effective_sha256: "e".to_owned(), before: None }
    }

    fn told(place: &Place) -> Vec<(String, String)> {
        let told = place.records().into_iter();
        told.map(|record| (record.event, record.reason.unwrap_or_default())).collect()
    }

    // AUDIT-16
    #[test]
    fn every_change_past_a_decision_is_recorded_once_also_that_the_file_is_gone() {
        let place = Place::new();
        let audit = place.audit();
        let one = [approval("probe", &["repo.read"])];
        let seen = |sha256, approvals| GrantsSeen { path: "grants.toml", sha256, approvals };
        assert!(!audit.grants_seen(&seen(NO_BYTES, &[])).unwrap(), "there was never any");
        audit.approved(&one[0], "approved", "aa").unwrap();
        assert!(!audit.grants_seen(&seen("aa", &one)).unwrap());
        assert!(audit.grants_seen(&seen("bb", &one)).unwrap());
        assert!(!audit.grants_seen(&seen("bb", &one)).unwrap());
        assert!(audit.grants_seen(&seen(NO_BYTES, &[])).unwrap());
        assert!(audit.grants_seen(&seen("bb", &one)).unwrap(), "and that it is back");
        let wanted = [
            ("component_approved", "approved"),
            ("grants_changed", "changed_outside"),
            ("component_granted", ""),
            ("grants_changed", "gone"),
            ("grants_changed", "changed_outside"),
            ("component_granted", ""),
        ];
        assert_eq!(told(&place), wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    // AUDIT-9
    #[test]
    fn of_a_long_list_every_item_is_there() {
        let origins: Vec<_> = (0..64).map(|n| format!("\"https://api-{n}.example.com\"")).collect();
        let word = format!("http origins=[{}]", origins.join(","));
        let place = Place::new();
        place.audit().approved(&approval("probe", &[&word]), "approved", "aa").unwrap();
        let names = place.records()[0].names.join("\n");
        assert!(origins.iter().all(|origin| names.contains(origin)), "{names}");
    }
}
