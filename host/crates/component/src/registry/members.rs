//! Which approved components take part here, or the first reason why one cannot.

use std::fs::File;
use std::path::Path;

use super::shelf::Taken;
use super::{Approval, Refused, Registry, is_reserved};
use crate::{Admitted, ComponentName, Grant, Inspection, Kind, MAX_WASM, Parties, builtin};
use act_config::{ComponentKind, ComponentRequest};
use act_workspace::{Last, Profile, RepoView, digest};

/// A component that may be loaded: the bytes that were approved, and with what.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub name: String,
    pub kind: Kind,
    /// The built-in component whose place it takes.
    pub replaces: Option<String>,
    pub sha256: String,
    /// The inspected bytes and the effective grant.
    pub admitted: Admitted,
}

impl Registry {
    /// Everything that the user approved for here. A request of the repository that is not among it, in exactly
    /// those bytes, is a refusal; nothing else ever comes in its place.
    pub fn members(&self, requests: &[ComponentRequest]) -> Result<Vec<Member>, Refused> {
        for (at, request) in requests.iter().enumerate() {
            can_be_asked_for(request)?;
            if requests.iter().take(at).any(|other| other.name == request.name) {
                let (name, why) = (request.name.clone(), "it is asked for twice".to_owned());
                return Err(Refused::NoSuchName { name, why });
            }
            self.judge(request)?;
        }
        let mut members: Vec<Member> = vec![];
        for approval in self.grants.approvals.iter().filter(|approval| self.is_active(approval)) {
            let member = self.member(approval)?;
            let rival = members
                .iter()
                .find(|other| other.replaces.is_some() && other.replaces == member.replaces);
            if let (Some(rival), Some(builtin)) = (rival, &member.replaces) {
                return Err(Refused::TwoReplace {
                    first: rival.name.clone(),
                    second: member.name,
                    builtin: builtin.clone(),
                });
            }
            members.push(member);
        }
        Ok(members)
    }

    /// What was approved for here in exactly these bytes, under whatever name, to be asked for once. The file is
    /// named in messages alone: what is loaded comes from the store.
    pub fn member_of(&self, file: &Path, sha256: &str) -> Result<Member, Refused> {
        let same =
            |approval: &&Approval| approval.sha256.as_str() == sha256 && self.is_in_scope(approval);
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let (path, sha256) = (path.display().to_string(), sha256.to_owned());
        let mut known: Vec<_> = self.grants.approvals.iter().filter(same).collect();
        // One that was taken back does not speak against another one.
        known.sort_by_key(|approval| approval.revoked_at.is_some());
        match known.first() {
            None => Err(Refused::NeverApproved { path, sha256 }),
            Some(Approval { name, revoked_at: Some(_), .. }) => {
                Err(Refused::Revoked { name: name.to_string(), path: Some(path), sha256 })
            }
            Some(approval) => self.member(approval),
        }
    }

