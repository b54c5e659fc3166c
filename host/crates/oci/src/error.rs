//! Why a registry gave no component, with stable codes and what to do next.

use std::time::Duration;

use act_core::Failure;

use crate::manifest::MAX_LAYER;
use crate::reference::Digest;

/// Why a transfer failed. No message contains a credential, or text that a registry sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    #[error("{host} cannot be reached: {why}")]
    Unreachable { host: String, why: String },
    #[error("{host} sent nothing for {} s", .waited.as_secs())]
    Stalled { host: String, waited: Duration },
    #[error("the transfer from {host} took more than {} min", .limit.as_secs() / 60)]
    TooSlow { host: String, limit: Duration },
    #[error("{host} answered with the status {status}")]
    Status { host: String, status: u16 },
    #[error("{host} has no {what}")]
    Missing { host: String, what: String },
    #[error("{host} refuses access (status {status}){}", if *.with_credentials { " with your credentials" } else { ", and there are no credentials for it" })]
    Denied { host: String, status: u16, with_credentials: bool },
    #[error("{host} redirects to {to}, {why}")]
    Redirect { host: String, to: String, why: &'static str },
    #[error("{host} wants credentials sent to {realm}, which is another host")]
    Realm { host: String, realm: String },
    #[error("{host} asks for credentials in a way that is not understood")]
    Challenge { host: String },
    #[error("the credentials for {host} cannot be used: {why}")]
    Credentials { host: String, why: String },
    #[error("the certificates for {host} cannot be used: {why}")]
    Certificates { host: String, why: String },
    #[error("{what} is larger than {most} bytes")]
    TooLarge { what: &'static str, most: u64 },
    #[error("{what} has {found}, but {expected} was promised")]
    Differs { what: &'static str, expected: String, found: String },
    #[error("the registry's answer is no manifest of a component: {0}")]
    Layout(String),
}

impl RegistryError {
    pub(crate) fn digest(what: &'static str, expected: &Digest, found: &Digest) -> Self {
        Self::Differs { what, expected: expected.to_string(), found: found.to_string() }
    }

    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } | Self::Status { .. } => "registry_failed",
            Self::Stalled { .. } | Self::TooSlow { .. } => "registry_stalled",
            Self::Missing { .. } => "artifact_missing",
            Self::Denied { .. } | Self::Challenge { .. } => "registry_denied",
            Self::Redirect { .. } => "redirect_refused",
            Self::Realm { .. } => "realm_refused",
            Self::Credentials { .. } | Self::Certificates { .. } => "registry_settings",
            Self::TooLarge { .. } => "artifact_too_large",
            Self::Differs { .. } => "artifact_differs",
            Self::Layout(_) => "artifact_unknown",
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::Unreachable { .. } => "check the host and the network; a private certificate authority is named as `ca` in [registries.\"HOST\"] of config.toml".to_owned(),
            Self::Stalled { .. } | Self::TooSlow { .. } | Self::Status { .. } => {
                "try again later, or ask whoever runs the registry".to_owned()
            }
            Self::Missing { .. } => "check the name and the tag, and whether you may read it".to_owned(),
            Self::Denied { host, .. } => format!("log in with `docker login {host}`"),
            Self::Redirect { .. } => "use the registry's own address, or ask whoever runs it".to_owned(),
            Self::Realm { host, realm } => format!(
                "if that is the token service of {host}, set realm = \"{realm}\" under [registries.\"{host}\"] in config.toml"
            ),
            Self::Challenge { .. } => "act knows Basic and Bearer; ask whoever runs the registry".to_owned(),
            Self::Credentials { host, .. } => format!("correct Docker's config.json, or run `docker login {host}`"),
            Self::Certificates { .. } => "correct `ca` of the registry in config.toml".to_owned(),
            Self::TooLarge { .. } => format!("a component has at most {} MiB", MAX_LAYER >> 20),
            Self::Differs { .. } => "do not use it, and tell whoever runs the registry".to_owned(),
            Self::Layout(_) => {
                "a component has one layer of the type application/wasm, as `act components push` and `wkg oci push` write it"
                    .to_owned()
            }
        }
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}
