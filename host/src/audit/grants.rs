//! Who was given which right: approvals, revocations, and changes that were made past both.

use super::{Audit, AuditError, Decision, Entry, Event, Head, Subject};

/// What an approval says.
#[derive(Debug, Clone, Copy)]
pub struct Approval<'a> {
    pub subject: &'a Subject,
    /// In words, one for each capability: `repo.read`, `llm calls=32 tokens=1000000`.
    pub grants: &'a [String],
    /// Of these grants as JSON.
    pub effective_sha256: &'a str,
    /// The version that it takes the place of, if one does.
    pub replaces: Option<&'a str>,
    /// Of the grants file once it says so, in hex.
    pub grants_file_sha256: &'a str,
}

impl Audit {
    /// Before the file of grants is written: without this record nothing is approved. Durable when it returns.
    pub fn approved(&self, approval: &Approval<'_>) -> Result<Head, AuditError> {
        let Approval { subject, grants, effective_sha256, replaces, grants_file_sha256 } =
            *approval;
        let entry = Entry::new(Event::ComponentApproved)
            .subject(subject)
            .decision(Decision::Allow)
            .effective(effective_sha256)
            .names(grants.iter().cloned())
            .digest("replaces", replaces);
        self.changed(entry, grants_file_sha256)
    }

    /// The same for taking it back.
    pub fn revoked(&self, subject: &Subject, grants_file_sha256: &str) -> Result<Head, AuditError> {
        let entry = Entry::new(Event::ComponentRevoked).subject(subject).decision(Decision::Deny);
        self.changed(entry, grants_file_sha256)
    }

    fn changed(&self, entry: Entry, sha256: &str) -> Result<Head, AuditError> {
        let head = self.append(entry.digest("grants", Some(sha256)))?;
        self.settle()?;
        self.log.keep_grants(sha256)?;
        Ok(head)
    }

    /// Whenever grants are read: a file that is not as an approval or a revocation left it was changed by
    /// somebody else, and that is recorded once. `file` is its path, `grants` what it now gives, one for each
    /// component: `NAME SHA256 repo.read, llm`. Answers whether it was.
    pub fn grants_seen(
        &self,
        file: &str,
        sha256: &str,
        grants: &[String],
    ) -> Result<bool, AuditError> {
        let known = self.log.kept_grants()?;
        if known.as_deref() == Some(sha256) {
            return Ok(false);
        }
        let entry = Entry::new(Event::GrantsChanged)
            .object(file)
            .reason(if known.is_some() { "changed_outside" } else { "first_seen" })
            .digest("before", known.as_deref())
            .count("components", grants.len() as u64)
            .names(grants.iter().cloned());
        self.changed(entry, sha256)?;
        Ok(true)
    }
}