    /// The Scout of this name that is asked by itself, among those that take part here.
    pub fn scout<'m>(&self, name: &str, members: &'m [Member]) -> Result<&'m Member, Refused> {
        let known = members.iter().find(|member| member.name == name);
        let name = name.to_owned();
        if let Some(member) = known {
            let sha256 = member.sha256.clone();
            return match &member.replaces {
                _ if member.kind != Kind::Scout => Err(Refused::NotAScout { name, sha256 }),
                Some(place) => Err(Refused::HasPlace { name, place: place.clone(), sha256 }),
                None => Ok(member),
            };
        }
        Err(match self.grants.of(&name) {
            Some(Approval { sha256, revoked_at: Some(_), .. }) => {
                Refused::Revoked { name, path: None, sha256: sha256.to_string() }
            }
            Some(Approval { sha256, .. }) => {
                Refused::Elsewhere { name, sha256: sha256.to_string() }
            }
            None => Refused::NoScout { name },
        })
    }

    /// Whether what the repository asks for is what the user approved.
    fn judge(&self, request: &ComponentRequest) -> Result<(), Refused> {
        let ComponentRequest { name, sha256, replaces, .. } = request;
        let path = self.place_of(request);
        let found = self.file_digest(request);
        let approval = self.grants.of(name).filter(|approval| self.is_in_scope(approval));
        let other_file = |found: String| Refused::OtherFile {
            name: name.clone(),
            path: path.clone(),
            asked: sha256.clone(),
            found,
        };
        let unapproved = || Refused::Unapproved {
            name: name.clone(),
            sha256: sha256.clone(),
            path: path.clone(),
            replaces: replaces.clone(),
        };
        let Some(approval) = approval else {
            return Err(match found.filter(|found| found != sha256) {
                Some(found) => other_file(found),
                None => unapproved(),
            });
        };
        if approval.revoked_at.is_some() {
            let again = Box::new(unapproved());
            return Err(Refused::RevokedHere { name: name.clone(), again });
        }
        let approved = approval.sha256.to_string();
        if *sha256 != approved {
            let again = Some(Box::new(unapproved()));
            let (name, found) = (name.clone(), sha256.clone());
            return Err(Refused::Changed { name, approved, found, again });
        }
        if let Some(found) = found.filter(|found| *found != approved) {
            return Err(Refused::Changed { name: name.clone(), approved, found, again: None });
        }
        let asked = kind(request.kind);
        if asked != approval.kind {
            return Err(Refused::OtherKind { name: name.clone(), asked, approved: approval.kind });
        }
        let given = approval.replaces.as_ref().map(ToString::to_string);
        if replaces.is_some() && *replaces != given {
            let (name, sha256) = (name.clone(), sha256.clone());
            return Err(Refused::OtherPlace {
                name,
                asked: replaces.clone(),
                approved: given,
                path,
                sha256,
            });
        }
        Ok(())
    }

    fn member(&self, approval: &Approval) -> Result<Member, Refused> {
        let (name, sha256) = (approval.name.to_string(), approval.sha256.to_string());
        let bytes = match self.shelf.take(&approval.sha256) {
            Taken::Bytes(bytes) => bytes,
            Taken::Missing => return Err(Refused::Missing { name, sha256 }),
            Taken::Changed(found) => {
                let found = found.to_string();
                return Err(Refused::Changed { name, approved: sha256, found, again: None });
            }
            Taken::Unreadable(why) => {
                return Err(Refused::StoreDamaged { name, approved: sha256, why });
            }
        };
        let unreadable = |why: String| Refused::Unreadable { name: name.clone(), why };
        let inspection = Inspection::of(bytes).map_err(|error| unreadable(error.to_string()))?;
        if inspection.kind() != approval.kind {
            let (approved, found) = (approval.kind, inspection.kind());
            return Err(Refused::OtherManifest { name, approved, found });
        }
        let admitted = inspection.admit(&approval.grants, &self.policy.ceiling);
        let admitted = admitted.map_err(|why| Refused::NotAdmitted { name: name.clone(), why })?;
        Ok(Member {
            name,
            kind: approval.kind,
            replaces: approval.replaces.as_ref().map(ToString::to_string),
            sha256,
            admitted,
        })
    }

    /// The four parties for one component.
    pub fn parties(&self, inspection: &Inspection, grant: &Grant) -> Parties {
        Parties::new(inspection, grant, &self.policy.ceiling)
    }

    /// Absolute where the repository is known, for a command that works from everywhere.
    fn place_of(&self, request: &ComponentRequest) -> String {
        match &self.repo {
            Some(repo) => repo.root.join(&request.path).display().to_string(),
            None => request.path.clone(),
        }
    }

    /// Of the repository's own file, as far as it can be read there; links out of the repository lead nowhere.
    pub(super) fn file_digest(&self, request: &ComponentRequest) -> Option<String> {
        self.file_bytes(request).map(|bytes| digest(&bytes))
    }

    pub(super) fn file_bytes(&self, request: &ComponentRequest) -> Option<Vec<u8>> {
        let view = RepoView::open(&self.repo.as_ref()?.root, Profile::Tool).ok()?;
        let seen = view.resolve("", &request.path, Last::Follow).ok()?;
        if seen.kind != act_workspace::Kind::File {
            return None;
        }
        act_fs::read_bounded(File::from(seen.fd), MAX_WASM).ok()
    }
}

/// No approval could ever have these names.
fn can_be_asked_for(request: &ComponentRequest) -> Result<(), Refused> {
    let ComponentRequest { name, replaces, .. } = request;
    let why = match replaces {
        _ if name.parse::<ComponentName>().is_err() => {
            "no component has such a name, or so long a one".to_owned()
        }
        _ if is_reserved(name) => "that is a name of our own".to_owned(),
        Some(place) if !builtin::ALL.iter().any(|one| one.name == place) => {
            format!("there is no built-in component `{place}` to replace")
        }
        _ => return Ok(()),
    };
    Err(Refused::NoSuchName { name: name.clone(), why })
}

pub(super) fn kind(kind: ComponentKind) -> Kind {
    match kind {
        ComponentKind::Scout => Kind::Scout,
        ComponentKind::Tool => Kind::Tool,
    }
}
