//! Records of grants: approvals, revocations, and changes of the file of grants that `act` did not make.

use super::{Audit, AuditError, Decision, Entry, Event, Head, Subject};

/// Maximum number of bytes of one name in a record. A longer name is split.
const LONGEST: usize = 320;

/// The reason of records about a development session.
const DEV: &str = "dev";

/// The grants of one component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub subject: Subject,
    /// One text for each capability: `repo.read`, `llm calls=32 tokens=1000000`; and the limits of the approval, if any:
    /// `replaces NAME`, `repository IDENTITY`.
    pub words: Vec<String>,
    /// SHA-256 of these grants as JSON.
    pub effective_sha256: String,
    /// SHA-256 of the other component that had the name before, if there was one.
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

/// The file of grants as a caller has read it, before it acts on it.
#[derive(Debug, Clone, Copy)]
pub struct GrantsSeen<'a> {
    pub path: &'a str,
    /// SHA-256 of the bytes that were read; [`NO_BYTES`] for a missing file.
    pub sha256: &'a str,
    /// The approvals in force.
    pub approvals: &'a [Approval],
}

impl Audit {
    /// Records an approval before the file of grants is written, synced. `how` is `approved` or `narrowed`, and `sha256` is
    /// the digest that the file will have.
    ///
    /// # Errors
    /// The record cannot be written; the caller must not write the file then.
    pub fn approved(
        &self,
        approval: &Approval,
        how: &str,
        sha256: &str,
    ) -> Result<Head, AuditError> {
        self.changed(approval.entry(Event::ComponentApproved).reason(how), sha256)
    }

    /// Records a revocation before the file of grants is written, synced.
    ///
    /// # Errors
    /// The record cannot be written; the caller must not write the file then.
    pub fn revoked(&self, subject: &Subject, sha256: &str) -> Result<Head, AuditError> {
        let entry = Entry::new(Event::ComponentRevoked).subject(subject).decision(Decision::Deny);
        self.changed(entry, sha256)
    }

    /// Records a component of a development session before it may be loaded, synced. The file of grants stays as it is.
    ///
    /// # Errors
    /// The record cannot be written; the caller must not let the component in then.
    pub fn dev_approved(&self, approval: &Approval) -> Result<(), AuditError> {
        self.append(approval.entry(Event::ComponentApproved).reason(DEV))?;
        self.settle()
    }

    /// Records the end of a development session, synced.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn dev_ended(&self, subject: &Subject) -> Result<(), AuditError> {
        let entry = Entry::new(Event::ComponentRevoked).subject(subject).decision(Decision::Deny);
        self.append(entry.reason(DEV))?;
        self.settle()
    }

    fn changed(&self, entry: Entry, sha256: &str) -> Result<Head, AuditError> {
        let head = self.append(entry.digest("grants", Some(sha256)))?;
        self.settle()?;
        self.log.store_grants(sha256)?;
        Ok(head)
    }

    /// Records, once, that the file of grants differs from what the last approval or revocation wrote, with the grants that
    /// are now in force. Returns whether it differs. Call it before acting on grants.
    ///
    /// # Errors
    /// The record cannot be written; the caller must not act on the grants then.
    pub fn grants_seen(&self, seen: &GrantsSeen<'_>) -> Result<bool, AuditError> {
        let known = self.log.stored_grants()?;
        let nothing = known.is_none() && seen.approvals.is_empty();
        if known.as_deref() == Some(seen.sha256) || nothing {
            return Ok(false);
        }
        let reason = match known {
            None => "first_seen",
            Some(_) if seen.sha256 == NO_BYTES => "gone",
            Some(_) => "changed_outside",
        };
        self.record_all(seen, reason, known.as_deref())?;
        Ok(true)
    }

    /// Records that the file of grants could not be written after its approval or revocation was recorded.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn grants_not_written(&self, seen: &GrantsSeen<'_>) -> Result<(), AuditError> {
        let known = self.log.stored_grants()?;
        self.record_all(seen, "not_written", known.as_deref())
    }

    /// Records the change and every approval in force.
    fn record_all(
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
        self.log.store_grants(seen.sha256)
    }
}

/// SHA-256 of no bytes. It stands for a missing file, which grants as much as an empty one.
pub const NO_BYTES: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Splits a long list into several names, so that the record shows all of it instead of a digest.
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
    use super::super::testing::TempLog;
    use super::*;

    fn approval(name: &str, words: &[&str]) -> Approval {
        let subject = Subject { name: name.to_owned(), sha256: "ab".repeat(32), world: None };
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Approval { subject, words, effective_sha256: "e".to_owned(), before: None }
    }

    fn events(temp: &TempLog) -> Vec<(String, String)> {
        let records = temp.records().into_iter();
        records.map(|record| (record.event, record.reason.unwrap_or_default())).collect()
    }

    // AUDIT-16
    #[test]
    fn every_change_past_a_decision_is_recorded_once_also_that_the_file_is_gone() {
        let place = TempLog::new();
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
        assert_eq!(events(&place), wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    // AUDIT-9
    #[test]
    fn of_a_long_list_every_item_is_there() {
        let origins: Vec<_> = (0..64).map(|n| format!("\"https://api-{n}.example.com\"")).collect();
        let word = format!("http origins=[{}]", origins.join(","));
        let place = TempLog::new();
        place.audit().approved(&approval("probe", &[&word]), "approved", "aa").unwrap();
        let names = place.records()[0].names.join("\n");
        assert!(origins.iter().all(|origin| names.contains(origin)), "{names}");
    }
}
